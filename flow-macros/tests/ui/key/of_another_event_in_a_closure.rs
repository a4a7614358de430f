use flow_core::flow;

struct Click {
    user: String,
}

struct Order {
    user: String,
}

#[flow(Counts, name = "counts", key = |order: &Order| -> String { order.user.clone() })]
fn count(count: Option<u64>, _click: &Click) -> Option<u64> {
    count
}

fn main() {}
