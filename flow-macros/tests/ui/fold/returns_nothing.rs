use flow_core::flow;

struct Click {
    user: String,
}

#[flow(Counts, name = "counts")]
fn count(_count: Option<u64>, _click: &Click) {}

fn main() {}
