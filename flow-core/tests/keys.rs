//! The identity of a key is its bytes: keys that look alike, and parts that could be split elsewhere, never share a state.

mod common;

use std::collections::BTreeSet;

use common::{ms, skip};
use flow_core::testing::{Input, TestDriver};
use flow_core::{Context, Flow, Fold, Json, Nullable, StepError, Topic, Topology, TopologyBuilder};

const VISITS: Topic<str, u64> = Topic::new("visits");
const COUNTS: Topic<str, u64> = Topic::new("counts");

fn counted(driver: &mut TestDriver) -> BTreeSet<(String, u64)> {
    driver.read(COUNTS).into_iter().collect()
}

#[test]
fn keys_that_begin_alike_or_are_empty_have_counts_of_their_own_also_after_a_restart() {
    let topology = TopologyBuilder::new();
    topology.stream(VISITS).count("visits").changes().to(COUNTS);
    let mut driver = TestDriver::new(topology.build().unwrap());
    let keys = ["A", "AA", "A\0", ""];
    for round in 1..=3 {
        for key in keys {
            driver.send(VISITS, ms(0), key, &1);
        }
        let expected: BTreeSet<_> = keys.iter().map(|key| ((*key).to_owned(), round)).collect();
        assert_eq!(counted(&mut driver), expected);
        driver = driver.restart();
    }
    assert_eq!(driver.snapshots("visits").len(), keys.len());
}

/// Counts; a zero forgets the key.
struct Tally;

impl Flow for Tally {
    const NAME: &'static str = "tally";
    type State = u64;
    type Codec = Json;
    type Out = u64;
}

impl Fold<u64> for Tally {
    fn fold(&self, state: &mut Option<u64>, event: &u64, cx: &mut Context<u64>) -> Result<(), StepError> {
        *state = (*event > 0).then(|| state.unwrap_or(0) + event);
        cx.emit(state.unwrap_or(0));
        Ok(())
    }
}

#[test]
fn a_key_that_is_forgotten_leaves_its_neighbours_as_they_are() {
    let topology = TopologyBuilder::new();
    topology.stream(VISITS).flow(Tally).to(COUNTS);
    let mut driver = TestDriver::new(topology.build().unwrap());
    for key in ["A", "AA", "A\0", ""] {
        driver.send(VISITS, ms(0), key, &5);
    }
    driver.send(VISITS, ms(1), "A", &0);
    let mut driver = driver.restart();
    driver.read(COUNTS);
    for key in ["A", "AA", "A\0", ""] {
        driver.send(VISITS, ms(2), key, &1);
    }
    let count = |key: &str, count| (key.to_owned(), count);
    assert_eq!(counted(&mut driver), [count("A", 1), count("AA", 6), count("A\0", 6), count("", 6)].into());
}

type Member = (String, String);

const BY_MEMBER: Topic<Member, u64> = Topic::new("by-member");
const MEMBERS: Topic<(), Member> = Topic::new("visits");
const OUT: Topic<Member, u64> = Topic::new("out");

/// Counts per tenant and user, as the key of the input or by a `key_by`.
fn members(repartitioned: bool) -> Topology {
    let topology = TopologyBuilder::new();
    if repartitioned {
        let members = topology.stream(MEMBERS).key_by("members", |(), member: &Member| member.clone());
        members.count("members").changes().to(OUT);
    } else {
        topology.stream(BY_MEMBER).count("members").changes().to(OUT);
    }
    topology.build().expect("a valid topology")
}

#[test]
fn the_parts_of_a_composite_key_cannot_be_mistaken_for_others() {
    let member = |tenant: &str, user: &str| (tenant.to_owned(), user.to_owned());
    let all = [member("a:b", "c"), member("a", "b:c"), member("a/b", "c"), member("a", "b/c"), member("", "a:b:c")];
    for repartitioned in [false, true] {
        let mut driver = TestDriver::new(members(repartitioned));
        for round in 1..=3 {
            for member in &all {
                if repartitioned {
                    driver.send(MEMBERS, ms(0), &(), member);
                } else {
                    driver.send(BY_MEMBER, ms(0), member, &1);
                }
            }
            let read: BTreeSet<_> = driver.read(OUT).into_iter().collect();
            assert_eq!(read, all.iter().map(|member| (member.clone(), round)).collect());
            driver = driver.restart();
        }
    }
}

