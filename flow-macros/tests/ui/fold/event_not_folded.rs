use flow_core::{Topic, TopologyBuilder, flow};
use serde::{Deserialize, Serialize};

const ORDERS: Topic<String, Order> = Topic::new("orders");

struct Click;

#[derive(Serialize, Deserialize)]
struct Order;

struct Sessions;

#[flow(name = "sessions")]
impl Sessions {
    #[fold]
    fn click(count: Option<u64>, _click: &Click) -> Option<u64> {
        count
    }
}

fn topology(topology: &TopologyBuilder) {
    let _ = topology.stream(ORDERS).flow(Sessions);
}

fn main() {}
