//! The bytes of this release's snapshots, as literals. They are read by every release to come: where one of these tests fails, the
//! format changed, and state that is stored out there would be refused or misread.

use std::marker::PhantomData;

use flow_core::testing::TestDriver;
use flow_core::{
    BigEndian, ByType, Bytes, Codec, Context, Flow, Fold, Json, Key, NoKey, Nullable, Partition, State, StepError,
    TaskOptions, Timer, Timestamp, Topic, Topology, TopologyBuilder, Utf8,
};
use serde::{Deserialize, Serialize};

fn ms(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

const EVENTS: Topic<str, u64> = Topic::new("events");
const OUT: Topic<str, u64> = Topic::new("out");

/// A store's name, the bytes of an entry's key, and those of its value.
type Literal = (&'static str, &'static [u8], &'static [u8]);

/// What was written is the literal, and the literal is taken back.
#[track_caller]
fn assert_written(driver: &mut TestDriver, topology: &Topology, (store, key, value): Literal) {
    driver.commit();
    assert_eq!(driver.snapshots(store), [(key.to_vec(), value.to_vec())], "{store}");
    let mut task = topology.sub_topologies()[0].task(Partition(0), &TaskOptions::default());
    task.restore(0, key, Some(value)).expect("what was written is restored");
}

#[derive(Clone, Serialize, Deserialize)]
struct Session {
    clicks: u64,
    first: Timestamp,
}

struct Sessions;

impl Sessions {
    const IDLE: Timer = Timer::event_time("idle");
    const LIMIT: Timer = Timer::wall_clock("limit");
}

impl Flow for Sessions {
    const NAME: &'static str = "sessions";
    const STATE_VERSION: u32 = 258;
    const TIMERS: &'static [Timer] = &[Sessions::IDLE, Sessions::LIMIT];
    type State = Session;
    type Codec = Json;
    type Out = u64;
}

impl Fold<u64> for Sessions {
    fn fold(&self, state: &mut Option<Session>, idle: &u64, cx: &mut Context<u64>) -> Result<(), StepError> {
        let session = state.get_or_insert(Session { clicks: 0, first: cx.timestamp() });
        session.clicks += 1;
        cx.set_timer(Self::LIMIT, ms(1_000));
        if *idle > 0 {
            cx.set_timer(Self::IDLE, ms(*idle as i64));
        }
        Ok(())
    }
}

#[test]
fn a_flow_is_stored_with_its_version_its_pending_timers_and_its_state() {
    let topology = TopologyBuilder::new();
    topology.stream(EVENTS).flow(Sessions).to(OUT);
    let topology = topology.build().unwrap();
    let mut driver = TestDriver::new(topology.clone());
    driver.send(EVENTS, ms(7), "ann", &0);
    let one: Literal = (
        "sessions",
        b"ann",
        b"\x01\x01\x00\x00\x01\x02\x01\x05limit\x00\x00\x00\x00\x00\x00\x03\xe8{\"clicks\":1,\"first\":7}",
    );
    assert_written(&mut driver, &topology, one);
    driver.send(EVENTS, ms(8), "ann", &500);
    let both: Literal = (
        "sessions",
        b"ann",
        b"\x01\x01\x00\x00\x01\x02\x02\x04idle\x00\x00\x00\x00\x00\x00\x01\xf4\x05limit\x00\x00\x00\x00\x00\x00\x03\xe8\
          {\"clicks\":2,\"first\":7}",
    );
    assert_written(&mut driver, &topology, both);
}

#[test]
fn a_count_a_reduction_and_an_aggregate_are_stored_as_json_of_version_1() {
    type Table = fn(&TopologyBuilder);
    let tables: [(Table, Literal); 3] = [
        (|t| _ = t.stream(EVENTS).count("counts"), ("counts", b"ann", b"\x01\x01\x00\x00\x00\x01\x002")),
        (
            |t| _ = t.stream(EVENTS).reduce("highest", |a, b| *a.max(b)),
            ("highest", b"ann", b"\x01\x01\x00\x00\x00\x01\x0030"),
        ),
        (
            |t| _ = t.stream(EVENTS).aggregate("lists", Vec::new, |list: &mut Vec<u64>, _, n| list.push(*n)),
            ("lists", b"ann", b"\x01\x01\x00\x00\x00\x01\x00[30,20]"),
        ),
    ];
    for (table, literal) in tables {
        let topology = TopologyBuilder::new();
        table(&topology);
        let topology = topology.build().unwrap();
        let mut driver = TestDriver::new(topology.clone());
        driver.send(EVENTS, ms(0), "ann", &30);
        driver.send(EVENTS, ms(1), "ann", &20);
        assert_written(&mut driver, &topology, literal);
    }
}

/// Keeps what it makes of the last event, by a codec.
struct Last<S, C>(fn(u64) -> S, PhantomData<fn() -> C>);

impl<S: State, C: for<'b> Codec<S, Out<'b> = S>> Flow for Last<S, C> {
    const NAME: &'static str = "last";
    type State = S;
    type Codec = C;
    type Out = u64;
}

impl<S: State, C: for<'b> Codec<S, Out<'b> = S>> Fold<u64> for Last<S, C> {
    fn fold(&self, state: &mut Option<S>, event: &u64, _: &mut Context<u64>) -> Result<(), StepError> {
        *state = Some(self.0(*event));
        Ok(())
    }
}

#[track_caller]
fn assert_state<S: State, C: for<'b> Codec<S, Out<'b> = S>>(state: fn(u64) -> S, value: &'static [u8]) {
    let topology = TopologyBuilder::new();
    topology.stream(EVENTS).flow(Last::<S, C>(state, PhantomData)).to(OUT);
    let topology = topology.build().expect("a valid topology");
    let mut driver = TestDriver::new(topology.clone());
    driver.send(EVENTS, ms(0), "ann", &258);
    assert_written(&mut driver, &topology, ("last", b"ann", value));
}

#[test]
fn each_codec_marks_the_states_that_it_writes() {
    assert_state::<u64, Json>(|n| n, b"\x01\x01\x00\x00\x00\x01\x00258");
    assert_state::<String, Utf8>(|n| n.to_string(), b"\x01\x02\x00\x00\x00\x01\x00258");
    assert_state::<Vec<u8>, Bytes>(|_| vec![0, 255], b"\x01\x03\x00\x00\x00\x01\x00\x00\xff");
    assert_state::<u64, BigEndian>(|n| n, b"\x01\x04\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x02");
    assert_state::<(), NoKey>(|_| (), b"\x01\x05\x00\x00\x00\x01\x00");
    assert_state::<(bool, u64), ByType>(
        |n| (true, n),
        b"\x01\x06\x00\x00\x00\x01\x00\x00\x00\x00\x01\x01\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x01\x02",
    );
    assert_state::<Option<i32>, Nullable<BigEndian>>(|_| Some(1), b"\x01\x84\x00\x00\x00\x01\x00\x00\x00\x00\x01");
    #[cfg(feature = "postcard")]
    assert_state::<(u64, String), flow_core::Postcard>(
        |n| (n, "x".to_owned()),
        b"\x01\x07\x00\x00\x00\x01\x00\x82\x02\x01x",
    );
}

#[track_caller]
fn assert_key<K: Key + 'static>(key: K, bytes: &'static [u8])
where
    K::Codec: for<'b> Codec<K, Out<'b> = K>,
{
    let events: Topic<K, u64> = Topic::new("events");
    let topology = TopologyBuilder::new();
    let _ = topology.stream(events).count("counts");
    let topology = topology.build().expect("a valid topology");
    let mut driver = TestDriver::new(topology.clone());
    driver.send(events, ms(0), &key, &1);
    assert_written(&mut driver, &topology, ("counts", bytes, b"\x01\x01\x00\x00\x00\x01\x001"));
}

#[test]
fn an_entry_is_stored_under_the_bytes_of_its_key() {
    assert_key("ann é".to_owned(), b"ann \xc3\xa9");
    assert_key(vec![0_u8, 255], b"\x00\xff");
    assert_key(true, b"\x01");
    assert_key(258_u16, b"\x01\x02");
    assert_key(-2_i64, b"\xff\xff\xff\xff\xff\xff\xff\xfe");
    assert_key(1.5_f32, b"\x3f\xc0\x00\x00");
    assert_key(("a".to_owned(), Some(7_u8)), b"\x00\x00\x00\x01a\x00\x00\x00\x01\x07");
    #[cfg(feature = "uuid")]
    assert_key(uuid::Uuid::from_u128(1), b"00000000-0000-0000-0000-000000000001");
}
