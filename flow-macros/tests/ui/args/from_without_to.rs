use flow_core::{Context, Topic, flow};

const CLICKS: Topic<String, Click> = Topic::new("clicks");

struct Click {
    user: String,
}

#[flow(Counts, name = "counts", from = CLICKS)]
fn count(count: Option<u64>, _click: &Click, cx: &mut Context<u64>) -> Option<u64> {
    cx.emit(1);
    count
}

fn main() {}
