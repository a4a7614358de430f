//! Configuration of a running topology.

use std::time::Duration;

use flow_core::{Policies, Policy};

use crate::error::RunError;

/// How a topology runs: where Kafka is, under which name, and how often it commits.
///
/// ```
/// use std::time::Duration;
/// use flow_kafka::KafkaConfig;
///
/// let config = KafkaConfig::new("localhost:9092", "click-analytics")
///     .workers(2)
///     .commit_interval(Duration::from_millis(100))
///     .set("security.protocol", "plaintext");
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct KafkaConfig {
    pub(crate) app: String,
    pub(crate) workers: Option<usize>,
    pub(crate) commit_interval: Duration,
    pub(crate) commit_bytes: usize,
    pub(crate) policies: Policies,
    pub(crate) dead_letters: Option<DeadLetters>,
    pub(crate) at_least_once_output: bool,
    pub(crate) max_record_bytes: usize,
    pub(crate) max_lead: Option<Duration>,
    pub(crate) replication: i32,
    pub(crate) start_timeout: Duration,
    pub(crate) recovery_deadline: Duration,
    pub(crate) purge_interval: Duration,
    pub(crate) client: ClientSettings,
}

/// The topic of dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct DeadLetters {
    pub(crate) topic: String,
    pub(crate) any_partition: bool,
}

impl DeadLetters {
    /// To this topic, which must exist and must not be compacted.
    ///
    /// A letter goes to the partition of the same number as its record's, so the topic needs as many as the largest input:
    /// letters of one partition keep their order, and can be sent again where they came from.
    pub fn to(topic: impl Into<String>) -> Self {
        DeadLetters { topic: topic.into(), any_partition: false }
    }

    /// To any partition (the number of the record's, modulo how many there are), so the topic may be smaller than the inputs.
    pub fn any_partition(mut self) -> Self {
        self.any_partition = true;
        self
    }
}

/// What the clients need to know: the part of [`KafkaConfig`] that reaches librdkafka.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// `host:port` of one or more brokers, separated by commas.
    pub bootstrap: String,
    /// After this long without a heartbeat the group gives a member's partitions away.
    pub session_timeout: Duration,
    /// After this long the broker aborts an open transaction; it looks every 10 s.
    pub transaction_timeout: Duration,
    /// How long a record may wait for its acknowledgement.
    pub message_timeout: Duration,
    /// A worker that does not poll for this long is taken for dead.
    pub max_poll_interval: Duration,
    /// Name of a static member; each worker appends its number.
    pub instance: Option<String>,
    /// librdkafka settings passed through as they are.
    pub overrides: Vec<(String, String)>,
}

impl ClientSettings {
    /// The defaults, for the brokers `bootstrap`.
    pub fn new(bootstrap: impl Into<String>) -> Self {
        ClientSettings {
            bootstrap: bootstrap.into(),
            session_timeout: Duration::from_secs(10),
            transaction_timeout: Duration::from_secs(8),
            message_timeout: Duration::from_secs(6),
            max_poll_interval: Duration::from_secs(300),
            instance: None,
            overrides: Vec::new(),
        }
    }

    /// The name of the static member that has this client id, if the application is one: each worker is a member of its own.
    pub(crate) fn instance_of(&self, client_id: &str) -> Option<String> {
        self.instance.as_ref().map(|instance| format!("{instance}-{client_id}"))
    }

    /// How long a worker may go without a poll. The client takes no limit below the session's.
    pub(crate) fn poll_limit(&self) -> Duration {
        self.max_poll_interval.max(self.session_timeout)
    }
}

impl KafkaConfig {
    /// Runs against the brokers `bootstrap` (`host:port,..`) as the application `app`.
    ///
    /// `app` is the consumer group's name and the prefix of every internal topic: a second process with the same name shares
    /// the work, another name starts from the beginning with a state of its own.
    pub fn new(bootstrap: impl Into<String>, app: impl Into<String>) -> Self {
        KafkaConfig {
            app: app.into(),
            workers: None,
            commit_interval: Duration::from_millis(100),
            commit_bytes: 32 << 20,
            policies: Policies::default(),
            dead_letters: None,
            at_least_once_output: false,
            max_record_bytes: 1_000_000,
            max_lead: Some(Duration::from_secs(3600)),
            replication: -1,
            start_timeout: Duration::from_secs(30),
            recovery_deadline: Duration::from_secs(120),
            purge_interval: Duration::from_secs(30),
            client: ClientSettings::new(bootstrap),
        }
    }

