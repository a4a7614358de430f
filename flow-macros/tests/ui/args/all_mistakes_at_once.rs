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

#[flow(state_version = "two")]
impl Sessions {
    #[key]
    fn user(click: Click) -> String {
        click.user
    }

    #[fold]
    async fn click(&mut self, session: Session, _click: &Click, _cx: Context<Closed>) -> Option<Session> {
        Some(session)
    }

    #[timer("idle")]
    fn close(&self, _session: Session) -> Option<Session> {
        None
    }
}

fn main() {}
