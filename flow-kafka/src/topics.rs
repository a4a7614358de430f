//! The topics of a running topology: their full names and partition counts, and the internal ones created and checked.
//!
//! Internal topics carry Kafka Streams' names, `<app>-<store>-changelog` and `<app>-<name>-repartition`, so that its reset tool,
//! and people, recognise them. Every process creates what is missing ("exists" is fine) and then checks everything.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use flow_core::{Partition, SubTopology, TopicName, Topology};

use crate::broker::{Admin, BrokerError, ErrorKind, Host, NewTopic, TopicInfo, TopicPartition};
use crate::config::{DeadLetters, KafkaConfig};
use crate::error::RunError;

/// Which task: a sub-topology and a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TaskId {
    pub(crate) sub: usize,
    pub(crate) partition: Partition,
}

/// A sub-topology with the full names of its topics.
pub(crate) struct Sub {
    pub(crate) topology: SubTopology,
    /// Full topic name of each source.
    pub(crate) sources: Vec<String>,
    /// Partitions of every source: the number of tasks.
    pub(crate) partitions: i32,
    /// Full name and partition count of each sink's topic.
    pub(crate) sinks: Vec<(String, i32)>,
    /// Full name of each store's snapshot topic.
    pub(crate) changelogs: Vec<String>,
}

/// A topology laid out on a cluster.
pub(crate) struct Layout {
    pub(crate) app: String,
    pub(crate) subs: Vec<Sub>,
    /// The topic of dead letters and its number of partitions.
    pub(crate) letters: Option<(String, i32)>,
    by_topic: HashMap<String, (usize, usize)>,
}

impl Layout {
    /// Every topic that the group reads.
    pub(crate) fn subscription(&self) -> Vec<String> {
        let mut topics: Vec<String> = self.subs.iter().flat_map(|sub| sub.sources.iter().cloned()).collect();
        topics.sort();
        topics
    }

    /// True if this source of a sub-topology reads a repartition topic.
    pub(crate) fn is_repartition(&self, sub: usize, source: usize) -> bool {
        let source = self.subs[sub].topology.sources().get(source);
        source.is_some_and(|source| matches!(source.topic, TopicName::Repartition(_)))
    }

    /// The full name of a store's snapshot topic.
    pub(crate) fn changelog(&self, store: &str) -> String {
        Names { app: &self.app }.changelog(store)
    }

    /// The sub-topology and source that read a topic.
    pub(crate) fn source(&self, topic: &str) -> Option<(usize, usize)> {
        self.by_topic.get(topic).copied()
    }

    /// The input partitions of a task, in the order of its sources.
    pub(crate) fn inputs(&self, task: TaskId) -> Vec<TopicPartition> {
        self.subs[task.sub].sources.iter().map(|t| TopicPartition::new(t.as_str(), task.partition.0)).collect()
    }

    /// The number of tasks.
    pub(crate) fn tasks(&self) -> usize {
        self.subs.iter().map(|sub| sub.partitions as usize).sum()
    }

    /// True if some task has several inputs: the group then needs the range assignor.
    pub(crate) fn joins_inputs(&self) -> bool {
        self.subs.iter().any(|sub| sub.sources.len() > 1)
    }
}

