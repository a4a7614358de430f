//! `InitProducerId`: a producer gets its id and epoch, and whoever had the transactional id before is fenced.

use std::collections::BTreeMap;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId};

use super::{State, Transaction, in_version, millis};
use crate::embedded::Machine;

/// At this epoch a transactional id gets a new producer id instead of the next epoch. The last one is left for a fence.
const EPOCH_MAX: i16 = i16::MAX - 1;

impl Machine {
    pub(in crate::embedded) fn init_producer_id(
        &mut self,
        request: &InitProducerIdRequest,
        version: i16,
        now: i64,
    ) -> InitProducerIdResponse {
        let response = InitProducerIdResponse::default();
        match self.try_init(request, now) {
            Ok((id, epoch)) => response.with_producer_id(ProducerId(id)).with_producer_epoch(epoch),
            Err(error) => {
                response.with_producer_id(ProducerId(-1)).with_error_code(in_version(error, version, 4).code())
            }
        }
    }

    fn try_init(&mut self, request: &InitProducerIdRequest, now: i64) -> Result<(i64, i16), ResponseError> {
        let Some(id) = &request.transactional_id else {
            return Ok((self.transactions.new_producer_id(), 0));
        };
        let timeout = i64::from(request.transaction_timeout_ms);
        if id.is_empty() {
            return Err(ResponseError::InvalidRequest);
        }
        if timeout <= 0 || timeout > millis(self.options.transaction_timeout_max) {
            return Err(ResponseError::InvalidTransactionTimeout);
        }
        let known = match (request.producer_id.0, request.producer_epoch) {
            (-1, -1) => None,
            (producer_id, epoch) if producer_id >= 0 && epoch >= 0 => Some((producer_id, epoch)),
            _ => return Err(ResponseError::InvalidRequest),
        };
        let Some(transaction) = self.transactions.by_id.get(id.as_str()) else {
            return Ok(self.first_producer(id, timeout));
        };
        if known.is_some_and(|(producer_id, _)| producer_id != transaction.producer_id) {
            return Err(ResponseError::ProducerFenced);
        }
        if transaction.is_open() {
            self.fence(id, now);
        }
        self.next_epoch(id, timeout, known.map(|(_, epoch)| epoch))
    }

    fn first_producer(&mut self, id: &str, timeout: i64) -> (i64, i16) {
        let producer_id = self.transactions.new_producer_id();
        let transaction = Transaction {
            producer_id,
            epoch: 0,
            last_epoch: -1,
            timeout,
            state: State::Empty,
            partitions: BTreeMap::new(),
            groups: Default::default(),
        };
        self.transactions.by_id.insert(id.to_owned(), transaction);
        (producer_id, 0)
    }

    /// Gives the transactional id its next epoch. A producer that names its own (KIP-360) must be the current one, or the one that
    /// was until the last bump, which then is its.
    fn next_epoch(&mut self, id: &str, timeout: i64, known: Option<i16>) -> Result<(i64, i16), ResponseError> {
        let new_producer_id = self.transactions.producer_ids;
        let transaction = self.transactions.by_id.get_mut(id).ok_or(ResponseError::InvalidProducerIdMapping)?;
        let has_it_already = known.is_some_and(|epoch| epoch == transaction.last_epoch && epoch != transaction.epoch);
        if known.is_some_and(|epoch| epoch != transaction.epoch) && !has_it_already {
            return Err(ResponseError::ProducerFenced);
        }
        transaction.timeout = timeout;
        transaction.state = State::Empty;
        if has_it_already && transaction.epoch <= EPOCH_MAX {
            return Ok((transaction.producer_id, transaction.epoch));
        }
        transaction.last_epoch = known.unwrap_or(-1);
        if transaction.epoch >= EPOCH_MAX {
            transaction.producer_id = new_producer_id;
            transaction.epoch = 0;
            transaction.last_epoch = -1;
            self.transactions.producer_ids += 1;
        } else {
            transaction.epoch += 1;
        }
        let transaction = &self.transactions.by_id[id];
        Ok((transaction.producer_id, transaction.epoch))
    }
}