    /// How many worker threads (default: the number of cores). Never more than there are tasks.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// How long work is collected before it commits (default 100 ms). It bounds the latency of outputs, and it is what a crash
    /// repeats.
    pub fn commit_interval(mut self, interval: Duration) -> Self {
        self.commit_interval = interval;
        self
    }

    /// Commits earlier once this many bytes of outputs are kept (default 32 MiB).
    pub fn commit_bytes(mut self, bytes: usize) -> Self {
        self.commit_bytes = bytes;
        self
    }

    /// What happens to a record whose key, value or timestamp cannot be read (default: stop).
    pub fn on_decode_error(mut self, policy: Policy) -> Self {
        self.policies.decode = policy;
        self
    }

    /// What happens to a record for which a step returns an error (default: stop). A panic always stops.
    pub fn on_step_error(mut self, policy: Policy) -> Self {
        self.policies.step = policy;
        self
    }

    /// What happens to a record whose output no broker would take: too large, or dated too far ahead (default: stop).
    pub fn on_produce_error(mut self, policy: Policy) -> Self {
        self.policies.produce = policy;
        self
    }

    /// Where records go that fail under [`Policy::DeadLetter`], which needs this.
    ///
    /// They are written in the transaction that commits their offset, and with their error in the headers of
    /// [`dead_letter`](flow_core::dead_letter).
    ///
    /// ```
    /// use flow_core::Policy;
    /// use flow_kafka::{DeadLetters, KafkaConfig};
    ///
    /// let config = KafkaConfig::new("localhost:9092", "click-analytics")
    ///     .on_decode_error(Policy::DeadLetter)
    ///     .dead_letters(DeadLetters::to("click-analytics-dead-letters"));
    /// ```
    pub fn dead_letters(mut self, to: DeadLetters) -> Self {
        self.dead_letters = Some(to);
        self
    }

    /// Sends outputs at once, outside of the transactions (default: no; they are visible when they commit).
    ///
    /// It buys latency: a consumer sees an output some milliseconds after its input, not at the end of the commit interval, and
    /// needs no `read_committed`. It costs exactness: what was not committed when a process is killed, or loses its partitions, is
    /// processed again, and its outputs are there twice (the values are the same, for they are a function of the input). None is
    /// missing: outputs have arrived before the offsets of their inputs commit. State, timers, repartition topics and dead letters
    /// stay exactly once in any case.
    pub fn at_least_once_output(mut self, outside: bool) -> Self {
        self.at_least_once_output = outside;
        self
    }

    /// The largest output or snapshot in bytes (default 1,000,000, which fits a broker's default `message.max.bytes`).
    pub fn max_record_bytes(mut self, bytes: usize) -> Self {
        self.max_record_bytes = bytes;
        self
    }

    /// How far ahead of the wall clock a record may be dated (default one hour, the broker's own bound for what it takes);
    /// beyond it, it cannot be read. `None` lifts the bound.
    pub fn max_lead(mut self, lead: Option<Duration>) -> Self {
        self.max_lead = lead;
        self
    }

    /// Replication factor of internal topics (default -1: the broker's `default.replication.factor`).
    pub fn replication(mut self, factor: i32) -> Self {
        self.replication = factor;
        self
    }