#[test]
fn a_composite_key_has_the_same_bytes_on_topics_and_in_snapshots() {
    let mut driver = TestDriver::new(members(false));
    driver.send(BY_MEMBER, ms(0), &("a:b".to_owned(), String::new()), &1);
    let out = driver.read_records("out");
    assert_eq!(out[0].key.as_deref(), Some(&b"\0\0\0\x03a:b\0\0\0\0"[..]));
    driver.commit();
    assert_eq!(driver.snapshots("members")[0].0, b"\0\0\0\x03a:b\0\0\0\0");
}

/// Bytes that a lossy conversion to text would make one and the same, and one text in two spellings.
const ODD: [&[u8]; 6] =
    [&[0x3f, 0xd0, 0, 0, 0, 0, 0, 0], &[0x3f, 0xe8, 0, 0, 0, 0, 0, 0], b"\xff", b"\xfe", b"\xc3\xa9", b"e\xcc\x81"];

#[test]
fn keys_that_are_no_text_never_share_a_state() {
    const BYTES: Topic<[u8], u64> = Topic::new("visits");
    let topology = TopologyBuilder::new();
    topology.stream(BYTES).count("visits").changes().to(Topic::<[u8], u64>::new("counts"));
    let mut driver = TestDriver::new(topology.build().unwrap());
    for round in 1..=2 {
        ODD.iter().for_each(|key| driver.send(BYTES, ms(0), key, &1));
        let counts = driver.read(Topic::<[u8], u64>::new("counts"));
        assert_eq!(counts, ODD.map(|key| (key.to_vec(), round)));
        driver = driver.restart();
    }
    let entries: BTreeSet<_> = driver.snapshots("visits").into_iter().map(|(key, _)| key).collect();
    assert_eq!(entries, ODD.map(<[u8]>::to_vec).into());
}

#[test]
fn keys_that_are_no_text_cannot_be_read_as_text_and_spellings_stay_apart() {
    let topology = TopologyBuilder::new();
    topology.stream(VISITS).count("visits").changes().to(COUNTS);
    let mut driver = TestDriver::with(topology.build().unwrap(), 1, skip(true, false, false));
    ODD.iter().for_each(|key| driver.send_record("visits", Input::new().key(*key).value("1")));
    assert_eq!(counted(&mut driver), [("é".to_owned(), 1), ("e\u{301}".to_owned(), 1)].into());
    assert_eq!(driver.counters().skipped.decode, 4);
}

/// The same four records, and one rule: a null key is no key, an empty one is.
#[test]
fn a_null_key_is_counted_out_where_state_is_kept_by_it_and_an_empty_key_is_a_key() {
    const MAYBE: Topic<Option<String>, Option<String>, flow_core::ByType, Nullable<Json>> = Topic::new("maybe");
    const KEYS: Topic<Option<String>, u64> = Topic::new("keys");
    let topology = TopologyBuilder::new();
    let all = topology.stream(MAYBE);
    all.map_values(|value| value.as_ref().map_or(0, |text| text.len() as u64))
        .to(Topic::<Option<String>, u64>::new("lengths"));
    all.count("counts").changes().to(KEYS);
    let again = all.key_by("by-first", |_, value| value.as_ref().and_then(|text| text.get(..1)).map(str::to_owned));
    again.count("by-first-counts").changes().to(Topic::<Option<String>, u64>::new("firsts"));
    let mut driver = TestDriver::new(topology.build().unwrap());
    let records = [(None, Some("v1")), (Some(""), Some("v2")), (Some("k"), Some("")), (Some("k"), None)];
    for (key, value) in records {
        let value = value.map(|text| format!("\"{text}\""));
        let record = key.map_or(Input::new(), |key| Input::new().key(key));
        driver.send_record("maybe", value.map_or(record.clone(), |value| record.value(value)));
    }
    let some = |key: &str, count| (Some(key.to_owned()), count);
    assert_eq!(driver.read_records("lengths").len(), 4, "a step that keeps nothing passes all of them");
    assert_eq!(driver.read(KEYS), [some("", 1), some("k", 1), some("k", 2)], "a null value is a value of its type");
    // The first two have the key `v`; an empty and a null value have none.
    assert_eq!(driver.read(Topic::<Option<String>, u64>::new("firsts")), [some("v", 1), some("v", 2)]);
    assert_eq!(driver.counters().dropped_null_key, 3);
}
