use flow_core::flow;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct Session {
    clicks: u64,
}

struct Sessions;

#[flow(name = "sessions")]
impl Sessions {
    #[fold]
    fn click(session: Option<Session>, _event: &impl Clone) -> Option<Session> {
        session
    }
}

fn main() {}
