use flow_core::{Topic, flow};

const CLICKS: Topic<String, Click> = Topic::new("clicks");
const COUNTS: Topic<String, u64> = Topic::new("counts");

struct Click {
    user: String,
}

#[flow(Counts, name = "counts", from = CLICKS, to = COUNTS)]
fn count(count: Option<u64>, _click: &Click) -> Option<u64> {
    count
}

fn main() {}
