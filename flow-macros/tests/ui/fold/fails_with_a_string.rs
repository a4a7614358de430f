use flow_core::flow;

struct Click {
    user: String,
}

#[flow(Counts, name = "counts")]
fn count(_count: Option<u64>, click: &Click) -> Result<Option<u64>, String> {
    Err(click.user.clone())
}

fn main() {}
