//! A plain, safe consumer loop, for effects outside Kafka: no topology, no state, no transaction.
//!
//! Records come by [`poll`](ManualConsumer::poll), in order for each partition, and are finished by [`done`](ManualConsumer::done), in any
//! order. [`commit`](ManualConsumer::commit) commits, for each partition, the offset behind the longest run of finished records: an
//! offset never passes a record that is not finished. It waits for the broker's answer and compares it, partition by partition, with what
//! was asked for; where they differ in anything, it is an error that says what is now known of every partition, and nothing counts as
//! committed.
//!
//! What was finished and not committed when a process ends comes again, to it or to another one: *at least once*. So an effect must
//! recognise a record that it has seen, best by the record's own identity, kept in the same database transaction as the effect.
//!
//! ```no_run
//! use std::time::Duration;
//! use flow_kafka::KafkaConfig;
//! use flow_kafka::manual::ManualConsumer;
//!
//! # fn pay(_: Option<&[u8]>) {}
//! let mut orders = ManualConsumer::join(&KafkaConfig::new("localhost:9092", "payments"), &["orders"])?;
//! loop {
//!     for order in orders.poll(Duration::from_millis(500))? {
//!         pay(order.value.as_deref());
//!         orders.done(&order);
//!     }
//!     orders.commit()?;
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), flow_kafka::manual::ManualError>(())
//! ```

mod ledger;
mod verify;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use flow_core::{Headers, Offset, Partition, Timestamp};

use crate::broker::{
    Assignor, Broker, BrokerError, Consumer, ConsumerSpec, ErrorKind, Next, OffsetCommit, Polled, Reader, Rebalance,
    TopicPartition,
};
use crate::config::KafkaConfig;
use crate::error::RunError;
use crate::rdkafka::RdkafkaBroker;
use ledger::Ledger;
pub use verify::{CommitError, Known, PartitionOutcome};

/// One request's time; repeated up to the start timeout.
const SLICE: Duration = Duration::from_secs(5);
/// How long a commit may wait for its answer.
const COMMIT_WAIT: Duration = Duration::from_secs(30);
/// A poll hands out at most this many records.
const RECORDS: usize = 500;

/// A record that was handed out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Record {
    /// Its topic.
    pub topic: Arc<str>,
    /// Its partition.
    pub partition: Partition,
    /// Its offset.
    pub offset: Offset,
    /// The key's bytes.
    pub key: Option<Vec<u8>>,
    /// The value's bytes; `None` is a tombstone.
    pub value: Option<Vec<u8>>,
    /// Its time; `None` if it has none.
    pub timestamp: Option<Timestamp>,
    /// Its headers.
    pub headers: Headers,
    /// The assignment in which it was handed out.
    epoch: u64,
}

/// Why a loop cannot go on.
#[derive(Debug)]
#[non_exhaustive]
pub enum ManualError {
    /// The configuration is wrong.
    Config(RunError),
    /// The broker, or its client, did not do something.
    Broker {
        /// What was tried.
        doing: String,
        /// What it said.
        cause: BrokerError,
    },
    /// A commit did not end as it was asked for.
    Commit(CommitError),
}

impl fmt::Display for ManualError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ManualError::Config(error) => error.fmt(f),
            ManualError::Broker { doing, cause } => write!(f, "{doing}: {cause}"),
            ManualError::Commit(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ManualError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ManualError::Config(error) => Some(error),
            ManualError::Broker { cause, .. } => Some(cause),
            ManualError::Commit(error) => Some(error),
        }
    }
}

/// A member of a consumer group that commits by hand; see the [module](self).
pub struct ManualConsumer {
    broker: Arc<dyn Broker>,
    consumer: Box<dyn Consumer>,
    reader: Box<dyn Reader>,
    group: String,
    start_timeout: Duration,
    owned: BTreeMap<TopicPartition, Owned>,
    epoch: u64,
}

struct Owned {
    topic: Arc<str>,
    epoch: u64,
    ledger: Ledger,
}

impl ManualConsumer {
    /// Joins the group that has the application's name, for these topics. A partition begins at the group's committed offset, or at its
    /// first record if there is none.
    ///
    /// Of the configuration it takes what concerns the clients: brokers, name, session timeout, poll interval, static member, settings.
    ///
    /// # Errors
    /// A wrong configuration, or a client that cannot be made.
    pub fn join(config: &KafkaConfig, topics: &[&str]) -> Result<ManualConsumer, ManualError> {
        config.check().map_err(ManualError::Config)?;
        let broker = RdkafkaBroker::new(config.client.clone()).map_err(broken("making a Kafka client"))?;
        ManualConsumer::join_on(Arc::new(broker), config, topics)
    }

