//! A state with a past, in each of the forms that say so.

use flow_core::{BigEndian, Context, Flow, Json, Upgrades, flow};
use serde::{Deserialize, Serialize};

pub struct Click {
    page: String,
}

/// Version 1 was the number of clicks alone, and this version 2.
#[derive(Clone, Serialize, Deserialize)]
pub struct Counted {
    clicks: u64,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Session {
    clicks: u64,
    pages: Vec<String>,
}

fn counted(clicks: u64) -> Counted {
    Counted { clicks }
}

mod past {
    pub(crate) fn with_pages(old: super::Counted) -> super::Session {
        super::Session { clicks: old.clicks, pages: Vec::new() }
    }
}

#[flow(OfAFunction, name = "function", state_version = 3, upgrades = [counted, past::with_pages])]
fn click(session: Option<Session>, _click: &Click) -> Option<Session> {
    session
}

pub struct OfABlock;

#[flow(name = "block", state_version = 7, upgrades = [counted, Self::with_pages])]
impl OfABlock {
    fn with_pages(old: Counted) -> Session {
        past::with_pages(old)
    }

    #[fold]
    fn click(session: Option<Session>, click: &Click, cx: &mut Context<String>) -> Option<Session> {
        cx.emit(click.page.clone());
        session
    }
}

pub struct Generic<S>(S);

#[flow(name = "generic", state_version = 2, upgrades = [Self::all])]
impl<S: Clone + Send + Sync + Serialize + serde::de::DeserializeOwned + 'static> Generic<S> {
    fn all(one: S) -> Vec<S> {
        vec![one]
    }

    #[fold]
    fn click(all: Option<Vec<S>>, _click: &Click) -> Option<Vec<S>> {
        all
    }
}

#[flow(
    OfAValue,
    name = "value",
    state_version = 2,
    upgrades = Upgrades::<i64, BigEndian>::from_version(1).try_then(u64::try_from).written_by::<Json>(),
)]
fn count(count: Option<u64>, _click: &Click) -> Option<u64> {
    count
}

fn main() {
    assert_eq!(format!("{:?}", OfAFunction::upgrades()), "Upgrades { version: 3, older: [1, 2] }");
    assert_eq!(format!("{:?}", OfABlock::upgrades()), "Upgrades { version: 7, older: [5, 6] }");
    assert_eq!(format!("{:?}", Generic::<u64>::upgrades()), "Upgrades { version: 2, older: [1] }");
    assert_eq!(format!("{:?}", OfAValue::upgrades()), "Upgrades { version: 2, older: [1] }");
}
