use flow_core::flow;
use serde::{Deserialize, Serialize};

struct Click {
    user: String,
}

struct Order {
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
    fn click(session: Option<Session>, _click: &Click) -> Option<Session> {
        session
    }

    #[fold]
    fn order(count: Option<u64>, _order: &Order) -> Option<u64> {
        count
    }
}

fn main() {}
