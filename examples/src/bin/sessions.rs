//! Sessions of users: an annotated impl block with a timer.
//!
//! A session begins with a click and ends when its user has not clicked for half an hour. The end is a timer, a part of the user's
//! state: it is saved with it, survives a crash with it, and is forgotten with it.

use std::process::ExitCode;
use std::time::Duration;

use examples::clicks::{self, CLICKS, CLOSED, Click, IDLE_AFTER, Session, SessionClosed};
use examples::{Example, Run, Times};
use flow_core::{Context, Timer, Topology, TopologyBuilder, TopologyError, flow};

/// Closes a user's session after a while without clicks. What never changes is a field; what changes is the state.
struct Sessions {
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
        let session = Session::with(session, click);
        cx.set_timer(Self::IDLE, session.to + self.idle_after); // a later click moves it
        Some(session)
    }

    #[timer(Self::IDLE)]
    fn close(&self, session: Session, cx: &mut Context<SessionClosed>) -> Option<Session> {
        cx.emit(session.closed());
        None // forgets the user, until the next click
    }
}

fn topology(run: &Run) -> Result<Topology, TopologyError> {
    let topology = TopologyBuilder::new();
    let sessions = Sessions { idle_after: IDLE_AFTER };
    topology.stream(run.topic(CLICKS)).flow(sessions).to(run.topic(CLOSED));
    topology.build()
}

fn main() -> ExitCode {
    Example {
        name: "sessions",
        about: "Folds clicks into sessions, which a timer closes after half an hour without a click,\nand compares every closed session with what a plain loop computes.",
        input_topic: CLICKS.name(),
        output_topic: CLOSED.name(),
        results: "sessions closed",
        topology,
        input: clicks::input,
        expected: clicks::expected,
        times: Times::InOrder,
    }
    .main()
}
