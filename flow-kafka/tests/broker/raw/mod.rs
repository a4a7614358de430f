//! Single requests and the error codes that Apache Kafka answers them with.

pub(crate) mod group;
mod groups;
mod offsets;
pub(crate) mod producer;
mod producers;
mod topics;
mod transactions;

/// Error codes, by Kafka's names for them.
mod code {
    pub(super) const NONE: i16 = 0;
    pub(super) const ILLEGAL_GENERATION: i16 = 22;
    pub(super) const UNKNOWN_MEMBER_ID: i16 = 25;
    pub(super) const OUT_OF_ORDER_SEQUENCE_NUMBER: i16 = 45;
    pub(super) const INVALID_PRODUCER_EPOCH: i16 = 47;
    pub(super) const INVALID_TXN_STATE: i16 = 48;
    pub(super) const MEMBER_ID_REQUIRED: i16 = 79;
    pub(super) const UNSTABLE_OFFSET_COMMIT: i16 = 88;
    pub(super) const PRODUCER_FENCED: i16 = 90;
    /// A producer whose epoch is over learns it by one of two names, depending on request and version.
    pub(super) const FENCED: [i16; 2] = [INVALID_PRODUCER_EPOCH, PRODUCER_FENCED];
}
