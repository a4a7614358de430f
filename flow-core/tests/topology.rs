//! What a topology is: cut, numbered, described; and what is wrong with it, all at once.

mod common;

use common::{CLICKS, ORDERS, OUT, Sessions, Words, ms, pairs};
use flow_core::testing::{Input, TestDriver};
use flow_core::{
    BigEndian, ByType, Bytes, Context, Flow, Fold, Json, Never, StepError, Timer, Topic, TopicName, TopologyBuilder,
    Utf8,
};

const LINES: Topic<(), str, ByType, Utf8> = Topic::new("lines");
const COUNTS: Topic<String, u64> = Topic::new("counts");

#[test]
fn a_topology_is_described_as_kafka_streams_does() {
    let topology = TopologyBuilder::new();
    topology
        .stream(LINES)
        .flat_map_values(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>())
        .named("words")
        .key_by("g", |_, word| word.clone())
        .count("counts")
        .named("count")
        .changes()
        .named("stream-out")
        .to(COUNTS)
        .named("write-out");
    topology.stream(CLICKS).to(OUT);
    assert_eq!(
        topology.build().unwrap().describe(),
        "\
Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [lines])
      --> words
    Processor: words (stores: [])
      --> g
      <-- KSTREAM-SOURCE-0000000000
    Processor: g (stores: [])
      --> g-repartition-filter
      <-- words
    Processor: g-repartition-filter (stores: [])
      --> g-repartition-sink
      <-- g
    Sink: g-repartition-sink (topic: g-repartition)
      <-- g-repartition-filter

  Sub-topology: 1
    Source: g-repartition-source (topics: [g-repartition])
      --> count
    Processor: count (stores: [counts])
      --> stream-out
      <-- g-repartition-source
    Processor: stream-out (stores: [])
      --> write-out
      <-- count
    Sink: write-out (topic: counts)
      <-- stream-out

  Sub-topology: 2
    Source: KSTREAM-SOURCE-0000000006 (topics: [clicks])
      --> KSTREAM-SINK-0000000007
    Sink: KSTREAM-SINK-0000000007 (topic: out)
      <-- KSTREAM-SOURCE-0000000006

"
    );
}

#[test]
fn joint_inputs_and_merges_are_one_sub_topology() {
    let topology = TopologyBuilder::new();
    let sessions = topology.flow(Sessions).fold(topology.stream(CLICKS)).fold(topology.stream(ORDERS)).output();
    sessions.named("sessions-step").merge(topology.stream(Topic::<str, String>::new("more"))).to(OUT);
    let topology = topology.build().unwrap();
    assert_eq!(
        topology.describe(),
        "\
Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [clicks])
      --> sessions-step
    Source: KSTREAM-SOURCE-0000000002 (topics: [orders])
      --> sessions-step
    Source: KSTREAM-SOURCE-0000000003 (topics: [more])
      --> KSTREAM-MERGE-0000000004
    Processor: sessions-step (stores: [sessions])
      --> KSTREAM-MERGE-0000000004
      <-- KSTREAM-SOURCE-0000000000, KSTREAM-SOURCE-0000000002
    Processor: KSTREAM-MERGE-0000000004 (stores: [])
      --> KSTREAM-SINK-0000000005
      <-- KSTREAM-SOURCE-0000000003, sessions-step
    Sink: KSTREAM-SINK-0000000005 (topic: out)
      <-- KSTREAM-MERGE-0000000004

"
    );
    let sub = &topology.sub_topologies()[0];
    let topics: Vec<String> = sub.sources().iter().map(|source| source.topic.to_string()).collect();
    assert_eq!(topics, ["clicks", "orders", "more"]);
    assert_eq!((sub.stores()[0].name.as_str(), sub.stores()[0].timers), ("sessions", true));
}

#[test]
fn a_repartition_topic_is_made_only_if_something_stateful_follows() {
    let topology = TopologyBuilder::new();
    let by_length = topology.stream(LINES).key_by_with::<BigEndian, Utf8, _>("by-length", |(), line| line.len() as i64);
    by_length.to(Topic::<i64, str, ByType, Utf8>::new("lengths"));
    let topology = topology.build().unwrap();
    assert_eq!(topology.sub_topologies().len(), 1);
    let mut driver = TestDriver::new(topology);
    driver.send(LINES, ms(0), &(), "abc");
    let records = driver.read_records("lengths");
    assert_eq!(records[0].key, Some(3i64.to_be_bytes().to_vec()));
}

