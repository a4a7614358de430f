use flow_core::{Topic, flow};
use serde::{Deserialize, Serialize};

const CLICKS: Topic<String, Click> = Topic::new("clicks");

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

#[flow(name = "sessions", from = CLICKS)]
impl Sessions {
    #[fold]
    fn click(session: Option<Session>, _click: &Click) -> Option<Session> {
        session
    }

    #[fold]
    fn order(session: Option<Session>, _order: &Order) -> Option<Session> {
        session
    }
}

fn main() {}
