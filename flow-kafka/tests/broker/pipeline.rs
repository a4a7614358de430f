//! The whole: workers that copy a topic exactly once, while one crashes inside a transaction and one sleeps until it is replaced.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::Producer as _;
use rdkafka::{Offset, TopicPartitionList};

use crate::clients::{
    COMMITTED, LIMIT, Producer, await_markers, consumer, consumer_config, metadata_of, producer, read_to_end, retire,
    send, uninitialised_producer, wait_until,
};
use crate::cluster::Cluster;

const PARTITIONS: i32 = 4;
/// Longer than `max.poll.interval.ms` below, so that the sleeper loses its partitions.
const SLEEP: Duration = Duration::from_millis(9000);

#[test]
#[allow(clippy::disallowed_methods, reason = "real clients on real threads")]
fn x_a_crash_and_a_zombie_lose_and_double_nothing() {
    let cluster = Cluster::new("x");
    let pipeline = Pipeline::new(&cluster);
    let sent = thread::scope(|scope| {
        let _stop = StopOnDrop(&pipeline.stop);
        for (name, fault) in [("w0", None), ("w1", Some(Fault::Sleep)), ("w2", Some(Fault::Crash))] {
            let worker = Worker { pipeline: &pipeline, name, commits: AtomicUsize::new(0), fault: Mutex::new(fault) };
            scope.spawn(move || worker.run());
        }
        let sent = pipeline.feed_until_faults_are_over();
        pipeline.wait_until_committed(sent);
        sent
    });

    let refused = pipeline.zombie.lock().unwrap().take().unwrap();
    let code = crate::clients::abortable(refused);
    assert!(matches!(code, RDKafkaErrorCode::UnknownMemberId | RDKafkaErrorCode::IllegalGeneration), "{code:?}");
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for partition in 0..PARTITIONS {
        await_markers(&cluster, &pipeline.output, partition);
        for (_, value) in read_to_end(&cluster, &pipeline.output, partition, COMMITTED) {
            *seen.entry(value).or_default() += 1;
        }
    }
    let doubled: Vec<_> = seen.iter().filter(|(_, count)| **count > 1).collect();
    assert!(doubled.is_empty(), "{} doubled: {doubled:?}", doubled.len());
    assert_eq!(seen.len(), sent, "records are missing");
}

/// What happens to a worker once, in its third transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Everything is dropped before the offsets are sent.
    Crash,
    /// It goes on after a long sleep, with the membership that it had before.
    Sleep,
}

struct Pipeline<'c> {
    cluster: &'c Cluster,
    input: String,
    output: String,
    group: String,
    stop: AtomicBool,
    crashed: AtomicBool,
    /// How the sleeper's transaction ended.
    zombie: Mutex<Option<KafkaResult<()>>>,
}

impl<'c> Pipeline<'c> {
    fn new(cluster: &'c Cluster) -> Self {
        Pipeline {
            cluster,
            input: cluster.topic("in", PARTITIONS),
            output: cluster.topic("out", PARTITIONS),
            group: cluster.name("g"),
            stop: AtomicBool::new(false),
            crashed: AtomicBool::new(false),
            zombie: Mutex::default(),
        }
    }

    /// Keeps all workers busy until both faults have happened; how many records that took.
    #[allow(clippy::disallowed_methods, reason = "a steady input needs real time")]
    fn feed_until_faults_are_over(&self) -> usize {
        let producer = producer(self.cluster);
        let start = Instant::now();
        let mut sent = 0;
        while !self.crashed.load(Ordering::SeqCst) || self.zombie.lock().unwrap().is_none() {
            assert!(start.elapsed() < 2 * LIMIT, "the faults did not happen");
            for _ in 0..40 {
                let partition = i32::try_from(sent).unwrap() % PARTITIONS;
                send(&producer, &self.input, partition, &format!("r{sent}")).unwrap();
                sent += 1;
            }
            thread::sleep(Duration::from_millis(40));
        }
        producer.flush(LIMIT).unwrap();
        sent
    }

    #[allow(clippy::disallowed_methods, reason = "real clients need real time")]
    fn wait_until_committed(&self, sent: usize) {
        let client = consumer(self.cluster, &self.group, COMMITTED);
        wait_until(|| {
            thread::sleep(Duration::from_millis(100));
            let mut list = TopicPartitionList::new();
            list.add_partition_range(&self.input, 0, PARTITIONS - 1);
            let Ok(committed) = client.committed_offsets(list, Duration::from_secs(5)) else { return false };
            let offsets = committed.elements().into_iter().map(|element| element.offset().to_raw().unwrap_or(0).max(0));
            usize::try_from(offsets.sum::<i64>()).unwrap() == sent
        });
    }
}