    /// The same on any side of the broker seam: this is how a simulation runs it.
    ///
    /// # Errors
    /// A wrong configuration, or a client that cannot be made.
    pub fn join_on(
        broker: Arc<dyn Broker>,
        config: &KafkaConfig,
        topics: &[&str],
    ) -> Result<ManualConsumer, ManualError> {
        config.check().map_err(ManualError::Config)?;
        let group = config.app.clone();
        let client_id = format!("{group}-manual");
        let spec = ConsumerSpec { group: group.clone(), assignor: Assignor::CooperativeSticky, client_id };
        let topics: Vec<String> = topics.iter().map(|topic| (*topic).to_owned()).collect();
        let mut consumer = broker.consumer(&spec).map_err(broken("making a consumer"))?;
        consumer.subscribe(&topics).map_err(broken("joining the group"))?;
        let reader = broker.reader().map_err(broken("making a client that reads offsets"))?;
        let start_timeout = config.start_timeout;
        Ok(ManualConsumer { broker, consumer, reader, group, start_timeout, owned: BTreeMap::new(), epoch: 0 })
    }

    /// Waits up to `timeout` for records, and hands out those that are there: at most 500, in order for each partition.
    ///
    /// Partitions that are taken away commit first what is finished of them; their records that are not come again to the next owner,
    /// and [`done`](Self::done) then says no. Call it at least every `max_poll_interval`, or the group takes this member for dead.
    ///
    /// # Errors
    /// The client is of no use any more, an offset cannot be found out, or a commit before a revocation failed (the partitions are
    /// given up all the same). After any of them the loop can go on, or join anew.
    pub fn poll(&mut self, timeout: Duration) -> Result<Vec<Record>, ManualError> {
        let mut records = Vec::new();
        let owned = &mut self.owned;
        let polled = self.consumer.poll(timeout, &mut |polled| take(owned, &mut records, polled));
        match polled {
            Ok(None) => {}
            Ok(Some(rebalance)) => self.rebalance(&rebalance)?,
            // The client heals that by itself.
            Err(error) if error.kind == ErrorKind::Retriable => log::debug!("polling again: {error}"),
            Err(cause) => {
                return Err(ManualError::Broker { doing: format!("polling as a member of {}", self.group), cause });
            }
        }
        Ok(records)
    }

    /// The record is finished: its effect will not be needed again. False if its partition has been taken away meanwhile: then it comes
    /// again, to its new owner.
    pub fn done(&mut self, record: &Record) -> bool {
        let at = TopicPartition::new(&*record.topic, record.partition.0);
        match self.owned.get_mut(&at) {
            Some(owned) if owned.epoch == record.epoch => owned.ledger.finish(record.offset),
            _ => false,
        }
    }

    /// Commits what is finished, and answers the offsets that are now committed: each the offset of the partition's first record that
    /// is not finished. Nothing to commit asks nobody.
    ///
    /// # Errors
    /// The answer is not what was asked for, in any partition: see [`CommitError`]. Nothing counts as committed then; calling it again
    /// commits the same again, or more.
    pub fn commit(&mut self) -> Result<Vec<(TopicPartition, Offset)>, ManualError> {
        let all = self.owned.keys().cloned().collect::<Vec<_>>();
        self.commit_of(&all)
    }

    /// Commits what is finished, and leaves the group.
    ///
    /// # Errors
    /// As [`commit`](Self::commit); the group is left all the same.
    pub fn close(mut self) -> Result<(), ManualError> {
        let committed = self.commit();
        self.consumer.close();
        committed.map(drop)
    }

    fn commit_of(&mut self, partitions: &[TopicPartition]) -> Result<Vec<(TopicPartition, Offset)>, ManualError> {
        let asked: Vec<(TopicPartition, Offset)> =
            partitions.iter().filter_map(|at| Some((at.clone(), self.owned.get(at)?.ledger.to_commit()?))).collect();
        if asked.is_empty() {
            return Ok(asked);
        }
        let offsets: Vec<OffsetCommit> = asked
            .iter()
            .map(|(partition, offset)| OffsetCommit {
                partition: partition.clone(),
                offset: *offset,
                metadata: String::new(),
            })
            .collect();
        let answer = self.consumer.commit(&offsets, COMMIT_WAIT);
        verify::verify(&self.group, &asked, answer).map_err(ManualError::Commit)?;
        for (at, offset) in &asked {
            if let Some(owned) = self.owned.get_mut(at) {
                owned.ledger.committed(*offset);
            }
        }
        Ok(asked)
    }

