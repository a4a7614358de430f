use flow_core::{fold, key, timer};

struct Click {
    user: String,
}

struct Sessions;

impl Sessions {
    #[key]
    fn user(click: &Click) -> String {
        click.user.clone()
    }

    #[fold]
    fn click(count: Option<u64>, _click: &Click) -> Option<u64> {
        count
    }

    #[timer(Self::IDLE)]
    fn close(_count: u64) -> Option<u64> {
        None
    }
}

fn main() {}
