use flow_core::{Topic, flow};
use serde::{Deserialize, Serialize};

const ORDERS: Topic<String, Order> = Topic::new("orders");

struct Click {
    user: String,
}

#[derive(Serialize, Deserialize)]
struct Order {
    user: String,
}

#[flow(Counts, name = "counts", from = ORDERS)]
fn count(count: Option<u64>, _click: &Click) -> Option<u64> {
    count
}

fn main() {}
