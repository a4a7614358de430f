use flow_core::{Timer, flow};
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
    const IDLE: Timer = Timer::event_time("idle");

    #[fold]
    fn click(session: Option<Session>, _click: &Click) -> Option<Session> {
        session
    }

    #[timer]
    fn close(&self, _session: Session) -> Option<Session> {
        None
    }
}

fn main() {}
