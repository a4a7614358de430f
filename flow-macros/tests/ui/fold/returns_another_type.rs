use flow_core::flow;

struct Click {
    user: String,
}

#[flow(Counts, name = "counts")]
fn count(_count: Option<u64>, click: &Click) -> Option<String> {
    Some(click.user.clone())
}

fn main() {}
