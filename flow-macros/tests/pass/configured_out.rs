//! What is generated comes and goes with the item, and with each member.

#![allow(unexpected_cfgs)]
#![deny(warnings)]

use flow_core::{Flow, Fold, Timer, flow};

struct Click {
    user: String,
}

#[flow(Never, name = "never", key = |click: &Gone| -> String { click.user.clone() })]
#[cfg(any())]
fn never(count: Option<Gone>, _click: &Gone) -> Option<Gone> {
    count
}

struct Clicks;

#[flow(name = "clicks")]
impl Clicks {
    #[cfg(any())]
    const GONE: Timer = Timer::event_time("gone");
    const IDLE: Timer = Timer::event_time("idle");

    #[key]
    #[cfg(all())]
    fn user(click: &Click) -> &str {
        &click.user
    }

    #[fold]
    fn click(count: Option<u64>, _click: &Click) -> Option<u64> {
        count
    }

    #[cfg(any())]
    #[fold]
    fn gone(count: Option<u64>, _gone: &Gone) -> Option<u64> {
        count
    }

    #[timer(Self::IDLE)]
    fn idle(_count: u64) -> Option<u64> {
        None
    }

    #[timer(Self::GONE)]
    #[cfg(any())]
    fn gone(_count: u64) -> Option<u64> {
        None
    }
}

fn is_a_flow<E>(_: &(impl Flow + Fold<E>)) {}

fn main() {
    is_a_flow::<Click>(&Clicks);
    assert_eq!(Clicks::TIMERS, [Clicks::IDLE]);
}
