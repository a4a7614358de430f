//! From Kafka's error codes to what our caller can do about them, as librdkafka classifies them.

use kafka_protocol::ResponseError;

use crate::broker::{BrokerError, ErrorKind};

/// What an answer's error code means for a client of the transaction coordinator.
pub(super) enum Verdict {
    /// It is done.
    Done,
    /// Not now: the same request again, after a while.
    Again,
    /// An error of this kind.
    Failed(ErrorKind),
}

/// The error of this code, in words; `None` for 0.
pub(super) fn error(code: i16) -> Option<ResponseError> {
    ResponseError::try_from_code(code)
}

/// What was tried, and what the broker said.
pub(super) fn refusal(kind: ErrorKind, what: &str, error: ResponseError) -> BrokerError {
    BrokerError::new(kind, format!("{what}: the broker answered {error} ({})", error.code()))
}

/// No final answer came in time.
pub(super) fn timed_out(what: &str) -> BrokerError {
    BrokerError::new(ErrorKind::Retriable, format!("{what}: no final answer within its timeout"))
}

/// Coordinator and leader moves, overload, connections lost: every client repeats these by itself.
pub(super) fn is_transient(error: ResponseError) -> bool {
    matches!(
        error,
        ResponseError::CoordinatorLoadInProgress
            | ResponseError::CoordinatorNotAvailable
            | ResponseError::NotCoordinator
            | ResponseError::LeaderNotAvailable
            | ResponseError::NotLeaderOrFollower
            | ResponseError::RequestTimedOut
            | ResponseError::NetworkException
            | ResponseError::NotEnoughReplicas
            | ResponseError::NotEnoughReplicasAfterAppend
    )
}

/// Somebody initialised our transactional id, or the broker gave our transaction up.
fn is_fence(error: ResponseError) -> bool {
    matches!(error, ResponseError::InvalidProducerEpoch | ResponseError::ProducerFenced)
}

/// `InitProducerId`.
pub(super) fn of_init(code: i16) -> Verdict {
    match error(code) {
        None => Verdict::Done,
        Some(error) if is_transient(error) || error == ResponseError::ConcurrentTransactions => Verdict::Again,
        Some(error) if is_fence(error) => Verdict::Failed(ErrorKind::Fenced),
        Some(_) => Verdict::Failed(ErrorKind::Refused),
    }
}

/// `AddPartitionsToTxn`, `AddOffsetsToTxn` and `EndTxn`.
pub(super) fn of_transaction(code: i16) -> Verdict {
    match error(code) {
        None => Verdict::Done,
        Some(error) if is_transient(error) || error == ResponseError::ConcurrentTransactions => Verdict::Again,
        Some(error) if is_fence(error) => Verdict::Failed(ErrorKind::Fenced),
        Some(ResponseError::InvalidTxnState) => Verdict::Failed(ErrorKind::Fatal),
        Some(_) => Verdict::Failed(ErrorKind::Abort),
    }
}

/// `TxnOffsetCommit`: the one that carries the generation.
pub(super) fn of_offsets(code: i16) -> Verdict {
    match error(code) {
        Some(
            ResponseError::IllegalGeneration
            | ResponseError::UnknownMemberId
            | ResponseError::FencedInstanceId
            | ResponseError::RebalanceInProgress
            | ResponseError::StaleMemberEpoch,
        ) => Verdict::Failed(ErrorKind::StaleGeneration),
        // Repeated up to the call's timeout, in case the topic is just being made; then an abort.
        Some(ResponseError::UnknownTopicOrPartition) => Verdict::Again,
        _ => of_transaction(code),
    }
}

/// One batch of a `Produce`.
pub(super) fn of_produce(code: i16) -> Verdict {
    match error(code) {
        // The batch was there already: the answer to its first sending was lost.
        None | Some(ResponseError::DuplicateSequenceNumber) => Verdict::Done,
        Some(error) if is_transient(error) => Verdict::Again,
        Some(error) if is_fence(error) => Verdict::Failed(ErrorKind::Fenced),
        Some(ResponseError::OutOfOrderSequenceNumber | ResponseError::InvalidTxnState) => {
            Verdict::Failed(ErrorKind::Fatal)
        }
        Some(ResponseError::UnknownProducerId | ResponseError::InvalidProducerIdMapping) => {
            Verdict::Failed(ErrorKind::Abort)
        }
        Some(_) => Verdict::Failed(ErrorKind::RecordRefused),
    }
}

/// Requests that read or describe: `Fetch`, `ListOffsets`, `OffsetFetch`, `Metadata`, admin.
pub(super) fn of_read(code: i16) -> Verdict {
    match error(code) {
        None => Verdict::Done,
        Some(error) if is_transient(error) => Verdict::Again,
        Some(ResponseError::UnknownTopicOrPartition) => Verdict::Failed(ErrorKind::UnknownTopic),
        Some(ResponseError::OffsetOutOfRange) => Verdict::Failed(ErrorKind::OffsetOutOfRange),
        Some(ResponseError::UnstableOffsetCommit) => Verdict::Failed(ErrorKind::Unstable),
        Some(_) => Verdict::Failed(ErrorKind::Refused),
    }
}
