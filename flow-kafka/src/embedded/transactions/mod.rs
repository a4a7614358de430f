//! The transaction coordinator: producer ids and epochs, and what each open transaction touches.
//!
//! A transaction's markers are written while `EndTxn` is handled, so no client ever meets one that is half ended.

mod end;
mod enlist;
mod init;
mod offsets;

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::ResponseError;

use super::Options;
use super::clock::{after, millis};
use super::log::Batch;

/// All transactional ids, and the numbers given to producers.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    by_id: BTreeMap<String, Transaction>,
    producer_ids: i64,
    /// When open transactions are looked at next; meaningless while there are none.
    next_check: i64,
    /// How many are open.
    open: usize,
}

/// A transactional id with its producer and its current or last transaction.
#[derive(Debug)]
struct Transaction {
    producer_id: i64,
    epoch: i16,
    /// The epoch before the last bump, unless a successor asked for that: the producer gets the new one by naming this one.
    last_epoch: i16,
    timeout: i64,
    state: State,
    partitions: BTreeMap<String, BTreeSet<i32>>,
    groups: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Empty,
    Open { since: i64 },
    Committed,
    Aborted,
}

/// Who asks: a producer as its requests name it.
#[derive(Clone, Copy, Debug)]
struct Producer<'r> {
    transactional_id: &'r str,
    id: i64,
    epoch: i16,
}

impl Transactions {
    fn new_producer_id(&mut self) -> i64 {
        let id = self.producer_ids;
        self.producer_ids += 1;
        id
    }

    /// The transaction of a producer that is the current one of its transactional id.
    fn of(&mut self, producer: Producer<'_>, options: &Options) -> Result<&mut Transaction, ResponseError> {
        if producer.transactional_id.is_empty() {
            return Err(ResponseError::InvalidRequest);
        }
        let transaction = self.by_id.get_mut(producer.transactional_id);
        let transaction = transaction.ok_or(ResponseError::InvalidProducerIdMapping)?;
        transaction.check(producer.id, producer.epoch, options)?;
        Ok(transaction)
    }

    /// Checks that a transactional batch belongs to an open transaction which its partition was added to (KIP-890, part 1).
    pub(super) fn verify(
        &self,
        transactional_id: Option<&str>,
        batch: &Batch,
        topic: &str,
        partition: i32,
        options: &Options,
    ) -> Result<(), ResponseError> {
        let id = transactional_id.ok_or(ResponseError::InvalidTxnState)?;
        let transaction = self.by_id.get(id).ok_or(ResponseError::InvalidProducerIdMapping)?;
        transaction.check(batch.producer_id, batch.producer_epoch, options).map_err(for_old_clients)?;
        let is_added = transaction.partitions.get(topic).is_some_and(|partitions| partitions.contains(&partition));
        if transaction.is_open() && is_added { Ok(()) } else { Err(ResponseError::InvalidTxnState) }
    }

    /// When open transactions have to be checked against their timeout.
    pub(super) fn next_deadline(&self) -> Option<i64> {
        (self.open > 0).then_some(self.next_check)
    }

    /// Opens a producer's transaction if it is not open yet.
    fn open(&mut self, producer: Producer<'_>, now: i64, options: &Options) -> Result<&mut Transaction, ResponseError> {
        let was_open = self.of(producer, options)?.is_open();
        if !was_open {
            if self.open == 0 {
                self.next_check = after(now, options.transaction_check_interval);
            }
            self.open += 1;
        }
        let transaction = self.of(producer, options)?;
        if !was_open {
            transaction.state = State::Open { since: now };
        }
        Ok(transaction)
    }
}

impl Transaction {
    fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    fn check(&self, producer_id: i64, epoch: i16, options: &Options) -> Result<(), ResponseError> {
        if producer_id != self.producer_id {
            return Err(ResponseError::InvalidProducerIdMapping);
        }
        if epoch != self.epoch && !options.ignore_fences {
            return Err(ResponseError::ProducerFenced);
        }
        Ok(())
    }
}

/// `PRODUCER_FENCED` for clients that know only its older name.
fn for_old_clients(error: ResponseError) -> ResponseError {
    match error {
        ResponseError::ProducerFenced => ResponseError::InvalidProducerEpoch,
        error => error,
    }
}

/// The error in the version that a request spoke: `since` knows `PRODUCER_FENCED`.
fn in_version(error: ResponseError, version: i16, since: i16) -> ResponseError {
    if version < since { for_old_clients(error) } else { error }
}
