//! What a consumer reads: its partitions, where it is in each, and the records that were fetched and not handed out yet.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use flow_core::{Offset, Partition};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::{BrokerId, FetchRequest, FetchResponse, RequestKind};

use super::assign::topic_name;
use super::codes::{self, Verdict};
use super::member::Sender;
use super::records::{self, Kept};
use crate::broker::{BrokerError, ErrorKind, Standing, TopicPartition};

/// How long the broker may hold a fetch that finds nothing.
const WAIT: Duration = Duration::from_millis(50);
/// How long after a failed or an empty fetch the next one goes out.
const RETRY: Duration = Duration::from_millis(100);
const AT_ONCE: Duration = Duration::from_millis(1);
/// No more is fetched while this many records wait for a poll.
const BUFFERED: usize = 1000;
const BYTES: i32 = 1 << 20;

/// Records of one partition, in order.
pub(super) struct Chunk {
    pub(super) partition: TopicPartition,
    version: u64,
    pub(super) records: VecDeque<Kept>,
    /// Where the position is when all of them are handed out.
    next: i64,
}

/// The version and the offset with which each partition was asked for.
type Asked = BTreeMap<TopicPartition, (u64, i64)>;

#[derive(Default)]
pub(super) struct Fetcher {
    partitions: BTreeMap<TopicPartition, Position>,
    /// Counts what makes fetched records worthless: a start, a pause, a new owner.
    version: u64,
    in_flight: Option<(i32, Asked)>,
    fetch_at: Duration,
    chunks: VecDeque<Chunk>,
    failures: VecDeque<BrokerError>,
}

#[derive(Default)]
struct Position {
    version: u64,
    started: bool,
    paused: bool,
    /// The next record to hand out.
    position: i64,
    /// The next record to fetch.
    fetch: i64,
    end: Option<i64>,
}

impl Fetcher {
    pub(super) fn owned(&self) -> BTreeSet<TopicPartition> {
        self.partitions.keys().cloned().collect()
    }

    pub(super) fn add(&mut self, partition: &TopicPartition) {
        self.version += 1;
        self.partitions.insert(partition.clone(), Position { version: self.version, ..Position::default() });
    }

    pub(super) fn remove(&mut self, partition: &TopicPartition) {
        self.partitions.remove(partition);
        self.drop_stale();
    }

    /// Moves a partition to an offset and lets it flow.
    pub(super) fn start(&mut self, partition: &TopicPartition, offset: i64) -> Result<(), BrokerError> {
        self.change(partition, |state| {
            state.started = true;
            state.position = offset;
        })
    }

    pub(super) fn set_paused(&mut self, partition: &TopicPartition, paused: bool) -> Result<(), BrokerError> {
        self.change(partition, |state| state.paused = paused)
    }

    fn change(&mut self, partition: &TopicPartition, change: impl FnOnce(&mut Position)) -> Result<(), BrokerError> {
        let Some(state) = self.partitions.get_mut(partition) else {
            let text = format!("partition {partition} is not assigned to this consumer");
            return Err(BrokerError::new(ErrorKind::Refused, text));
        };
        change(state);
        self.version += 1;
        state.version = self.version;
        // What was fetched is dropped, as librdkafka does, and fetched again.
        state.fetch = state.position;
        self.drop_stale();
        Ok(())
    }

    fn drop_stale(&mut self) {
        let partitions = &self.partitions;
        self.chunks.retain(|chunk| partitions.get(&chunk.partition).is_some_and(|at| at.version == chunk.version));
    }

    /// The connection broke: what was asked for does not come.
    pub(super) fn cut_off(&mut self, now: Duration) {
        self.in_flight = None;
        self.fetch_at = now + RETRY;
    }

    pub(super) fn standing(&self, partition: &TopicPartition) -> Option<Standing> {
        let state = self.partitions.get(partition).filter(|state| state.started)?;
        Some(Standing { position: Offset(state.position), end: Offset(state.end?) })
    }

    pub(super) fn has_records(&self) -> bool {
        !self.chunks.is_empty()
    }

    pub(super) fn has_failure(&self) -> bool {
        !self.failures.is_empty()
    }

    pub(super) fn take_failure(&mut self) -> Option<BrokerError> {
        self.failures.pop_front()
    }

    /// Up to `max` records, all of one partition; they count as handed out.
    pub(super) fn take(&mut self, max: usize) -> Option<Chunk> {
        let mut chunk = self.chunks.pop_front()?;
        if chunk.records.len() > max {
            let rest = chunk.records.split_off(max);
            let between = rest.front().map_or(chunk.next, |record| record.offset);
            let (partition, version, next) = (chunk.partition.clone(), chunk.version, chunk.next);
            self.chunks.push_front(Chunk { partition, version, records: rest, next });
            chunk.next = between;
        }
        if let Some(state) = self.partitions.get_mut(&chunk.partition) {
            state.position = chunk.next;
        }
        Some(chunk)
    }

    /// Takes back what was not handed out after all.
    pub(super) fn give_back(&mut self, chunk: Chunk) {
        let Some(state) = self.partitions.get_mut(&chunk.partition) else { return };
        if let Some(first) = chunk.records.front()
            && state.version == chunk.version
        {
            state.position = first.offset;
            self.chunks.push_front(chunk);
        }
    }

