use flow_core::{Flow, Fold, flow};

struct Click {
    user: String,
}

#[flow(Counts)]
fn count(count: Option<u64>, _click: &Click) -> Option<u64> {
    count
}

fn place(_: impl Flow<State = u64> + Fold<Click>) {}

fn places_it_all_the_same() {
    place(Counts);
}

fn main() {}
