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

trait Clicked {
    fn click(session: Option<Session>, click: &Click) -> Option<Session>;
}

#[flow(name = "sessions")]
impl Clicked for Sessions {
    #[fold]
    fn click(session: Option<Session>, _click: &Click) -> Option<Session> {
        session
    }
}

fn main() {}
