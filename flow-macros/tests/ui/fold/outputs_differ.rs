use flow_core::{Context, flow};
use serde::{Deserialize, Serialize};

struct Click {
    user: String,
}

struct Order {
    user: String,
}

struct Closed {
    clicks: u64,
}

#[derive(Clone, Serialize, Deserialize)]
struct Session {
    clicks: u64,
}

struct Sessions;

#[flow(name = "sessions")]
impl Sessions {
    #[fold]
    fn click(session: Option<Session>, _click: &Click, _cx: &mut Context<Closed>) -> Option<Session> {
        session
    }

    #[fold]
    fn order(session: Option<Session>, _order: &Order, cx: &mut Context<u64>) -> Option<Session> {
        cx.emit(1);
        session
    }
}

fn main() {}
