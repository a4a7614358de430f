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
    fn click<E>(session: Option<Session>, _event: &E) -> Option<Session> {
        session
    }
}

fn main() {}
