use flow_core::flow;

const COUNTS: &str = "counts";

struct Click {
    user: String,
}

#[flow(Counts, name = COUNTS)]
fn count(count: Option<u64>, _click: &Click) -> Option<u64> {
    count
}

fn main() {}