    /// How long to wait at start for a broker that does not answer (default 30 s).
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = timeout;
        self
    }

    /// How often the records of repartition topics that are committed are deleted (default 30 s). They are read by nobody else.
    pub fn purge_interval(mut self, interval: Duration) -> Self {
        self.purge_interval = interval;
        self
    }

    /// How long a recovery may make no progress before it fails with a diagnosis (default 120 s).
    pub fn recovery_deadline(mut self, deadline: Duration) -> Self {
        self.recovery_deadline = deadline;
        self
    }

    /// `session.timeout.ms` (default 10 s): how long the partitions of a dead process stay with it.
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.client.session_timeout = timeout;
        self
    }

    /// `transaction.timeout.ms` (default 8 s): how long a dead process's open transaction can hold its successor up, plus up to
    /// 10 s until the broker looks.
    pub fn transaction_timeout(mut self, timeout: Duration) -> Self {
        self.client.transaction_timeout = timeout;
        // The client refuses a record that may wait longer than its transaction.
        self.client.message_timeout = self.client.message_timeout.min(timeout / 4 * 3);
        self
    }

    /// Makes each worker a static member of the group (`group.instance.id`), named `<instance>-<app>-worker-<number>`: a process
    /// that is started again within the session timeout takes its partitions over without a rebalance.
    ///
    /// The name must be the process's own and stay with it (a host, a pod's ordinal). Where two processes have one name the newer
    /// takes the older's place, and the older ends with [`RunError::InstanceTaken`]. A static member does not leave when it
    /// ends: after a clean stop, too, its partitions wait for the session timeout. So it is for quick restarts, not for scaling.
    pub fn instance(mut self, name: impl Into<String>) -> Self {
        self.client.instance = Some(name.into());
        self
    }

    /// `max.poll.interval.ms` (default 300 s, at least the session timeout): how long the steps may keep a worker from its group.
    ///
    /// A worker folds and talks to its group on one thread. It leaves off between records to do so, so this bounds a single
    /// record or timer, however many there are. A worker that is later is taken for dead and loses its partitions; it says so, with
    /// the record and this limit, and comes back. What it had done is sent again if nobody else has committed for its partitions
    /// meanwhile.
    pub fn max_poll_interval(mut self, interval: Duration) -> Self {
        self.client.max_poll_interval = interval;
        self
    }

    /// Passes a setting through to librdkafka. One that would break a guarantee is refused when the topology starts.
    pub fn set(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.client.overrides.push((key.into(), value.into()));
        self
    }

    /// All that is wrong with the configuration itself, at once.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        let mut wrong = Vec::new();
        if self.client.bootstrap.trim().is_empty() {
            wrong.push("the bootstrap address is empty: give `host:port` of a broker".to_owned());
        }
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if self.app.is_empty() || self.app.len() > 150 || !self.app.chars().all(legal) {
            wrong.push(format!(
                "the application id `{}` cannot be part of a topic's name: use 1 to 150 letters, digits, `.`, `_` or `-`",
                self.app
            ));
        }
        if self.workers == Some(0) {
            wrong.push("0 workers would do nothing: ask for 1 or more".to_owned());
        }
        if self.commit_bytes == 0 {
            wrong.push("commit_bytes is 0, so nothing could be kept for a commit: give 1 or more".to_owned());
        }
        let Policies { decode, step, produce } = self.policies;
        if self.dead_letters.is_none() && [decode, step, produce].contains(&Policy::DeadLetter) {
            wrong.push(
                "a policy asks for dead letters, and they have no topic: give one with `dead_letters`".to_owned(),
            );
        }
        if self.client.transaction_timeout / 2 < self.commit_interval {
            wrong.push(format!(
                "commit_interval ({} ms) must be at most half of transaction_timeout ({} ms), or the broker aborts what is about to commit",
                self.commit_interval.as_millis(),
                self.client.transaction_timeout.as_millis()
            ));
        }
        for (key, _) in &self.client.overrides {
            if let Some(why) = crate::rdkafka::refused_override(key) {
                wrong.push(format!("`{key}` cannot be set: {why}"));
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(RunError::Config(wrong)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::{Broker, ProducerSpec};
    use crate::rdkafka::RdkafkaBroker;

    #[test]
    fn a_transaction_timeout_is_one_that_the_client_takes() {
        let config = KafkaConfig::new("127.0.0.1:1", "app").transaction_timeout(Duration::from_secs(3));
        config.check().unwrap();
        let spec = ProducerSpec { transactional_id: "t".to_owned(), client_id: "c".to_owned() };
        assert_eq!(RdkafkaBroker::new(config.client).unwrap().producer(&spec).err().map(|e| e.message), None);
    }

    #[test]
    fn values_at_the_ends_of_their_types_are_checked_and_no_panic() {
        let config = KafkaConfig::new("127.0.0.1:1", "app").commit_interval(Duration::MAX).commit_bytes(0);
        let RunError::Config(wrong) = config.check().unwrap_err() else { panic!("another kind of error") };
        assert!(wrong.iter().any(|line| line.starts_with("commit_bytes is 0")), "{wrong:?}");
        assert!(wrong.iter().any(|line| line.starts_with("commit_interval")), "{wrong:?}");
    }
}
