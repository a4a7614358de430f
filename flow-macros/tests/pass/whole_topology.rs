//! Flows that say where they stand.

#![deny(warnings)]

use flow_core::{Context, Never, Timer, Timestamp, Topic, Topology, TopologyBuilder, flow};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Click {
    user: String,
    at: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct Order {
    user: String,
}

mod topics {
    use super::{Click, Topic};

    pub(crate) const CLICKS: Topic<String, Click> = Topic::new("clicks");
}

const ORDERS: Topic<String, Order> = Topic::new("orders");
const VISITS: Topic<(), Click> = Topic::new("visits");
const COUNTS: Topic<String, u64> = Topic::new("counts");

#[flow(Silent, name = "silent", from = topics::CLICKS)]
fn silent(count: Option<u64>, _click: &Click) -> Option<u64> {
    count
}

#[flow(Spoken, name = "spoken", from = topics::CLICKS, to = COUNTS, key = |click: &Click| -> &str { &click.user })]
fn spoken(count: Option<u64>, _click: &Click, cx: &mut Context<u64>) -> Option<u64> {
    cx.emit(1);
    count
}

#[flow(
    Moved,
    name = "moved",
    from = VISITS,
    key = |click: &Click| -> &str { &click.user },
    repartition = "visits-by-user",
    to = COUNTS,
)]
fn moved(count: Option<u64>, _click: &Click, cx: &mut Context<u64>) -> Option<u64> {
    cx.emit(1);
    count
}

struct Timed;

#[flow(name = "timed", from = Self::INPUT)]
impl Timed {
    const INPUT: Topic<String, Click> = topics::CLICKS;
    const IDLE: Timer = Timer::event_time("idle");

    #[fold]
    fn click(&self, count: Option<u64>, click: &Click, cx: &mut Context<Never>) -> Option<u64> {
        cx.set_timer(Self::IDLE, click.at);
        count
    }

    #[timer(Self::IDLE)]
    fn idle(_count: u64) -> Option<u64> {
        None
    }
}

struct Joint<const STEP: u64>;

#[flow(name = "joint", to = COUNTS)]
impl<const STEP: u64> Joint<STEP> {
    #[key(repartition = "visits-of-users")]
    fn user(click: &Click) -> String {
        click.user.clone()
    }

    #[key]
    fn buyer(order: &Order) -> String {
        order.user.clone()
    }

    #[fold(from = VISITS)]
    fn visit(count: Option<u64>, _click: &Click, cx: &mut Context<u64>) -> Option<u64> {
        cx.emit(STEP);
        count
    }

    #[fold(from = ORDERS)]
    fn order(&self, count: Option<u64>, _order: &Order) -> Option<u64> {
        count
    }
}

fn main() {
    for whole in [
        Topology::of(Silent),
        Topology::of(Spoken),
        Topology::of(Moved),
        Topology::of(Timed),
        Topology::of(Joint::<3>),
    ] {
        whole.unwrap();
    }
    let topology = TopologyBuilder::new();
    topology.add(Silent);
    topology.add(Joint::<1>);
    topology.build().unwrap();
}
