use flow_core::flow;

struct Click {
    user: String,
}

fn widened(old: u16) -> u32 {
    old.into()
}

#[flow(Totals, name = "totals", state_version = 2, upgrades = [widened])]
fn total(total: Option<u64>, _click: &Click) -> Option<u64> {
    total
}

fn main() {}
