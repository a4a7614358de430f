//! The flow of `sessions`, without the macro: everything that `#[flow]` writes, spelled out.
//!
//! Nothing in here is hidden API. Read it to see what the annotation stands for, or write flows like this where you want the state by
//! reference, a codec of your own, or generics that the macro does not take.

use std::process::ExitCode;
use std::time::Duration;

use examples::clicks::{self, CLICKS, CLOSED, Click, IDLE_AFTER, Session, SessionClosed};
use examples::{Example, Run, Times};
use flow_core::{Codec, Context, Flow, Fold, Json, Key, StepError, Timer, Topology, TopologyBuilder, TopologyError};

struct Sessions {
    idle_after: Duration,
}

const IDLE: Timer = Timer::event_time("idle");

/// What the flow keeps and writes.
impl Flow for Sessions {
    const NAME: &'static str = "sessions";
    const TIMERS: &'static [Timer] = &[IDLE];
    type State = Session;
    type Codec = Json;
    type Out = SessionClosed;

    /// One function for all timers: it asks which one fired.
    fn timer(
        &self,
        timer: Timer,
        state: &mut Option<Session>,
        cx: &mut Context<SessionClosed>,
    ) -> Result<(), StepError> {
        match timer {
            IDLE => {
                if let Some(session) = state.take() {
                    cx.emit(session.closed());
                }
                Ok(())
            }
            other => Err(StepError::new(format!("`{other:?}` is no timer of this flow"))),
        }
    }
}

/// What one kind of event does to the state. A flow that reads several topics has one of these for each event type.
impl Fold<Click> for Sessions {
    /// The key that the event names itself: the engine compares it with the record's.
    fn key(&self, click: &Click, out: &mut Vec<u8>) -> Result<bool, StepError> {
        <<String as Key>::Codec as Codec<String>>::encode(&click.user, out)?;
        Ok(true)
    }

    /// The state by reference: `None` is a user seen for the first time, and to leave `None` behind is to forget them.
    fn fold(
        &self,
        state: &mut Option<Session>,
        click: &Click,
        cx: &mut Context<SessionClosed>,
    ) -> Result<(), StepError> {
        let session = Session::with(state.take(), click);
        cx.set_timer(IDLE, session.to + self.idle_after);
        *state = Some(session);
        Ok(())
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
        name: "by_hand",
        about: "What `sessions` does, with the flow written by hand instead of by the macro.",
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
