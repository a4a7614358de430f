//! `crate = ..` for those who call flow-core something else, or re-export it.

extern crate flow_core as streams;

mod reexport {
    pub extern crate flow_core as inner;
}

struct Click {
    user: String,
}

#[streams::flow(Counts, name = "counts", crate = streams, key = |click: &Click| -> &str { &click.user })]
fn count(count: Option<u64>, _click: &Click) -> Option<u64> {
    count
}

struct Sessions;

#[reexport::inner::flow(name = "sessions", crate = crate::reexport::inner)]
impl Sessions {
    const IDLE: streams::Timer = streams::Timer::event_time("idle");

    #[key]
    fn user(click: &Click) -> String {
        click.user.clone()
    }

    #[reexport::inner::fold]
    fn click(&self, count: Option<u64>, _click: &Click) -> Option<u64> {
        count
    }

    #[flow_core::timer(Self::IDLE)]
    fn close(&self, _count: u64) -> Option<u64> {
        None
    }
}

/// What a crate's macro writes for crates that do not depend on flow-core.
macro_rules! counter {
    ($flow:ident) => {
        #[$crate::reexport::inner::flow($flow, name = "counter", crate = $crate::reexport::inner, key = |click: &Click| -> &str {
            &click.user
        })]
        fn counter(count: Option<u64>, _click: &Click) -> Option<u64> {
            count
        }
    };
}

counter!(Counter);

fn is_a_flow(_: &impl streams::Fold<Click>) {}

fn main() {
    is_a_flow(&Counts);
    is_a_flow(&Sessions);
    is_a_flow(&Counter);
}
