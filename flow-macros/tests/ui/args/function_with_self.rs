use flow_core::flow;

struct Click {
    user: String,
}

struct Sessions;

impl Sessions {
    #[flow(Counts, name = "counts")]
    fn click(&self, count: Option<u64>, _click: &Click) -> Option<u64> {
        count
    }
}

fn main() {}
