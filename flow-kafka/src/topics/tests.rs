//! Which topics are created, and which are refused, on a scripted broker.

use flow_core::{ByType, Topic, TopologyBuilder, Utf8};

use super::*;
use crate::fake::Fake;

const LINES: Topic<(), str, ByType, Utf8> = Topic::new("lines");
const COUNTS: Topic<String, u64> = Topic::new("counts");

fn word_count() -> Topology {
    let topology = TopologyBuilder::new();
    topology
        .stream(LINES)
        .flat_map_values(|line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>())
        .key_by("by-word", |(), word: &String| word.clone())
        .count("per-word")
        .changes()
        .to(COUNTS);
    topology.build().unwrap()
}

fn with_topics(topics: &[(&str, i32, Option<&str>)]) -> Fake {
    let fake = Fake::default();
    for (name, partitions, policy) in topics {
        let info = TopicInfo { partitions: *partitions, cleanup_policy: policy.map(str::to_owned) };
        fake.script(|s| s.topics.insert((*name).to_owned(), info));
    }
    fake
}

fn lay(fake: &Fake) -> Result<Layout, RunError> {
    prepare(&mut fake.clone(), fake, &word_count(), &KafkaConfig::new("nowhere:1", "app"))
}

#[test]
fn internal_topics_get_kafka_streams_names_and_the_settings_that_keep_their_data() {
    let fake = with_topics(&[("lines", 3, None), ("counts", 1, None)]);
    let layout = lay(&fake).unwrap();
    let created: Vec<String> = fake.calls().into_iter().filter(|call| call.starts_with("create")).collect();
    assert_eq!(
        created,
        [
            r#"create app-by-word-repartition 3 [("cleanup.policy", "delete"), ("retention.ms", "-1"), ("retention.bytes", "-1"), ("segment.bytes", "52428800"), ("message.timestamp.type", "CreateTime")]"#,
            r#"create app-per-word-changelog 3 [("cleanup.policy", "compact"), ("message.timestamp.type", "CreateTime")]"#,
        ]
    );
    assert_eq!(layout.subscription(), ["app-by-word-repartition", "lines"]);
    assert_eq!(layout.tasks(), 6);
}

#[test]
fn topics_that_exist_are_not_created_again() {
    let fake = with_topics(&[
        ("lines", 3, None),
        ("counts", 1, None),
        ("app-by-word-repartition", 3, Some("delete")),
        ("app-per-word-changelog", 3, Some("compact")),
    ]);
    assert!(lay(&fake).is_ok());
    assert!(!fake.calls().iter().any(|call| call.starts_with("create")));
}

#[test]
fn a_missing_topic_is_named_with_the_steps_that_need_it() {
    let error = lay(&with_topics(&[("counts", 1, None)])).err().unwrap().to_string();
    assert!(error.contains("topic `lines` does not exist") && error.contains("reads it"), "{error}");
}

#[test]
fn an_internal_topic_with_another_partition_count_or_cleanup_policy_is_refused_with_what_to_do() {
    let fake = with_topics(&[
        ("lines", 3, None),
        ("counts", 1, None),
        ("app-by-word-repartition", 2, Some("delete")),
        ("app-per-word-changelog", 3, Some("delete")),
    ]);
    let error = lay(&fake).err().unwrap().to_string();
    assert!(error.contains("`app-by-word-repartition` has 2 partitions, its inputs have 3"), "{error}");
    assert!(error.contains("reset the application"), "{error}");
    assert!(error.contains("`app-per-word-changelog` has cleanup.policy=delete, it must be compact"), "{error}");
    assert!(error.contains("kafka-configs --alter"), "{error}");
}

#[test]
fn a_broker_that_is_away_is_waited_for_and_then_named() {
    let fake = with_topics(&[("lines", 3, None), ("counts", 1, None)]);
    fake.plan("topics", &[ErrorKind::Retriable; 3]);
    assert!(lay(&fake).is_ok());
    fake.plan("topics", &[ErrorKind::Retriable; 60]);
    let error = lay(&fake).err().unwrap().to_string();
    assert!(error.contains("no broker answered at nowhere:1 within 30"), "{error}");
}
