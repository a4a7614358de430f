//! `Fetch`: answered at once where there is enough to read, else parked until records come or its time is over.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::ResponseError;
use kafka_protocol::messages::fetch_request::FetchPartition;
use kafka_protocol::messages::fetch_response::{AbortedTransaction, FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::{FetchRequest, FetchResponse, ResponseKind, TopicName};

use super::log::{Aborted, PartitionLog};
use super::machine::Caller;
use super::topics::{READ_COMMITTED, check_epoch};
use super::{ConnectionId, Machine, Reply};

/// The fetches that wait. The partitions they read know them by number (`PartitionLog::waiting`).
#[derive(Debug, Default)]
pub(super) struct Fetches {
    parked: BTreeMap<u64, Parked>,
    by_deadline: BTreeSet<(i64, u64)>,
    /// Those with news since they were looked at last.
    woken: BTreeSet<u64>,
    numbers: u64,
}

#[derive(Debug)]
struct Parked {
    caller: Caller,
    request: FetchRequest,
    deadline: i64,
}

impl Fetches {
    /// Notes that these have something new to read.
    pub(super) fn wake<'a>(&mut self, waiting: impl IntoIterator<Item = &'a u64>) {
        self.woken.extend(waiting);
    }

    pub(super) fn next_deadline(&self) -> Option<i64> {
        self.by_deadline.first().map(|(deadline, _)| *deadline)
    }
}

impl Machine {
    pub(super) fn fetch(&mut self, caller: Caller, request: FetchRequest, now: i64, out: &mut Vec<Reply>) {
        if request.session_id != 0 {
            // Fetch sessions (KIP-227) are not offered: every answer is complete, and its session is 0.
            let response = FetchResponse::default().with_error_code(ResponseError::FetchSessionIdNotFound.code());
            out.push(caller.reply(ResponseKind::Fetch(response)));
            return;
        }
        if request.max_wait_ms <= 0 || self.is_ready(&request) {
            out.push(caller.reply(ResponseKind::Fetch(self.read(request))));
            return;
        }
        let number = self.fetches.numbers;
        self.fetches.numbers += 1;
        for (topic, partition) in partitions(&request) {
            if let Ok(log) = self.topics.partition_mut(topic, partition.partition) {
                log.waiting.push(number);
            }
        }
        let deadline = now.saturating_add(request.max_wait_ms.into());
        self.fetches.by_deadline.insert((deadline, number));
        self.fetches.parked.insert(number, Parked { caller, request, deadline });
    }

    /// Answers the woken fetches that have enough to read now.
    pub(super) fn serve_woken(&mut self, out: &mut Vec<Reply>) {
        while let Some(number) = self.fetches.woken.pop_first() {
            let ready = self.fetches.parked.get(&number).is_some_and(|parked| self.is_ready(&parked.request));
            if ready {
                self.serve(number, out);
            }
        }
    }

    /// Answers the fetches whose time is over with what there is.
    pub(super) fn serve_expired(&mut self, now: i64, out: &mut Vec<Reply>) {
        while let Some(&(deadline, number)) = self.fetches.by_deadline.first()
            && deadline <= now
        {
            self.serve(number, out);
        }
    }

    /// Forgets the fetches of a connection.
    pub(super) fn drop_fetches(&mut self, of: ConnectionId) {
        let gone: Vec<u64> = self
            .fetches
            .parked
            .iter()
            .filter(|(_, parked)| parked.caller.to == of)
            .map(|(number, _)| *number)
            .collect();
        for number in gone {
            self.unpark(number);
        }
    }

    fn serve(&mut self, number: u64, out: &mut Vec<Reply>) {
        if let Some(parked) = self.unpark(number) {
            out.push(parked.caller.reply(ResponseKind::Fetch(self.read(parked.request))));
        }
    }

