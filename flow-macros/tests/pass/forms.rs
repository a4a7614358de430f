use flow_core::{Context, StepError, Timer, Timestamp, flow};
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub struct Click {
    user: String,
    at: Timestamp,
}

/// Counts clicks per user.
#[flow(
    ClicksPerUser,
    name = "clicks-per-user",
    key = |click: &Click| -> String { click.user.clone() },
)]
pub fn count_click(count: Option<u64>, _click: &Click) -> Option<u64> {
    Some(count.unwrap_or(0) + 1)
}

#[flow(Short, name = "short", key = |click: &Click| -> &str { if click.user.is_empty() { return "x"; } &click.user }, state_version = 2)]
fn short(_count: Option<u64>, _click: &Click, cx: &mut Context<u64>) -> Result<Option<u64>, StepError> {
    cx.emit(1);
    let count: u64 = "1".parse()?;
    Ok(Some(count))
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Session {
    clicks: u64,
}
pub struct SessionClosed {
    clicks: u64,
}
pub struct Order {
    user: String,
}

/// Closes a user's session after a while without clicks.
pub struct Sessions {
    idle_after: Duration,
}

#[flow(name = "sessions")]
impl Sessions {
    const IDLE: Timer = Timer::event_time("idle");

    #[key]
    fn user(click: &Click) -> String {
        click.user.clone()
    }

    #[fold]
    fn click(&self, session: Option<Session>, click: &Click, cx: &mut Context<SessionClosed>) -> Option<Session> {
        cx.set_timer(Self::IDLE, click.at + self.idle_after);
        let mut session = session.unwrap_or_else(|| Session { clicks: 0 });
        session.clicks += 1;
        Some(session)
    }

    #[fold]
    fn order(session: Option<Session>, order: &Order) -> Result<Option<Session>, std::num::ParseIntError> {
        let _n: u32 = order.user.parse()?;
        Ok(session)
    }

    #[timer(Self::IDLE)]
    fn close(&self, session: Session, cx: &mut Context<SessionClosed>) -> Option<Session> {
        cx.emit(SessionClosed { clicks: session.clicks });
        None // forgets the key, and its timers with it
    }
}

fn main() {}
