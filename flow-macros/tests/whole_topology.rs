//! Flows that say where they stand, beside the same topologies written by hand: the same description, the same outputs.

use std::time::Duration;

use flow_core::testing::TestDriver;
use flow_core::{Context, Placed, Timer, Timestamp, Topic, Topology, TopologyBuilder, flow};
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct Click {
    user: String,
    at: Timestamp,
}

#[derive(Clone, Serialize, Deserialize)]
struct Order {
    amount: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SessionClosed {
    clicks: u64,
    spent: u64,
}

const CLICKS: Topic<String, Click> = Topic::new("clicks");
const VISITS: Topic<(), Click> = Topic::new("visits");
const ORDERS: Topic<String, Order> = Topic::new("orders");
const COUNTS: Topic<String, u64> = Topic::new("counts");
const CLOSED: Topic<String, SessionClosed> = Topic::new("sessions-closed");

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn click(user: &str, seconds: i64) -> Click {
    Click { user: user.to_owned(), at: at(seconds) }
}

fn ann() -> String {
    "ann".to_owned()
}

fn bob() -> String {
    "bob".to_owned()
}

// ----------------------------------------------------------------------------------------------- a function in place

#[flow(ClicksPerUser, name = "clicks-per-user", from = CLICKS, to = COUNTS, key = |click: &Click| -> &str { &click.user })]
fn count_click(count: Option<u64>, _click: &Click, cx: &mut Context<u64>) -> Option<u64> {
    let count = count.unwrap_or(0) + 1;
    cx.emit(count);
    Some(count)
}

struct ClicksPerUserByHand;

impl Placed for ClicksPerUserByHand {
    fn place(self, topology: &TopologyBuilder) {
        topology.stream(CLICKS).flow(ClicksPerUser).to(COUNTS);
    }
}

#[test]
fn a_function_with_topics_is_the_topology_that_one_would_write() {
    let outcome = |topology: Topology| {
        let mut driver = TestDriver::new(topology);
        driver.send(CLICKS, at(1), &ann(), &click("ann", 1));
        driver.send(CLICKS, at(2), &bob(), &click("bob", 2));
        let mut driver = driver.restart();
        driver.send(CLICKS, at(3), &ann(), &click("ann", 3));
        let foreign_key = driver.try_send(CLICKS, at(4), &ann(), &click("bob", 4)).unwrap_err();
        (driver.read(COUNTS), foreign_key.to_string())
    };
    let annotated = Topology::of(ClicksPerUser).unwrap();
    let by_hand = Topology::of(ClicksPerUserByHand).unwrap();
    assert_eq!(annotated.describe(), by_hand.describe());
    let annotated = outcome(annotated);
    assert_eq!(annotated.0, [(ann(), 1), (bob(), 1), (ann(), 2)]);
    assert_eq!(annotated, outcome(by_hand));
}

// ------------------------------------------------------------------------------------------- a function behind a key_by

#[flow(
    VisitsPerUser,
    name = "visits-per-user",
    from = VISITS,
    to = COUNTS,
    key = |click: &Click| -> &str { &click.user },
    repartition = "visits-by-user",
)]
fn count_visit(count: Option<u64>, click: &Click, cx: &mut Context<u64>) -> Option<u64> {
    count_click(count, click, cx)
}

struct VisitsPerUserByHand;

impl Placed for VisitsPerUserByHand {
    fn place(self, topology: &TopologyBuilder) {
        topology.stream(VISITS).key_by("visits-by-user", |_, click| click.user.clone()).flow(VisitsPerUser).to(COUNTS);
    }
}

