//! Flows stand in functions, come out of `macro_rules!` macros, and live beside names of their own.

#![deny(warnings)]
#![allow(dead_code)]

use flow_core::{Context, Fold, flow};

struct Click {
    user: String,
}

/// The user's own names are not the macro's.
mod shadows {
    use super::Click;

    pub(super) struct Option;
    pub(super) struct Result;
    pub(super) struct Vec;
    pub(super) struct Json;
    pub(super) trait Flow {}
    pub(super) trait Clone {}

    pub(super) fn key(click: &Click) -> String {
        click.user.clone()
    }

    #[flow_core::flow(Counts, name = "counts", key = |click: &Click| -> String { key(click) })]
    pub(super) fn fold(count: std::option::Option<u64>, _event: &Click) -> core::option::Option<u64> {
        count
    }

    pub(super) struct State;

    #[flow_core::flow(name = "state")]
    impl State {
        #[flow_core::key]
        fn key(event: &Click) -> &str {
            &event.user
        }

        #[flow_core::fold]
        fn fold(self: &Self, state: std::option::Option<u64>, event: &Click) -> std::option::Option<u64> {
            state.map(|state| state + event.user.len() as u64)
        }
    }
}

macro_rules! counter {
    ($flow:ident, $name:literal, $event:ty, $state:ty) => {
        #[flow($flow, name = $name)]
        pub fn count(count: Option<$state>, _event: &$event) -> Option<$state> {
            count
        }
    };
}

mod counted {
    use super::{Click, flow};
    counter!(Counts, "counts", Click, u64);
    pub(super) const FLOW: Counts = Counts;
}

macro_rules! annotated {
    ($item:item) => {
        #[flow(name = "sessions")]
        $item
    };
}

struct Sessions;

annotated! {
    impl Sessions {
        #[fold]
        fn click(session: Option<u64>, _click: &Click, cx: &mut Context<u64>) -> Option<u64> {
            cx.emit(1);
            session
        }
    }
}

/// Members that are no functions stay as they are.
struct Mixed;

#[flow(name = "mixed")]
/// A doc comment after the attribute.
impl Mixed {
    #![allow(clippy::all)]

    pub const LIMIT: u64 = {
        let limit = 3;
        limit * 2
    };

    #[fold]
    pub(crate) fn click(state: Option<u64>, _click: &Click) -> Option<u64> {
        state.filter(|state| *state < Self::LIMIT)
    }

    const fn helper(self, mut state: u64) -> u64 {
        state += Self::LIMIT;
        state
    }
}

fn is_a_flow(_: &impl Fold<Click>) {}

fn main() {
    #[flow(Local, name = "local", key = |click: &Click| -> i64 { click.user.len() as i64 })]
    fn local(count: Option<u64>, _click: &Click) -> Option<u64> {
        count
    }
    is_a_flow(&Local);
    is_a_flow(&shadows::Counts);
    is_a_flow(&shadows::State);
    is_a_flow(&counted::FLOW);
    is_a_flow(&Sessions);
    is_a_flow(&Mixed);
    assert_eq!(Mixed.helper(1), 7);
}
