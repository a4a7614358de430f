use flow_core::flow;

struct Click {
    user: String,
}

#[flow(Counts, name = "counts")]
fn count(count: u64, _click: &Click) -> Option<u64> {
    Some(count + 1)
}

fn main() {}
