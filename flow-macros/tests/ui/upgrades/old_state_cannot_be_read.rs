use flow_core::flow;

struct Click {
    user: String,
}

struct Old {
    total: u64,
}

fn counted(old: Old) -> u64 {
    old.total
}

#[flow(Totals, name = "totals", state_version = 2, upgrades = [counted])]
fn total(total: Option<u64>, _click: &Click) -> Option<u64> {
    total
}

fn main() {}
