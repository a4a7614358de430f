use flow_core::flow;

struct Click {
    user: String,
}

#[flow(Counts, name = "counts")]
fn count(count: Option<u64>, _click: &Click) -> u64 {
    count.unwrap_or(0) + 1
}

fn main() {}
