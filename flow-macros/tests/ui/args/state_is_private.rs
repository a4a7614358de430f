use flow_core::flow;
use serde::{Deserialize, Serialize};

pub struct Click {
    user: String,
}

#[derive(Clone, Serialize, Deserialize)]
struct Session {
    clicks: u64,
}

pub struct Sessions;

#[flow(name = "sessions")]
impl Sessions {
    #[fold]
    fn click(session: Option<Session>, _click: &Click) -> Option<Session> {
        session
    }
}

fn main() {}
