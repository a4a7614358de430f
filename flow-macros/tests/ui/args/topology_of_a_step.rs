use flow_core::{Topology, flow};

struct Click;

#[flow(Counts, name = "counts")]
fn count(count: Option<u64>, _click: &Click) -> Option<u64> {
    count
}

fn main() {
    let _ = Topology::of(Counts);
}