#[test]
fn only_the_last_key_by_before_a_stateful_step_is_cut() {
    let topology = TopologyBuilder::new();
    topology
        .stream(LINES)
        .key_by_with::<ByType, Utf8, _>("first", |(), line| line.to_owned())
        .key_by_with::<ByType, Utf8, _>("second", |line, _| line.len() as i64)
        .count("counts");
    let topology = topology.build().unwrap();
    let subs = topology.sub_topologies();
    assert_eq!(subs[0].sinks()[0].topic, TopicName::Repartition("second".to_owned()));
    assert_eq!(subs[0].sinks().len(), 1);
    assert_eq!(subs[1].sources()[0].topic, TopicName::Repartition("second".to_owned()));
}

#[test]
fn repartitioned_records_reach_the_partition_of_their_key_with_time_and_headers() {
    let topology = TopologyBuilder::new();
    topology
        .stream(LINES)
        .key_by_with::<ByType, Utf8, _>("by-line", |(), line| line.to_owned())
        .count("counts")
        .changes()
        .to(COUNTS);
    let mut driver = TestDriver::with(topology.build().unwrap(), 5, Default::default());
    for at in 0..40 {
        let line = format!("line {}", at % 8);
        let record = Input::of(LINES, &(), line.as_str()).at(ms(at)).header("n", Some(b"1"));
        driver.send_record("lines", record.partition(flow_core::Partition(at as i32 % 5)));
    }
    let records = driver.read_records("counts");
    assert_eq!(records.len(), 40);
    assert!(records.iter().all(|record| record.headers().last("n") == Some(b"1")));
    assert_eq!(records[39].timestamp, ms(39));
    let fives = records.iter().filter(|record| record.value.as_deref() == Some(b"5")).count();
    assert_eq!(fives, 8, "each line was counted in one place");
}

#[test]
fn a_null_key_is_dropped_in_front_of_a_repartition_topic_and_counted() {
    let topology = TopologyBuilder::new();
    topology.stream(ORDERS).key_by("maybe", |_, n| (*n > 1).then_some(*n as i64)).count("counts");
    let mut driver = TestDriver::new(topology.build().unwrap());
    driver.send(ORDERS, ms(0), "a", &1);
    driver.send(ORDERS, ms(0), "a", &2);
    assert_eq!((driver.counters().dropped_null_key, driver.counters().outputs), (1, 1));
}

#[test]
fn a_topic_can_be_read_twice_and_as_several_types() {
    let topology = TopologyBuilder::new();
    topology.stream(CLICKS).to(OUT);
    topology.stream(CLICKS).map_values(|click| format!("{click}!")).to(OUT);
    topology.stream(Topic::<str, [u8], ByType, Bytes>::new("clicks")).to(Topic::<str, [u8], ByType, Bytes>::new("raw"));
    let topology = topology.build().unwrap();
    assert_eq!(topology.sub_topologies()[0].sources().len(), 1);
    let mut driver = TestDriver::new(topology);
    driver.send(CLICKS, ms(0), "a", &"x".to_owned());
    assert_eq!(driver.read(OUT), pairs(&[("a", "x"), ("a", "x!")]));
    assert_eq!(driver.read_values(Topic::<str, [u8], ByType, Bytes>::new("raw")), [b"\"x\""]);
}

#[test]
fn an_input_that_is_placed_after_its_flow_is_repartitioned_too() {
    let topology = TopologyBuilder::new();
    let flow = topology.flow(Sessions).fold(topology.stream(Topic::<String, String>::new("clicks")));
    let orders = topology.stream(ORDERS).key_by("orders-by-amount", |_, n| n.to_string());
    flow.fold(orders).output().to(Topic::<String, String>::new("out"));
    let topology = topology.build().unwrap();
    let sources = |sub: usize| -> Vec<String> {
        topology.sub_topologies()[sub].sources().iter().map(|source| source.topic.to_string()).collect()
    };
    assert_eq!(
        (sources(0), sources(1)),
        (vec!["clicks".into(), "orders-by-amount-repartition".into()], vec!["orders".into()])
    );
    let mut driver = TestDriver::with(topology, 4, Default::default());
    driver.send(ORDERS, ms(0), "a", &7);
    driver.send_record("clicks", Input::new().key("7").value("\"x\"").at(ms(1)));
    driver.advance_to(ms(100));
    assert_eq!(driver.read(OUT), pairs(&[("7", "closed 8")]));
}

