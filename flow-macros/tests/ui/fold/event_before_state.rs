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
    #[fold]
    fn click(_click: &Click, session: Option<Session>) -> Option<Session> {
        session
    }
}

fn main() {}