struct Worker<'p> {
    pipeline: &'p Pipeline<'p>,
    name: &'static str,
    commits: AtomicUsize,
    fault: Mutex<Option<Fault>>,
}

/// Records of one poll round, with the next offset of each partition.
#[derive(Default)]
struct Batch {
    records: Vec<(i32, String)>,
    next: BTreeMap<i32, i64>,
}

impl Worker<'_> {
    /// One incarnation after the other: each failure but the refused commit is answered with new clients.
    fn run(&self) {
        while !self.pipeline.stop.load(Ordering::SeqCst) {
            if let Err(error) = self.incarnation() {
                eprintln!("{}: {error}", self.name);
            }
        }
    }

    fn incarnation(&self) -> KafkaResult<()> {
        let cluster = self.pipeline.cluster;
        let mut config = consumer_config(cluster, &self.pipeline.group, COMMITTED);
        config.set("session.timeout.ms", "6000").set("max.poll.interval.ms", "6000");
        let consumer: BaseConsumer<Rebalances> = config.create_with_context(Rebalances::default())?;
        consumer.subscribe(&[&self.pipeline.input])?;
        let producer = uninitialised_producer(cluster, &cluster.name(self.name));
        let worked = self.work(&consumer, &producer);
        retire((producer, consumer));
        worked
    }

    fn work(&self, consumer: &BaseConsumer<Rebalances>, producer: &Producer) -> KafkaResult<()> {
        producer.init_transactions(LIMIT)?;
        while !self.pipeline.stop.load(Ordering::SeqCst) {
            let batch = poll_batch(consumer)?;
            if !batch.records.is_empty() {
                self.transact(consumer, producer, &batch).or_else(|error| abort_or(error, producer))?;
                self.commits.fetch_add(1, Ordering::SeqCst);
            }
        }
        Ok(())
    }

    #[allow(clippy::disallowed_methods, reason = "the sleeper sleeps in real time")]
    fn transact(&self, consumer: &BaseConsumer<Rebalances>, producer: &Producer, batch: &Batch) -> KafkaResult<()> {
        let metadata = metadata_of(consumer);
        producer.begin_transaction()?;
        for (partition, value) in &batch.records {
            send(producer, &self.pipeline.output, *partition, value)?;
        }
        let mut offsets = TopicPartitionList::new();
        for (partition, next) in &batch.next {
            offsets.add_partition_offset(&self.pipeline.input, *partition, Offset::Offset(*next))?;
        }
        let fault = if self.commits.load(Ordering::SeqCst) < 2 { None } else { self.fault.lock().unwrap().take() };
        if fault.is_some() {
            producer.flush(LIMIT)?;
        }
        if fault == Some(Fault::Crash) {
            self.pipeline.crashed.store(true, Ordering::SeqCst);
            return Err(KafkaError::Canceled);
        }
        if fault == Some(Fault::Sleep) {
            thread::sleep(SLEEP);
        }
        let result = producer
            .send_offsets_to_transaction(&offsets, &metadata, LIMIT)
            .and_then(|()| producer.commit_transaction(LIMIT));
        if fault == Some(Fault::Sleep) {
            *self.pipeline.zombie.lock().unwrap() = Some(result.clone());
        }
        result
    }
}

/// Aborts what can be aborted. The error stays one: positions are behind the batch, so the worker starts again from its offsets.
fn abort_or(error: KafkaError, producer: &Producer) -> KafkaResult<()> {
    if matches!(&error, KafkaError::Transaction(error) if error.txn_requires_abort()) {
        producer.abort_transaction(LIMIT)?;
    }
    Err(error)
}

#[allow(clippy::disallowed_methods, reason = "real clients need real time")]
fn poll_batch(consumer: &BaseConsumer<Rebalances>) -> KafkaResult<Batch> {
    let rebalances = || consumer.context().0.load(Ordering::SeqCst);
    let mut batch = Batch::default();
    let mut before = rebalances();
    let start = Instant::now();
    while batch.records.len() < 40 && start.elapsed() < Duration::from_millis(60) {
        let polled = consumer.poll(Duration::from_millis(20));
        if rebalances() != before {
            // What was polled before it belongs to the old assignment.
            before = rebalances();
            batch = Batch::default();
        }
        if let Some(record) = polled.transpose()? {
            let value = String::from_utf8_lossy(record.payload().unwrap()).into_owned();
            batch.records.push((record.partition(), value));
            batch.next.insert(record.partition(), record.offset() + 1);
        }
    }
    Ok(batch)
}

/// Counts rebalances.
#[derive(Default)]
struct Rebalances(AtomicUsize);

impl ClientContext for Rebalances {}

impl ConsumerContext for Rebalances {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, _: &Rebalance<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Ends the workers also when the test fails, so that its scope ends.
struct StopOnDrop<'s>(&'s AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
