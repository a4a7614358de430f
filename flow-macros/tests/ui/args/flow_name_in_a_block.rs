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

#[flow(Sessions, name = "sessions")]
impl Sessions {
    #[fold]
    fn click(session: Option<Session>, _click: &Click) -> Option<Session> {
        session
    }
}

fn main() {}
