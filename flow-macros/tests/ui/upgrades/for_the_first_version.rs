use flow_core::flow;

struct Click {
    user: String,
}

fn widened(old: u32) -> u64 {
    old.into()
}

#[flow(Totals, name = "totals", state_version = 1, upgrades = [widened])]
fn total(total: Option<u64>, _click: &Click) -> Option<u64> {
    total
}

fn main() {}
