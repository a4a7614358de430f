use flow_core::flow;

struct Click {
    user: String,
}

#[flow(Totals, name = "totals", state_version = 2, upgrades = [|old: u32| u64::from(old)])]
fn total(total: Option<u64>, _click: &Click) -> Option<u64> {
    total
}

fn main() {}