#[test]
fn a_fan_out_needs_no_clone_and_goes_depth_first() {
    struct NotClone(u64);
    let topology = TopologyBuilder::new();
    let both = topology.stream(ORDERS).flat_map_values(|n| [NotClone(*n), NotClone(n + 1)]);
    both.map_values(|n| format!("first {}", n.0)).to(OUT);
    both.map_values(|n| format!("second {}", n.0)).to(OUT);
    let mut driver = TestDriver::new(topology.build().unwrap());
    driver.send(ORDERS, ms(0), "a", &1);
    assert_eq!(driver.read(OUT), pairs(&[("a", "first 1"), ("a", "second 1"), ("a", "first 2"), ("a", "second 2")]));
}

#[test]
fn a_key_by_into_another_sub_topology_stands_beside_other_inputs() {
    let topology = TopologyBuilder::new();
    let by_self = topology.stream(ORDERS).map_values(|n| n.to_string()).key_by("by-n", |_, n| n.clone());
    by_self.merge(topology.stream(Topic::<String, String>::new("plain"))).count("counts");
    let topology = topology.build().unwrap();
    let subs = topology.sub_topologies();
    assert_eq!(subs.len(), 2);
    let topics: Vec<String> = subs[1].sources().iter().map(|source| source.topic.to_string()).collect();
    assert_eq!(topics, ["by-n-repartition", "plain"]);
}

struct Twice;
impl Flow for Twice {
    const NAME: &'static str = "counts";
    type State = u64;
    type Codec = Json;
    type Out = Never;
    const TIMERS: &'static [Timer] = &[Timer::event_time("t"), Timer::wall_clock("t")];
}
impl Fold<u64> for Twice {
    fn fold(&self, _: &mut Option<u64>, _: &u64, _: &mut Context<Never>) -> Result<(), StepError> {
        Ok(())
    }
}

#[test]
fn all_broken_rules_are_said_at_once_with_the_lines() {
    let topology = TopologyBuilder::new();
    let first = line!() + 1;
    topology.stream(ORDERS).count("counts").named("a");
    let _ = topology.stream(ORDERS).flow(Twice).named("a");
    topology
        .stream(Topic::<str, u64>::new("bad topic"))
        .key_by("", |_, n| *n as i64)
        .to(Topic::<i64, u64>::new(".."))
        .named("b/c");
    let _ = topology.stream(Topic::<str, u64>::new("unused"));
    let here = |line: u32| format!("flow-core/tests/topology.rs:{line}:");
    let error = topology.build().unwrap_err();
    let rules: Vec<String> = error.rules().iter().map(|rule| without_columns(rule)).collect();
    let (one, two, unused) = (here(first), here(first + 1), here(first + 7));
    let (read, keyed, written, named) = (here(first + 3), here(first + 4), here(first + 5), here(first + 6));
    let names = "Kafka's names have letters, digits, `.`, `_` and `-`";
    assert_eq!(
        rules,
        [
            format!("the name of the topic `bad topic`, given at {read}, contains ' ': {names}"),
            format!("the name of the topic `..`, given at {written}, is `.` or `..`: {names}"),
            format!("nothing uses the stream of topic `unused`, read at {unused}: use it, or do not read it"),
            format!("two steps are named `a`: one at {one}, one at {two}"),
            format!("the name of the `key_by` ``, given at {keyed}, is empty: {names}"),
            format!("the name of the step `b/c`, given at {named}, contains '/': {names}"),
            format!("two stores are named `counts`: one at {one}, one at {two}"),
            format!("the flow `counts`, placed at {two}, has two timers named `t`: give each its own name"),
        ]
    );
    assert!(error.to_string().starts_with("the topology cannot be built\n- the name of"));
}

