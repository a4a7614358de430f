use flow_core::{Context, flow};
use serde::{Deserialize, Serialize};

struct Click {
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
    fn click(session: Option<Session>, _click: &Click, _cx: &mut Context<Closed>, _n: u64) -> Option<Session> {
        session
    }
}

fn main() {}
