//! librdkafka's errors, and what a caller can do about each: the one place that decides an [`ErrorKind`].

use std::ffi::{CStr, c_char, c_int};
use std::fmt;

use rdkafka_sys as sys;
use sys::rd_kafka_resp_err_t as Known;

use super::raw;
use crate::broker::{BrokerError, ErrorKind};

/// An error code of librdkafka (negative) or of the broker (positive), known or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code(pub(super) c_int);

impl Code {
    pub(super) const NONE: Code = Code::of(Known::RD_KAFKA_RESP_ERR_NO_ERROR);
    pub(super) const TIMED_OUT: Code = Code::of(Known::RD_KAFKA_RESP_ERR__TIMED_OUT);
    pub(super) const ALL_DOWN: Code = Code::of(Known::RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN);
    pub(super) const QUEUE_FULL: Code = Code::of(Known::RD_KAFKA_RESP_ERR__QUEUE_FULL);
    pub(super) const STATE: Code = Code::of(Known::RD_KAFKA_RESP_ERR__STATE);
    pub(super) const IN_PROGRESS: Code = Code::of(Known::RD_KAFKA_RESP_ERR__IN_PROGRESS);
    pub(super) const PREV_IN_PROGRESS: Code = Code::of(Known::RD_KAFKA_RESP_ERR__PREV_IN_PROGRESS);
    pub(super) const PARTITION_EOF: Code = Code::of(Known::RD_KAFKA_RESP_ERR__PARTITION_EOF);
    pub(super) const ASSIGN: Code = Code::of(Known::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS);
    pub(super) const REVOKE: Code = Code::of(Known::RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS);
    pub(super) const TOPIC_EXISTS: Code = Code::of(Known::RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS);
    pub(super) const UNKNOWN_TOPIC: Code = Code::of(Known::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    pub(super) const UNSTABLE: Code = Code::of(Known::RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT);

    const fn of(known: Known) -> Code {
        Code(known as c_int)
    }

    /// True if this is any of `known`.
    fn is_any(self, known: &[Known]) -> bool {
        known.iter().any(|k| *k as c_int == self.0)
    }

    /// Kafka's name of it, as in its documentation.
    pub(super) fn name(self) -> String {
        // SAFETY: takes any integer and answers with a string that ends in NUL: a constant, or (for a code it does not know) a
        // buffer of this thread, which is copied before anything else can be written to it.
        unsafe { text(raw::rd_kafka_err2name(self.0)) }.to_owned()
    }

    /// What it means, in words.
    pub(super) fn text(self) -> String {
        // SAFETY: as in `name`.
        unsafe { text(raw::rd_kafka_err2str(self.0)) }.to_owned()
    }

    /// The result of a call that answers with a code.
    pub(super) fn ok(self) -> Result<(), Failure> {
        if self == Code::NONE { Ok(()) } else { Err(self.into()) }
    }
}

/// A string of librdkafka's, empty if there is none.
///
/// # Safety
/// `text` is null or a string that ends in NUL and lives as long as `'a`.
pub(super) unsafe fn text<'a>(text: *const c_char) -> &'a str {
    if text.is_null() {
        return "";
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("(not UTF-8)")
}

/// A failed call: the code, the client's own words, and what librdkafka says about it. At most one flag is set.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) code: Code,
    pub(super) text: String,
    pub(super) fatal: bool,
    pub(super) retriable: bool,
    pub(super) abort: bool,
}

impl From<Code> for Failure {
    fn from(code: Code) -> Self {
        Failure { code, text: code.text(), fatal: false, retriable: false, abort: false }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text, self.code.name())
    }
}

impl Failure {
    /// Reads and frees what a librdkafka call returned; null is success.
    ///
    /// # Safety
    /// `error` is null or an error object that the caller owns.
    pub(super) unsafe fn take(error: *mut sys::rd_kafka_error_t) -> Result<(), Failure> {
        // SAFETY: the caller's promise; it is destroyed once, after it was read.
        unsafe {
            let read = Failure::read(error);
            if !error.is_null() {
                sys::rd_kafka_error_destroy(error);
            }
            read
        }
    }

    /// Reads an error object that belongs to something else; null is success.
    ///
    /// # Safety
    /// `error` is null or a live error object.
    pub(super) unsafe fn read(error: *const sys::rd_kafka_error_t) -> Result<(), Failure> {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: not null, and the caller promises that it lives.
        let failure = unsafe {
            Failure {
                code: Code(raw::rd_kafka_error_code(error)),
                text: text(sys::rd_kafka_error_string(error)).to_owned(),
                fatal: sys::rd_kafka_error_is_fatal(error) != 0,
                retriable: sys::rd_kafka_error_is_retriable(error) != 0,
                abort: sys::rd_kafka_error_txn_requires_abort(error) != 0,
            }
        };
        failure.code.ok().map_err(|_| failure)
    }