/// `file:line:column` without the column.
fn without_columns(rule: &str) -> String {
    let mut parts = rule.split("topology.rs:");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (line, rest) = part.split_once(':').unwrap_or((part, ""));
        out = format!("{out}topology.rs:{line}:{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    out
}

#[test]
fn two_repartition_topics_cannot_have_one_name_whatever_their_steps_are_named() {
    let topology = TopologyBuilder::new();
    let orders = topology.stream(ORDERS);
    orders.key_by("by-n", |_, n| *n as i64).count("one");
    orders.key_by("by-n", |_, n| *n as i64).named("other").count("two");
    orders.map_values(|n| *n).named("by-n").to(Topic::<str, u64>::new("copy"));
    let error = topology.build().unwrap_err();
    assert_eq!(error.rules().len(), 2, "{error}");
    assert!(error.rules()[0].starts_with("two `key_by`s are named `by-n`: one at "), "{error}");
    assert!(error.rules()[1].starts_with("two steps are named `by-n`: one at "), "{error}");
}

#[test]
fn a_topology_without_input_cannot_be_built() {
    let error = TopologyBuilder::new().build().unwrap_err();
    assert_eq!(error.rules(), ["the topology reads no topic: start with `stream`"]);
}

#[test]
fn streams_whose_keys_are_written_differently_cannot_be_joined() {
    struct Quoted;
    impl flow_core::Codec<str> for Quoted {
        type Out<'b> = &'b str;
        const ID: u8 = 64;
        fn decode(bytes: &[u8]) -> Result<&str, flow_core::CodecError> {
            <Utf8 as flow_core::Codec<str>>::decode(bytes)
        }
        fn encode(value: &str, out: &mut Vec<u8>) -> Result<(), flow_core::CodecError> {
            out.extend_from_slice(format!("'{value}'").as_bytes());
            Ok(())
        }
    }
    let topology = TopologyBuilder::new();
    let quoted = topology.stream(Topic::<str, String, Quoted>::new("quoted"));
    topology.stream(CLICKS).merge(quoted).to(OUT);
    topology.stream(Topic::<str, String, Utf8>::new("spelled")).merge(topology.stream(CLICKS)).to(OUT);
    let error = topology.build().unwrap_err();
    assert_eq!(error.rules().len(), 1, "{error}");
    assert!(error.rules()[0].contains("writes its keys with another codec"), "{error}");
}

#[test]
fn a_stream_of_another_topology_cannot_be_used() {
    let other = TopologyBuilder::new();
    let topology = TopologyBuilder::new();
    topology.stream(CLICKS).merge(other.stream(CLICKS)).to(OUT);
    let error = topology.build().unwrap_err();
    assert!(error.rules()[0].contains("belongs to another topology"), "{error}");
    drop(other);
}

#[test]
fn more_clocks_than_offset_metadata_can_hold_are_refused() {
    macro_rules! flows {
        ($topology:ident: $($number:literal)*) => {$({
            struct Long;
            impl Flow for Long {
                const NAME: &'static str = concat!(
                    "a-name-that-is-long-enough-to-fill-the-metadata-of-an-offset-rather-soon-when-there-are-several-of-them-",
                    "a-name-that-is-long-enough-to-fill-the-metadata-of-an-offset-rather-soon-when-there-are-several-of-them-",
                    $number
                );
                type State = u64;
                type Codec = Json;
                type Out = Never;
            }
            impl Fold<u64> for Long {
                fn fold(&self, _: &mut Option<u64>, _: &u64, _: &mut Context<Never>) -> Result<(), StepError> {
                    Ok(())
                }
            }
            let _ = $topology.stream(ORDERS).flow(Long);
        })*};
    }
    let topology = TopologyBuilder::new();
    flows!(topology: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    let error = topology.build().unwrap_err();
    assert_eq!(error.rules().len(), 1);
    assert!(error.rules()[0].starts_with("the clocks of 15 flows in one sub-topology take "), "{error}");
}

#[test]
fn a_step_has_one_name() {
    let topology = TopologyBuilder::new();
    topology.stream(CLICKS).named("one").to(OUT);
    topology.stream(CLICKS).named("one").to(OUT);
    topology.stream(CLICKS).named("two").to(OUT);
    let _ = topology.stream(CLICKS).flow(Words);
    let error = topology.build().unwrap_err();
    assert_eq!(error.rules().len(), 1);
    assert!(error.rules()[0].starts_with("the step `one`, named at "), "{error}");
}
