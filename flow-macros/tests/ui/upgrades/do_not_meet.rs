use flow_core::flow;

struct Click {
    user: String,
}

fn shortened(old: u8) -> u16 {
    old.into()
}

fn widened(old: u32) -> u64 {
    old.into()
}

#[flow(Totals, name = "totals", state_version = 3, upgrades = [shortened, widened])]
fn total(total: Option<u64>, _click: &Click) -> Option<u64> {
    total
}

fn main() {}
