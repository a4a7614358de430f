use flow_core::flow;

struct Click {
    user: String,
}

#[derive(Clone)]
struct Count {
    clicks: u64,
}

#[flow(Counts, name = "counts")]
fn count(count: Option<Count>, _click: &Click) -> Option<Count> {
    count
}

fn main() {}
