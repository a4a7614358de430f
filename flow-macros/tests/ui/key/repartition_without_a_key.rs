use flow_core::{Topic, flow};

const CLICKS: Topic<String, Click> = Topic::new("clicks");

struct Click {
    user: String,
}

#[flow(Counts, name = "counts", from = CLICKS, repartition = "clicks-by-user")]
fn count(count: Option<u64>, _click: &Click) -> Option<u64> {
    count
}

fn main() {}