#[test]
fn a_repartition_puts_a_key_by_of_that_name_in_front() {
    let outcome = |topology: Topology| {
        let mut driver = TestDriver::new(topology);
        for (user, seconds) in [("ann", 1), ("bob", 2), ("ann", 3)] {
            driver.send(VISITS, at(seconds), &(), &click(user, seconds));
        }
        driver.read(COUNTS)
    };
    let annotated = Topology::of(VisitsPerUser).unwrap();
    let by_hand = Topology::of(VisitsPerUserByHand).unwrap();
    assert_eq!(annotated.describe(), by_hand.describe());
    let annotated = outcome(annotated);
    assert_eq!(annotated, [(ann(), 1), (bob(), 1), (ann(), 2)]);
    assert_eq!(annotated, outcome(by_hand));
}

// -------------------------------------------------------------------------------- an impl block that folds two topics

#[derive(Clone, Serialize, Deserialize)]
struct Session {
    clicks: u64,
    spent: u64,
}

struct Sessions {
    idle_after: Duration,
}

#[flow(name = "sessions", to = CLOSED)]
impl Sessions {
    const IDLE: Timer = Timer::event_time("idle");

    #[key(repartition = "clicks-by-user")]
    fn user(click: &Click) -> String {
        click.user.clone()
    }

    #[fold(from = VISITS)]
    fn click(&self, session: Option<Session>, click: &Click, cx: &mut Context<SessionClosed>) -> Option<Session> {
        cx.set_timer(Self::IDLE, click.at + self.idle_after);
        let mut session = session.unwrap_or(Session { clicks: 0, spent: 0 });
        session.clicks += 1;
        Some(session)
    }

    #[fold(from = ORDERS)]
    fn order(session: Option<Session>, order: &Order) -> Option<Session> {
        session.map(|session| Session { spent: session.spent + order.amount, ..session })
    }

    #[timer(Self::IDLE)]
    fn close(session: Session, cx: &mut Context<SessionClosed>) -> Option<Session> {
        cx.emit(SessionClosed { clicks: session.clicks, spent: session.spent });
        None
    }
}

struct SessionsByHand(Sessions);

impl Placed for SessionsByHand {
    fn place(self, topology: &TopologyBuilder) {
        topology
            .flow(self.0)
            .fold(topology.stream(VISITS).key_by("clicks-by-user", |_, click| click.user.clone()))
            .fold(topology.stream(ORDERS))
            .output()
            .to(CLOSED);
    }
}

#[test]
fn a_block_with_two_topics_is_the_topology_that_one_would_write() {
    let outcome = |topology: Topology| {
        let mut driver = TestDriver::new(topology);
        driver.send(VISITS, at(1), &(), &click("ann", 1));
        driver.send(ORDERS, at(2), &ann(), &Order { amount: 7 });
        driver.send(ORDERS, at(2), &bob(), &Order { amount: 9 });
        let mut driver = driver.restart();
        driver.send(VISITS, at(3), &(), &click("ann", 3));
        driver.advance_to(at(40));
        driver.read(CLOSED)
    };
    let sessions = || Sessions { idle_after: Duration::from_secs(30) };
    let annotated = Topology::of(sessions()).unwrap();
    let by_hand = Topology::of(SessionsByHand(sessions())).unwrap();
    assert_eq!(annotated.describe(), by_hand.describe());
    let annotated = outcome(annotated);
    assert_eq!(annotated, [(ann(), SessionClosed { clicks: 2, spent: 7 })]);
    assert_eq!(annotated, outcome(by_hand));
}

// ---------------------------------------------------------------------------------------------------- mistakes at build

#[test]
fn a_name_clash_is_reported_with_the_line_of_each_name() {
    let topology = TopologyBuilder::new();
    topology.add(VisitsPerUser);
    topology.add(Sessions { idle_after: Duration::from_secs(1) });
    topology.add(Sessions { idle_after: Duration::from_secs(1) });
    let error = topology.build().err().unwrap().to_string();
    assert!(error.contains("`sessions`"), "{error}");
    let line = include_str!("whole_topology.rs").lines().position(|line| line.contains("\"sessions\", to"));
    let place = format!("whole_topology.rs:{}:", line.unwrap() + 1);
    assert!(error.contains(&place), "{place} in {error}");
}
