use flow_core::flow;

#[flow(Counts, name = "counts")]
fn count<E>(count: Option<u64>, _event: &E) -> Option<u64> {
    count
}

fn main() {}
