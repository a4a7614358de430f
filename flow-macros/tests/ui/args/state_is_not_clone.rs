use flow_core::flow;
use serde::{Deserialize, Serialize};

struct Click {
    user: String,
}

#[derive(Serialize, Deserialize)]
struct Count {
    clicks: u64,
}

#[flow(Counts, name = "counts")]
fn count(count: Option<Count>, _click: &Click) -> Option<Count> {
    count
}

fn main() {}