    pub(super) fn due(&self) -> Option<Duration> {
        (self.in_flight.is_none() && self.wants().next().is_some()).then_some(self.fetch_at)
    }

    fn wants(&self) -> impl Iterator<Item = (&TopicPartition, &Position)> {
        let full = self.chunks.iter().map(|chunk| chunk.records.len()).sum::<usize>() >= BUFFERED;
        self.partitions.iter().filter(move |(_, state)| !full && state.started && !state.paused)
    }

    /// Sends the next fetch if it is time.
    pub(super) fn pump(&mut self, now: Duration, sender: &mut Sender) {
        if self.due().is_none_or(|due| due > now) {
            return;
        }
        let wanted: Asked =
            self.wants().map(|(partition, state)| (partition.clone(), (state.version, state.fetch))).collect();
        let request = fetch_request(wanted.iter().map(|(partition, &(_, from))| (partition, from)), WAIT);
        self.in_flight = Some((sender.send(11, RequestKind::Fetch(request)), wanted));
    }

    pub(super) fn answer(&mut self, correlation: i32, answer: &FetchResponse, now: Duration) {
        let Some((sent, wanted)) = self.in_flight.take() else { return };
        if sent != correlation {
            self.in_flight = Some((sent, wanted));
            return;
        }
        let mut brought = false;
        for (partition, data) in partitions_of(answer) {
            let current = self.partitions.get(&partition).map(|state| state.version);
            let Some(&(version, from)) = wanted.get(&partition).filter(|asked| Some(asked.0) == current) else {
                continue;
            };
            brought |= self.take_in(partition, version, from, data, now);
        }
        self.fetch_at = self.fetch_at.max(if brought { now } else { now + AT_ONCE });
    }

    fn take_in(
        &mut self,
        partition: TopicPartition,
        version: u64,
        from: i64,
        data: &PartitionData,
        now: Duration,
    ) -> bool {
        let read = read_partition(&partition, from, data);
        let Some(state) = self.partitions.get_mut(&partition) else { return false };
        let fetched = match read {
            Ok(Some(fetched)) => fetched,
            Ok(None) => {
                self.fetch_at = now + RETRY;
                return false;
            }
            Err(error) => {
                state.started = false;
                self.failures.push_back(error);
                return false;
            }
        };
        state.end = Some(data.high_watermark);
        let Some(next) = fetched.next.filter(|&next| next > from) else { return false };
        state.fetch = next;
        let waiting = self.chunks.iter_mut().rev().find(|chunk| chunk.partition == partition);
        match waiting {
            _ if !fetched.records.is_empty() => {
                self.chunks.push_back(Chunk { partition, version, records: fetched.records, next });
            }
            // Only markers: passed at once, or when what came before them is.
            Some(chunk) => chunk.next = next,
            None => state.position = next,
        }
        true
    }
}

/// A fetch of committed records from these positions.
pub(super) fn fetch_request<'p>(
    from: impl IntoIterator<Item = (&'p TopicPartition, i64)>,
    wait: Duration,
) -> FetchRequest {
    let mut topics: BTreeMap<&str, Vec<FetchPartition>> = BTreeMap::new();
    for (partition, offset) in from {
        let entry = FetchPartition::default()
            .with_partition(partition.partition.0)
            .with_fetch_offset(offset)
            .with_partition_max_bytes(BYTES);
        topics.entry(&partition.topic).or_default().push(entry);
    }
    let topics = topics
        .into_iter()
        .map(|(topic, partitions)| FetchTopic::default().with_topic(topic_name(topic)).with_partitions(partitions));
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(wait.as_millis() as i32)
        .with_min_bytes(1)
        .with_max_bytes(16 * BYTES)
        .with_isolation_level(1)
        .with_session_epoch(-1)
        .with_topics(topics.collect())
}

/// The partitions of an answer.
pub(super) fn partitions_of(answer: &FetchResponse) -> impl Iterator<Item = (TopicPartition, &PartitionData)> {
    answer.responses.iter().flat_map(|topic| {
        topic.partitions.iter().map(|data| {
            let partition = Partition(data.partition_index);
            (TopicPartition { topic: topic.topic.to_string(), partition }, data)
        })
    })
}

/// The committed records of one partition; `None`: not now.
pub(super) fn read_partition(
    partition: &TopicPartition,
    from: i64,
    data: &PartitionData,
) -> Result<Option<records::Fetched>, BrokerError> {
    let what = || format!("fetch of {partition} from offset {}", Offset(from));
    match codes::of_read(data.error_code) {
        Verdict::Done => {}
        Verdict::Again => return Ok(None),
        Verdict::Failed(kind) => {
            let error = codes::error(data.error_code).unwrap_or(kafka_protocol::ResponseError::UnknownServerError);
            return Err(codes::refusal(kind, &what(), error));
        }
    }
    let bytes = data.records.clone().unwrap_or_default();
    let aborted = data.aborted_transactions.as_deref().unwrap_or_default();
    records::decode(&bytes, from, Some(aborted))
        .map(Some)
        .map_err(|message| BrokerError::new(ErrorKind::Fatal, format!("{}: {message}", what())))
}