/// Reads the cluster, creates the internal topics that are missing, and checks all.
pub(crate) fn prepare(
    admin: &mut dyn Admin,
    host: &dyn Host,
    topology: &Topology,
    config: &KafkaConfig,
) -> Result<Layout, RunError> {
    let names = Names { app: &config.app };
    let user = user_topics(topology);
    let described = patiently(host, config, || admin.topics(&user, SLICE))?;
    let mut counts = BTreeMap::new();
    let mut wrong = Vec::new();
    for (name, info) in user.iter().zip(&described) {
        match info {
            Some(info) => {
                counts.insert(name.clone(), info.partitions);
            }
            None => wrong.push(missing(topology, name)),
        }
    }
    if wrong.is_empty() {
        repartition_counts(topology, &names, &mut counts);
        wrong = copartitioning(topology, &names, &counts);
    }
    let letters = match &config.dead_letters {
        Some(to) => {
            let described = patiently(host, config, || admin.topics(std::slice::from_ref(&to.topic), SLICE))?;
            let info = described.first().and_then(Option::as_ref);
            let most = inputs(topology, &names).filter_map(|name| Some((*counts.get(&name)?, name))).max();
            match letters(to, info, most) {
                Ok(partitions) => Some((to.topic.clone(), partitions)),
                Err(why) => {
                    wrong.push(why);
                    None
                }
            }
        }
        None => None,
    };
    if !wrong.is_empty() {
        return Err(RunError::Topics(wrong));
    }
    let internal = internal_topics(topology, &names, &counts, config.replication);
    create_and_check(admin, host, config, &internal)?;
    Ok(Layout { letters, ..lay_out(topology, &names, &counts) })
}

/// One request's time; the whole start has `start_timeout`.
const SLICE: Duration = Duration::from_secs(5);

/// Repeats a request while the broker does not answer, up to the start timeout.
fn patiently<T>(
    host: &dyn Host,
    config: &KafkaConfig,
    mut request: impl FnMut() -> Result<T, BrokerError>,
) -> Result<T, RunError> {
    let start = host.elapsed();
    let mut said = false;
    loop {
        match request() {
            Ok(answer) => return Ok(answer),
            Err(cause) if cause.kind == ErrorKind::Retriable => {
                let waited = host.elapsed().saturating_sub(start);
                if waited >= config.start_timeout {
                    let bootstrap = config.client.bootstrap.clone();
                    return Err(RunError::BrokerAway { bootstrap, waited_ms: waited.as_millis() as u64, cause });
                }
                if !said {
                    log::warn!("waiting for a broker at {}: {cause}", config.client.bootstrap);
                    said = true;
                }
                host.sleep(Duration::from_millis(100));
            }
            Err(cause) => return Err(RunError::Broker { doing: "reading and creating topics".into(), cause }),
        }
    }
}

struct Names<'a> {
    app: &'a str,
}

impl Names<'_> {
    fn full(&self, topic: &TopicName) -> String {
        match topic {
            TopicName::User(name) => name.clone(),
            TopicName::Repartition(name) => format!("{}-{name}-repartition", self.app),
        }
    }

    fn changelog(&self, store: &str) -> String {
        format!("{}-{store}-changelog", self.app)
    }
}

