use flow_core::flow;

struct Click {
    user: String,
}

#[flow]
fn count(count: Option<u64>, _click: &Click) -> Option<u64> {
    count
}

fn main() {}
