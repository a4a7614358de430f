use flow_core::{Context, Topic, flow};

const COUNTS: Topic<String, u64> = Topic::new("counts");

struct Click {
    user: String,
}

#[flow(Counts, name = "counts", to = COUNTS)]
fn count(count: Option<u64>, _click: &Click, cx: &mut Context<u64>) -> Option<u64> {
    cx.emit(1);
    count
}

fn main() {}