    fn rebalance(&mut self, rebalance: &Rebalance) -> Result<(), ManualError> {
        let committed = match rebalance {
            Rebalance::Revoked(partitions) => self.commit_of(partitions).map(drop),
            Rebalance::Assigned(_) | Rebalance::Lost(_) => Ok(()),
        };
        if let Rebalance::Revoked(partitions) | Rebalance::Lost(partitions) = rebalance {
            partitions.iter().for_each(|at| drop(self.owned.remove(at)));
        }
        match self.consumer.acknowledge(rebalance) {
            Ok(()) => {}
            // The client will report the loss that made this fail.
            Err(error) if error.kind == ErrorKind::Retriable => log::warn!("acknowledging a rebalance: {error}"),
            Err(cause) => return Err(ManualError::Broker { doing: "acknowledging a rebalance".into(), cause }),
        }
        if let Rebalance::Assigned(partitions) = rebalance {
            self.start(partitions)?;
        }
        committed
    }

    /// Lets assigned partitions flow from where the group is.
    fn start(&mut self, partitions: &[TopicPartition]) -> Result<(), ManualError> {
        if partitions.is_empty() {
            return Ok(());
        }
        let (reader, group) = (&mut self.reader, &self.group);
        let host = self.broker.host();
        let since = host.elapsed();
        let patiently = |ask: &mut dyn FnMut() -> Result<(), BrokerError>| loop {
            match ask() {
                Err(error)
                    if matches!(error.kind, ErrorKind::Retriable | ErrorKind::Unstable)
                        && host.elapsed().saturating_sub(since) < self.start_timeout =>
                {
                    host.sleep(Duration::from_millis(50));
                }
                ended => return ended,
            }
        };
        let (mut committed, mut marks) = (Vec::new(), Vec::new());
        patiently(&mut || reader.committed(group, partitions, SLICE).map(|found| committed = found))
            .map_err(broken("reading the committed offsets"))?;
        patiently(&mut || reader.watermarks(partitions, SLICE).map(|found| marks = found))
            .map_err(broken("reading the watermarks"))?;
        let mut at = Vec::new();
        for ((partition, committed), marks) in partitions.iter().zip(committed).zip(marks) {
            let from = committed.map_or(marks.low, |committed| committed.offset);
            if from < marks.low || from > marks.high {
                let what = format!(
                    "{partition}: the committed offset {from} is outside the log ({}..{}): records were deleted before they were read, or \
                     the topic was recreated; reset the group's offset by hand if they may be skipped",
                    marks.low, marks.high
                );
                return Err(broken("beginning to read")(BrokerError::new(ErrorKind::OffsetOutOfRange, what)));
            }
            at.push((partition.clone(), from));
        }
        self.consumer.start(&at).map_err(broken("beginning to read"))?;
        self.epoch += 1;
        for (partition, from) in at {
            let topic = Arc::from(partition.topic.as_str());
            self.owned.insert(partition, Owned { topic, epoch: self.epoch, ledger: Ledger::new(from) });
        }
        Ok(())
    }
}

impl fmt::Debug for ManualConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owned: Vec<_> = self.owned.keys().collect();
        f.debug_struct("ManualConsumer").field("group", &self.group).field("owned", &owned).finish_non_exhaustive()
    }
}

/// Copies a record, and notes that it was handed out.
fn take(owned: &mut BTreeMap<TopicPartition, Owned>, into: &mut Vec<Record>, polled: &Polled<'_>) -> Next {
    if into.len() == RECORDS {
        return Next::Stop;
    }
    let at = TopicPartition { topic: polled.topic.to_owned(), partition: polled.partition };
    // One of a partition that is not started is not ours to count: the start seeks to its own offset.
    let Some(owned) = owned.get_mut(&at) else { return Next::Continue };
    let record = &polled.record;
    owned.ledger.hand_out(record.offset);
    into.push(Record {
        topic: Arc::clone(&owned.topic),
        partition: polled.partition,
        offset: record.offset,
        key: record.key.map(<[u8]>::to_vec),
        value: record.value.map(<[u8]>::to_vec),
        timestamp: record.timestamp,
        headers: Headers::from(record.headers),
        epoch: owned.epoch,
    });
    Next::Continue
}

fn broken(doing: &str) -> impl FnOnce(BrokerError) -> ManualError {
    let doing = doing.to_owned();
    move |cause| ManualError::Broker { doing, cause }
}

#[cfg(test)]
mod tests;