    /// The error of a call that has no transaction to save.
    pub(super) fn general(&self, what: impl fmt::Display) -> BrokerError {
        BrokerError::new(general_kind(self.code), format!("could not {what}: {self}"))
    }

    /// The error of a call of a transactional producer.
    pub(super) fn transactional(&self, what: impl fmt::Display) -> BrokerError {
        BrokerError::new(self.transaction_kind(), format!("could not {what}: {self}"))
    }

    /// What a transactional producer can do. The code goes before the flags where librdkafka's flags are known to mislead: a
    /// fenced producer may be told only to abort, and a refusal for lack of rights may look as if a new client could help.
    fn transaction_kind(&self) -> ErrorKind {
        use Known::*;
        let code = self.code;
        if code.is_any(FENCED) {
            ErrorKind::Fenced
        } else if code.is_any(STALE) {
            ErrorKind::StaleGeneration
        } else if code.is_any(NOT_ALLOWED) {
            ErrorKind::Refused
        } else if self.fatal {
            ErrorKind::Fatal
        } else if code.is_any(&[RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART]) {
            ErrorKind::UnknownTopic
        } else if self.abort {
            ErrorKind::Abort
        } else if self.retriable {
            ErrorKind::Retriable
        } else {
            // librdkafka's documentation: an error without any flag is to be treated as fatal.
            ErrorKind::Fatal
        }
    }
}

/// What a delivery report says about the transaction: the record itself was refused, or the record only fell with the rest.
pub(super) fn delivery_kind(code: Code) -> ErrorKind {
    use Known::*;
    if code.is_any(FENCED) {
        return ErrorKind::Fenced;
    }
    let fell_with_the_rest = [
        RD_KAFKA_RESP_ERR__PURGE_QUEUE,
        RD_KAFKA_RESP_ERR__PURGE_INFLIGHT,
        RD_KAFKA_RESP_ERR__DESTROY,
        RD_KAFKA_RESP_ERR__STATE,
        RD_KAFKA_RESP_ERR__FATAL,
        RD_KAFKA_RESP_ERR__INCONSISTENT,
        RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE,
        RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
        RD_KAFKA_RESP_ERR_DUPLICATE_SEQUENCE_NUMBER,
        RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID,
        RD_KAFKA_RESP_ERR_INVALID_PRODUCER_ID_MAPPING,
        RD_KAFKA_RESP_ERR_INVALID_TXN_STATE,
        RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS,
    ];
    if code.is_any(&fell_with_the_rest) {
        ErrorKind::Abort
    } else if code.is_any(TRANSIENT) {
        ErrorKind::Unanswered
    } else {
        ErrorKind::RecordRefused
    }
}

/// True where the broker is away, moving or busy.
pub(super) fn is_transient(code: Code) -> bool {
    code.is_any(TRANSIENT)
}

/// True for errors that the client heals by itself while one goes on polling: there is nothing for the caller to do.
pub(super) fn heals_itself(code: Code) -> bool {
    use Known::*;
    code.is_any(TRANSIENT)
        || code.is_any(&[
            // The client leaves the group and joins again; the loss comes as a rebalance.
            RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED,
            RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION,
            RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID,
            RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS,
            RD_KAFKA_RESP_ERR_MEMBER_ID_REQUIRED,
        ])
}

/// What can be done about an error outside a transaction.
pub(super) fn general_kind(code: Code) -> ErrorKind {
    use Known::*;
    if code.is_any(TRANSIENT) {
        ErrorKind::Retriable
    } else if code == Code::UNSTABLE {
        ErrorKind::Unstable
    } else if code.is_any(&[
        RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
        RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_ID,
        RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC,
        RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION,
        // What a request for partitions says that have no leader because there are none.
        RD_KAFKA_RESP_ERR__NOENT,
    ]) {
        ErrorKind::UnknownTopic
    } else if code.is_any(&[
        RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE,
        RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET,
        RD_KAFKA_RESP_ERR__LOG_TRUNCATION,
        RD_KAFKA_RESP_ERR__NO_OFFSET,
    ]) {
        ErrorKind::OffsetOutOfRange
    } else if code.is_any(&[RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID]) {
        ErrorKind::InstanceTaken
    } else if code.is_any(&[RD_KAFKA_RESP_ERR_INCONSISTENT_GROUP_PROTOCOL]) {
        ErrorKind::AssignorMismatch
    } else if code.is_any(&[RD_KAFKA_RESP_ERR__FATAL]) || code.is_any(FENCED) {
        ErrorKind::Fatal
    } else {
        ErrorKind::Refused
    }
}

