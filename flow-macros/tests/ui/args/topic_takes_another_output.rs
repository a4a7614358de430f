use flow_core::{Context, Topic, flow};
use serde::{Deserialize, Serialize};

const CLICKS: Topic<String, Click> = Topic::new("clicks");
const TOTALS: Topic<String, String> = Topic::new("totals");

#[derive(Serialize, Deserialize)]
struct Click {
    user: String,
}

#[flow(Counts, name = "counts", from = CLICKS, to = TOTALS)]
fn count(count: Option<u64>, _click: &Click, cx: &mut Context<u64>) -> Option<u64> {
    cx.emit(1);
    count
}

fn main() {}