fn user_topics(topology: &Topology) -> Vec<String> {
    let mut names: Vec<String> = topology
        .sub_topologies()
        .iter()
        .flat_map(|sub| sub.sources().iter().map(|s| &s.topic).chain(sub.sinks().iter().map(|s| &s.topic)))
        .filter_map(|topic| match topic {
            TopicName::User(name) => Some(name.clone()),
            TopicName::Repartition(_) => None,
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

fn missing(topology: &Topology, name: &str) -> String {
    let is = |topic: &TopicName| matches!(topic, TopicName::User(n) if n == name);
    let subs = topology.sub_topologies();
    let reads =
        subs.iter().flat_map(|s| s.sources()).filter(|s| is(&s.topic)).map(|s| format!("step `{}` reads it", s.step));
    let writes =
        subs.iter().flat_map(|s| s.sinks()).filter(|s| is(&s.topic)).map(|s| format!("step `{}` writes it", s.step));
    let who: Vec<String> = reads.chain(writes).collect();
    format!("topic `{name}` does not exist ({}): create it with the number of partitions you want", who.join(", "))
}

/// A repartition topic has as many partitions as the user's topics that it is joined with, else as the largest input of the
/// steps that write it (Kafka Streams' rule).
fn repartition_counts(topology: &Topology, names: &Names<'_>, counts: &mut BTreeMap<String, i32>) {
    loop {
        let mut found = Vec::new();
        for reader in topology.sub_topologies() {
            for source in reader.sources() {
                let name = names.full(&source.topic);
                if counts.contains_key(&name) {
                    continue;
                }
                let beside = reader.sources().iter().filter_map(|s| counts.get(&names.full(&s.topic))).max().copied();
                let writers =
                    topology.sub_topologies().iter().filter(|s| s.sinks().iter().any(|k| k.topic == source.topic));
                let above: Option<Vec<i32>> =
                    writers.flat_map(|s| s.sources()).map(|s| counts.get(&names.full(&s.topic)).copied()).collect();
                if let Some(count) = beside.or(above.and_then(|all| all.into_iter().max())) {
                    found.push((name, count));
                }
            }
        }
        if found.is_empty() {
            return;
        }
        counts.extend(found);
    }
}

/// Every topic that is read, by its full name.
fn inputs(topology: &Topology, names: &Names<'_>) -> impl Iterator<Item = String> {
    topology.sub_topologies().iter().flat_map(|sub| sub.sources()).map(|source| names.full(&source.topic))
}

/// The partitions of the topic of dead letters, or why it cannot be that. `most` is the input with the most partitions.
fn letters(to: &DeadLetters, is: Option<&TopicInfo>, most: Option<(i32, String)>) -> Result<i32, String> {
    let name = &to.topic;
    let Some(is) = is else {
        let partitions = most.map_or(1, |(count, _)| count);
        return Err(format!(
            "topic `{name}` does not exist (dead letters go there): create it with {partitions} partitions, uncompacted"
        ));
    };
    if is.cleanup_policy.as_ref().is_some_and(|policy| policy.contains("compact")) {
        return Err(format!(
            "topic `{name}` is compacted, so dead letters would replace each other: set it with \
             `kafka-configs --alter --topic {name} --add-config cleanup.policy=delete`"
        ));
    }
    match most {
        Some((count, input)) if count > is.partitions && !to.any_partition => Err(format!(
            "topic `{name}` has {} partitions for dead letters, and the input `{input}` has {count}: give it {count}, or let \
             letters go to any partition (`DeadLetters::any_partition`)",
            is.partitions
        )),
        _ => Ok(is.partitions),
    }
}

fn copartitioning(topology: &Topology, names: &Names<'_>, counts: &BTreeMap<String, i32>) -> Vec<String> {
    let mut wrong = Vec::new();
    for sub in topology.sub_topologies() {
        let inputs: Vec<(String, Option<i32>)> = sub
            .sources()
            .iter()
            .map(|s| names.full(&s.topic))
            .map(|name| {
                let count = counts.get(&name).copied();
                (name, count)
            })
            .collect();
        let first = inputs.first().and_then(|(_, count)| *count);
        if inputs.iter().any(|(_, count)| count.is_none() || *count != first) {
            let each: Vec<String> = inputs
                .iter()
                .map(|(name, n)| format!("`{name}` has {}", n.map_or("none".to_owned(), |n| n.to_string())))
                .collect();
            wrong.push(format!(
                "these topics are folded together and must have the same number of partitions: {}; \
                 recreate one of them, or put a `key_by` in front of it",
                each.join(", ")
            ));
        }
    }
    wrong
}

fn internal_topics(
    topology: &Topology,
    names: &Names<'_>,
    counts: &BTreeMap<String, i32>,
    replication: i32,
) -> Vec<NewTopic> {
    let mut topics = BTreeMap::new();
    let setting = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    for sub in topology.sub_topologies() {
        for source in sub.sources() {
            if let TopicName::Repartition(_) = source.topic {
                let name = names.full(&source.topic);
                let config = vec![
                    setting("cleanup.policy", "delete"),
                    // All is kept until it is purged, in segments small enough that purging gives space back.
                    setting("retention.ms", "-1"),
                    setting("retention.bytes", "-1"),
                    setting("segment.bytes", "52428800"),
                    setting("message.timestamp.type", "CreateTime"),
                ];
                topics.insert(name.clone(), NewTopic { partitions: counts[&name], name, replication, config });
            }
        }
        let partitions = sub.sources().first().map_or(0, |s| counts[&names.full(&s.topic)]);
        for store in sub.stores() {
            let name = names.changelog(&store.name);
            let config = vec![setting("cleanup.policy", "compact"), setting("message.timestamp.type", "CreateTime")];
            topics.insert(name.clone(), NewTopic { name, partitions, replication, config });
        }
    }
    topics.into_values().collect()
}

fn create_and_check(
    admin: &mut dyn Admin,
    host: &dyn Host,
    config: &KafkaConfig,
    internal: &[NewTopic],
) -> Result<(), RunError> {
    if internal.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = internal.iter().map(|t| t.name.clone()).collect();
    let before = patiently(host, config, || admin.topics(&names, SLICE))?;
    let absent: Vec<NewTopic> =
        internal.iter().zip(&before).filter(|(_, info)| info.is_none()).map(|(t, _)| t.clone()).collect();
    if !absent.is_empty() {
        for topic in &absent {
            log::info!("creating internal topic {} with {} partitions", topic.name, topic.partitions);
        }
        patiently(host, config, || admin.create(&absent, SLICE))?;
    }
    // A new topic takes a moment to show up in the metadata.
    let start = host.elapsed();
    let infos = loop {
        let infos = patiently(host, config, || admin.topics(&names, SLICE))?;
        if infos.iter().all(Option::is_some) || host.elapsed().saturating_sub(start) > config.start_timeout {
            break infos;
        }
        host.sleep(Duration::from_millis(50));
    };
    let wrong: Vec<String> =
        internal.iter().zip(&infos).filter_map(|(want, is)| mismatch(&config.app, want, is.as_ref())).collect();
    if wrong.is_empty() { Ok(()) } else { Err(RunError::Topics(wrong)) }
}

fn mismatch(app: &str, want: &NewTopic, is: Option<&TopicInfo>) -> Option<String> {
    let name = &want.name;
    let Some(is) = is else {
        return Some(format!("internal topic `{name}` was created but did not appear: ask the broker's log why"));
    };
    if is.partitions != want.partitions {
        return Some(format!(
            "internal topic `{name}` has {} partitions, its inputs have {}: state would lie in the wrong partition. \
             Give the input its former number of partitions back, or reset the application (delete its internal topics and its \
             group `{app}`) and let it start from the beginning",
            is.partitions, want.partitions,
        ));
    }
    let policy = want.config.iter().find(|(key, _)| key == "cleanup.policy").map(|(_, value)| value.as_str());
    match (&is.cleanup_policy, policy) {
        (Some(is), Some(want)) if is != want => Some(format!(
            "internal topic `{name}` has cleanup.policy={is}, it must be {want} or data is lost: \
             set it with `kafka-configs --alter --topic {name} --add-config cleanup.policy={want}`"
        )),
        _ => None,
    }
}

fn lay_out(topology: &Topology, names: &Names<'_>, counts: &BTreeMap<String, i32>) -> Layout {
    let mut by_topic = HashMap::new();
    let mut subs = Vec::new();
    for (index, sub) in topology.sub_topologies().iter().enumerate() {
        let sources: Vec<String> = sub.sources().iter().map(|s| names.full(&s.topic)).collect();
        for (source, topic) in sources.iter().enumerate() {
            by_topic.insert(topic.clone(), (index, source));
        }
        let partitions = sources.first().map_or(0, |name| counts[name]);
        let sink = |topic: &TopicName| {
            let name = names.full(topic);
            let count = counts[&name];
            (name, count)
        };
        subs.push(Sub {
            topology: sub.clone(),
            partitions,
            sinks: sub.sinks().iter().map(|s| sink(&s.topic)).collect(),
            changelogs: sub.stores().iter().map(|s| names.changelog(&s.name)).collect(),
            sources,
        });
    }
    Layout { app: names.app.to_owned(), subs, letters: None, by_topic }
}

#[cfg(test)]
mod tests;