/// Somebody initialised our transactional id, or the broker aborted at the transaction timeout.
const FENCED: &[Known] = &[
    Known::RD_KAFKA_RESP_ERR__FENCED,
    Known::RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH,
    Known::RD_KAFKA_RESP_ERR_PRODUCER_FENCED,
];

/// The group does not know this member in this generation any more.
const STALE: &[Known] = &[
    Known::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION,
    Known::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID,
    Known::RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID,
    Known::RD_KAFKA_RESP_ERR_STALE_MEMBER_EPOCH,
    Known::RD_KAFKA_RESP_ERR_FENCED_MEMBER_EPOCH,
];

/// The same request would be refused again: rights, settings, versions.
const NOT_ALLOWED: &[Known] = &[
    Known::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
    Known::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED,
    Known::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED,
    Known::RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Known::RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED,
    Known::RD_KAFKA_RESP_ERR__AUTHENTICATION,
    Known::RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE,
    Known::RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT,
    Known::RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION,
    Known::RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE,
];

/// The broker is away, moving or busy: the same request may pass later.
const TRANSIENT: &[Known] = &[
    Known::RD_KAFKA_RESP_ERR__TRANSPORT,
    Known::RD_KAFKA_RESP_ERR__RESOLVE,
    Known::RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN,
    Known::RD_KAFKA_RESP_ERR__TIMED_OUT,
    Known::RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE,
    Known::RD_KAFKA_RESP_ERR__MSG_TIMED_OUT,
    Known::RD_KAFKA_RESP_ERR__WAIT_COORD,
    Known::RD_KAFKA_RESP_ERR__WAIT_CACHE,
    Known::RD_KAFKA_RESP_ERR__IN_PROGRESS,
    Known::RD_KAFKA_RESP_ERR__PREV_IN_PROGRESS,
    Known::RD_KAFKA_RESP_ERR__STATE,
    Known::RD_KAFKA_RESP_ERR__DESTROY_BROKER,
    Known::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
    Known::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
    Known::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
    Known::RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE,
    Known::RD_KAFKA_RESP_ERR_REPLICA_NOT_AVAILABLE,
    Known::RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION,
    Known::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
    Known::RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
    Known::RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
    Known::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
    Known::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Known::RD_KAFKA_RESP_ERR_NOT_CONTROLLER,
    Known::RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR,
    Known::RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH,
    Known::RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH,
    Known::RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE,
    Known::RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED,
    Known::RD_KAFKA_RESP_ERR_STALE_BROKER_EPOCH,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: Known, fatal: bool, retriable: bool, abort: bool) -> Failure {
        Failure { fatal, retriable, abort, ..Code::of(code).into() }
    }

    #[test]
    fn a_fenced_producer_is_fenced_whatever_the_flags_say() {
        for (fatal, abort) in [(true, false), (false, true), (false, false)] {
            for code in FENCED {
                assert_eq!(failure(*code, fatal, false, abort).transaction_kind(), ErrorKind::Fenced);
            }
        }
    }

    #[test]
    fn a_refused_generation_is_told_from_other_aborts() {
        use Known::*;
        for code in [RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION, RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID] {
            assert_eq!(failure(code, false, false, true).transaction_kind(), ErrorKind::StaleGeneration);
        }
        let other = failure(RD_KAFKA_RESP_ERR__INCONSISTENT, false, false, true);
        assert_eq!(other.transaction_kind(), ErrorKind::Abort);
    }

    #[test]
    fn an_error_without_a_flag_is_fatal_inside_a_transaction() {
        let unflagged = failure(Known::RD_KAFKA_RESP_ERR__INVALID_ARG, false, false, false);
        assert_eq!(unflagged.transaction_kind(), ErrorKind::Fatal);
    }

    #[test]
    fn a_code_of_a_newer_broker_has_a_name_and_a_kind() {
        let code = Code(4242);
        assert!(!code.name().is_empty() && code.text().contains("4242"));
        assert_eq!(general_kind(code), ErrorKind::Refused);
        assert_eq!(delivery_kind(code), ErrorKind::RecordRefused);
    }

    #[test]
    fn only_the_record_that_was_refused_is_blamed() {
        use Known::*;
        assert_eq!(delivery_kind(Code::of(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE)), ErrorKind::RecordRefused);
        assert_eq!(delivery_kind(Code::of(RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP)), ErrorKind::RecordRefused);
        assert_eq!(delivery_kind(Code::of(RD_KAFKA_RESP_ERR__PURGE_QUEUE)), ErrorKind::Abort);
        assert_eq!(delivery_kind(Code::of(RD_KAFKA_RESP_ERR__MSG_TIMED_OUT)), ErrorKind::Unanswered);
    }
}
