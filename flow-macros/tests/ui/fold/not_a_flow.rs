use flow_core::{Topic, TopologyBuilder};
use serde::{Deserialize, Serialize};

const CLICKS: Topic<String, Click> = Topic::new("clicks");

#[derive(Serialize, Deserialize)]
struct Click;

struct Sessions;

fn topology(topology: &TopologyBuilder) {
    let _ = topology.stream(CLICKS).flow(Sessions);
}

fn main() {}
