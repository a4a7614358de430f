//! Generated code is quiet under the lints of a strict crate.

#![forbid(unsafe_code)]
#![deny(
    warnings,
    missing_docs,
    missing_debug_implementations,
    missing_copy_implementations,
    unreachable_pub,
    unused_qualifications,
    unused_results,
    single_use_lifetimes,
    unused_lifetimes,
    elided_lifetimes_in_paths,
    trivial_casts,
    let_underscore_drop,
    variant_size_differences
)]

use flow_core::{Context, Fold, StepError, Timer, flow};

/// A click.
#[derive(Debug)]
pub struct Click {
    user: String,
}

/// Counts.
#[flow(Counts, name = "counts", key = |click: &Click| -> &str { &click.user })]
pub(crate) fn count(count: Option<u64>, _click: &Click) -> Option<u64> {
    count
}

#[flow(Undocumented, name = "undocumented")]
fn undocumented(count: Option<u64>, _click: &Click, cx: &mut Context<u64>) -> Result<Option<u64>, StepError> {
    cx.emit(1);
    Ok(count)
}

#[derive(Debug, Clone, Copy)]
struct Sessions;

#[flow(name = "sessions")]
impl Sessions {
    const IDLE: Timer = Timer::event_time("idle");

    #[key]
    fn user(click: &Click) -> String {
        click.user.clone()
    }

    #[fold]
    fn click(&self, count: Option<u64>, _click: &Click) -> Option<u64> {
        count
    }

    #[timer(Self::IDLE)]
    fn close(&self, _count: u64, cx: &mut Context<u64>) -> Option<u64> {
        cx.emit(1);
        None
    }
}

fn is_a_flow(_: &impl Fold<Click>) {}

fn main() {
    is_a_flow(&Counts);
    is_a_flow(&Undocumented);
    is_a_flow(&Sessions);
}