    fn unpark(&mut self, number: u64) -> Option<Parked> {
        let parked = self.fetches.parked.remove(&number)?;
        self.fetches.by_deadline.remove(&(parked.deadline, number));
        for (topic, partition) in partitions(&parked.request) {
            if let Ok(log) = self.topics.partition_mut(topic, partition.partition) {
                log.waiting.retain(|waiting| *waiting != number);
            }
        }
        Some(parked)
    }

    /// Whether there is enough to answer: `min_bytes`, an error, or nothing that was asked for.
    fn is_ready(&self, request: &FetchRequest) -> bool {
        let min = u64::try_from(request.min_bytes).unwrap_or(0);
        let mut asked = false;
        let mut bytes = 0;
        for (topic, partition) in partitions(request) {
            asked = true;
            match self.readable(topic, partition, request.isolation_level) {
                Ok((log, upto)) => bytes += log.bytes_between(partition.fetch_offset, upto),
                Err(_) => return true,
            }
            if bytes >= min {
                return true;
            }
        }
        !asked
    }

    /// The log of a partition and the offset that this reader may read up to.
    fn readable(
        &self,
        topic: &TopicName,
        partition: &FetchPartition,
        isolation: i8,
    ) -> Result<(&PartitionLog, i64), ResponseError> {
        let log = self.topics.partition(topic, partition.partition)?;
        check_epoch(partition.current_leader_epoch)?;
        if !(log.start()..=log.end()).contains(&partition.fetch_offset) {
            return Err(ResponseError::OffsetOutOfRange);
        }
        Ok((log, if isolation == READ_COMMITTED { log.stable_end() } else { log.end() }))
    }

    /// Reads what there is, within the sizes that were asked for. The first partition with records gives at least one batch, so
    /// that a reader with a small size gets past a large one.
    fn read(&self, request: FetchRequest) -> FetchResponse {
        let mut room = usize::try_from(request.max_bytes).unwrap_or(0);
        let mut is_first = true;
        let isolation = request.isolation_level;
        let responses = request.topics.into_iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|partition| {
                let data = PartitionData::default().with_partition_index(partition.partition);
                let (log, upto) = match self.readable(&topic.topic, partition, isolation) {
                    Ok(readable) => readable,
                    Err(error) => return self.unreadable(&topic.topic, data, error),
                };
                let max = usize::try_from(partition.partition_max_bytes).unwrap_or(0).min(room);
                let (records, next) = log.read(partition.fetch_offset, upto, max, is_first);
                is_first &= records.is_empty();
                room = room.saturating_sub(records.len());
                let aborted = (isolation == READ_COMMITTED)
                    .then(|| log.aborted_between(partition.fetch_offset, next).map(aborted).collect());
                data.with_high_watermark(log.end())
                    .with_last_stable_offset(log.stable_end())
                    .with_log_start_offset(log.start())
                    .with_aborted_transactions(aborted)
                    .with_records(Some(records))
            });
            let partitions = partitions.collect();
            FetchableTopicResponse::default().with_topic(topic.topic).with_partitions(partitions)
        });
        FetchResponse::default().with_responses(responses.collect())
    }

    fn unreadable(&self, topic: &TopicName, data: PartitionData, error: ResponseError) -> PartitionData {
        let data = data.with_error_code(error.code()).with_high_watermark(-1).with_records(Some(Default::default()));
        match self.topics.partition(topic, data.partition_index) {
            // A reader out of range learns the range.
            Ok(log) => data.with_high_watermark(log.end()).with_log_start_offset(log.start()),
            Err(_) => data,
        }
    }
}

fn partitions(request: &FetchRequest) -> impl Iterator<Item = (&TopicName, &FetchPartition)> {
    request.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |partition| (&topic.topic, partition)))
}

fn aborted(aborted: &Aborted) -> AbortedTransaction {
    AbortedTransaction::default().with_producer_id(aborted.producer_id.into()).with_first_offset(aborted.first)
}
