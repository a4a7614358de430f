//! `EndTxn`, and the end of transactions that nobody ends: by a successor, or by their timeout.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{EndTxnRequest, EndTxnResponse};

use super::{Producer, State, in_version};
use crate::embedded::Machine;
use crate::embedded::clock::after;
use crate::embedded::topics::Topic;

impl Machine {
    pub(in crate::embedded) fn end_transaction(
        &mut self,
        request: &EndTxnRequest,
        version: i16,
        now: i64,
    ) -> EndTxnResponse {
        let response = EndTxnResponse::default();
        match self.try_end(request, now) {
            Ok(()) => response,
            Err(error) => response.with_error_code(in_version(error, version, 2).code()),
        }
    }

    fn try_end(&mut self, request: &EndTxnRequest, now: i64) -> Result<(), ResponseError> {
        let id = request.transactional_id.as_str();
        let producer = Producer { transactional_id: id, id: request.producer_id.0, epoch: request.producer_epoch };
        let state = self.transactions.of(producer, &self.options)?.state;
        match (state, request.committed) {
            (State::Open { .. }, commit) => {
                self.complete(id, commit, now);
                Ok(())
            }
            // The same end once more: its answer was lost.
            (State::Committed, true) | (State::Aborted, false) => Ok(()),
            _ if self.options.ignore_fences => Ok(()),
            _ => Err(ResponseError::InvalidTxnState),
        }
    }

    /// Aborts a transaction over its producer's head: a new epoch first, so that the producer cannot go on with it. It can ask for
    /// the new epoch by its old one, and begin again (KIP-588).
    pub(super) fn fence(&mut self, id: &str, now: i64) {
        if let Some(transaction) = self.transactions.by_id.get_mut(id) {
            transaction.last_epoch = transaction.epoch;
            transaction.epoch = transaction.epoch.saturating_add(1);
        }
        self.complete(id, false, now);
    }

    /// Writes the markers of a transaction to all that it touched, and makes its offsets visible or forgets them.
    fn complete(&mut self, id: &str, commit: bool, now: i64) {
        let Some(transaction) = self.transactions.by_id.get_mut(id) else { return };
        transaction.state = if commit { State::Committed } else { State::Aborted };
        let (producer_id, epoch) = (transaction.producer_id, transaction.epoch);
        let partitions = std::mem::take(&mut transaction.partitions);
        let groups = std::mem::take(&mut transaction.groups);
        self.transactions.open = self.transactions.open.saturating_sub(1);
        for (topic, partitions) in &partitions {
            if self.topics.get(topic).is_ok_and(Topic::is_cleaned) {
                self.cleaner.wake(now, &self.options);
            }
            for partition in partitions {
                // A topic that was deleted meanwhile needs no marker.
                if let Ok(log) = self.topics.partition_mut(topic, *partition) {
                    log.end_transaction(producer_id, epoch, commit, now);
                    self.fetches.wake(&log.waiting);
                }
            }
        }
        for group in &groups {
            self.groups.end_transaction(group, producer_id, commit);
        }
    }

    /// Aborts the transactions that are open for longer than their timeout, where the time for a look has come.
    pub(in crate::embedded) fn expire_transactions(&mut self, now: i64) {
        if self.transactions.next_deadline().is_none_or(|check| check > now) {
            return;
        }
        self.transactions.next_check = after(now, self.options.transaction_check_interval);
        let is_expired = |state: State, timeout: i64| match state {
            State::Open { since } => since.saturating_add(timeout) < now,
            _ => false,
        };
        let transactions = self.transactions.by_id.iter();
        let expired = transactions.filter(|(_, transaction)| is_expired(transaction.state, transaction.timeout));
        let expired: Vec<String> = expired.map(|(id, _)| id.clone()).collect();
        for id in expired {
            self.fence(&id, now);
        }
    }
}
