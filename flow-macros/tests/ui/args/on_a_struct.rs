use flow_core::flow;

#[flow(name = "sessions")]
struct Sessions {
    idle_after: u64,
}

fn main() {}
