use flow_core::flow;
use serde::{Deserialize, Serialize};

struct Click {
    user: String,
}

#[derive(Clone, Serialize, Deserialize)]
struct Session {
    clicks: u64,
}

struct Sessions;

#[flow(name = "sessions")]
impl Sessions {
    const IDLE: u64 = 30;

    #[fold]
    fn click(session: Option<Session>, _click: &Click) -> Option<Session> {
        session
    }

    #[timer(Self::IDLE)]
    fn close(&self, _session: Session) -> Option<Session> {
        None
    }
}

fn main() {}
