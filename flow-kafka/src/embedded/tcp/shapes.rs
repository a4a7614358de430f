//! The bodies of the requests that the broker takes, as far as their lengths go. A test compares them with the codec's.

use std::ops::RangeInclusive;

use kafka_protocol::messages::ApiKey;

/// A field of a structure.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) kind: Kind,
    pub(super) versions: RangeInclusive<i16>,
}

/// How long a field is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// That many bytes.
    Fixed(usize),
    Text,
    Bytes,
    List(&'static Kind),
    Structure(&'static [Field]),
}

impl Field {
    const fn new(kind: Kind) -> Field {
        Field { kind, versions: 0..=i16::MAX }
    }

    const fn since(self, version: i16) -> Field {
        Field { kind: self.kind, versions: version..=*self.versions.end() }
    }

    const fn until(self, version: i16) -> Field {
        Field { kind: self.kind, versions: *self.versions.start()..=version }
    }
}

const fn list(element: &'static Kind) -> Field {
    Field::new(Kind::List(element))
}

const I8: Field = Field::new(Kind::Fixed(1));
const I16: Field = Field::new(Kind::Fixed(2));
const I32: Field = Field::new(Kind::Fixed(4));
const I64: Field = Field::new(Kind::Fixed(8));
const FLAG: Field = I8;
const TEXT: Field = Field::new(Kind::Text);
const BYTES: Field = Field::new(Kind::Bytes);
const NUMBERS: Field = list(&Kind::Fixed(4));
const TEXTS: Field = list(&Kind::Text);

/// A list of structures.
macro_rules! each {
    ($($field:expr),+ $(,)?) => { list(&Kind::Structure(&[$($field),+])) };
}

/// The first version in the compact encoding, and the fields of a request's body. `None`: the broker does not take it.
pub(super) fn body(api: ApiKey) -> Option<(i16, &'static [Field])> {
    Some(match api {
        ApiKey::Produce => (9, PRODUCE),
        ApiKey::Fetch => (12, FETCH),
        ApiKey::ListOffsets => (6, LIST_OFFSETS),
        ApiKey::Metadata => (9, METADATA),
        ApiKey::OffsetCommit => (8, OFFSET_COMMIT),
        ApiKey::OffsetFetch => (6, OFFSET_FETCH),
        ApiKey::FindCoordinator => (3, FIND_COORDINATOR),
        ApiKey::JoinGroup => (6, JOIN_GROUP),
        ApiKey::Heartbeat => (4, HEARTBEAT),
        ApiKey::LeaveGroup => (4, LEAVE_GROUP),
        ApiKey::SyncGroup => (4, SYNC_GROUP),
        ApiKey::DescribeGroups => (5, DESCRIBE_GROUPS),
        ApiKey::ListGroups => (3, LIST_GROUPS),
        ApiKey::ApiVersions => (3, API_VERSIONS),
        ApiKey::CreateTopics => (5, CREATE_TOPICS),
        ApiKey::DeleteTopics => (4, DELETE_TOPICS),
        ApiKey::DeleteRecords => (2, DELETE_RECORDS),
        ApiKey::InitProducerId => (2, INIT_PRODUCER_ID),
        ApiKey::OffsetForLeaderEpoch => (4, OFFSET_FOR_LEADER_EPOCH),
        ApiKey::AddPartitionsToTxn => (3, ADD_PARTITIONS_TO_TXN),
        ApiKey::AddOffsetsToTxn => (3, ADD_OFFSETS_TO_TXN),
        ApiKey::EndTxn => (3, END_TXN),
        ApiKey::TxnOffsetCommit => (3, TXN_OFFSET_COMMIT),
        ApiKey::DescribeConfigs => (4, DESCRIBE_CONFIGS),
        ApiKey::CreatePartitions => (2, CREATE_PARTITIONS),
        ApiKey::DeleteGroups => (2, DELETE_GROUPS),
        ApiKey::OffsetDelete => (i16::MAX, OFFSET_DELETE),
        ApiKey::DescribeCluster => (0, DESCRIBE_CLUSTER),
        _ => return None,
    })
}

const PRODUCE: &[Field] = &[TEXT, I16, I32, each![TEXT, each![I32, BYTES]]];

const FETCH: &[Field] = &[
    I32,
    I32,
    I32,
    I32,
    I8,
    I32.since(7),
    I32.since(7),
    each![TEXT, each![I32, I32.since(9), I64, I32.since(12), I64.since(5), I32]],
    each![TEXT, NUMBERS].since(7),
    TEXT.since(11),
];

const LIST_OFFSETS: &[Field] = &[I32, I8.since(2), each![TEXT, each![I32, I32.since(4), I64]]];

const METADATA: &[Field] = &[each![TEXT], FLAG.since(4), FLAG.since(8).until(10), FLAG.since(8)];

const OFFSET_COMMIT: &[Field] =
    &[TEXT, I32, TEXT, TEXT.since(7), I64.until(4), each![TEXT, each![I32, I64, I32.since(6), TEXT]]];

const OFFSET_FETCH: &[Field] =
    &[TEXT.until(7), each![TEXT, NUMBERS].until(7), each![TEXT, each![TEXT, NUMBERS]].since(8), FLAG.since(7)];

const FIND_COORDINATOR: &[Field] = &[TEXT.until(3), I8.since(1), TEXTS.since(4)];

const JOIN_GROUP: &[Field] = &[TEXT, I32, I32.since(1), TEXT, TEXT.since(5), TEXT, each![TEXT, BYTES], TEXT.since(8)];

const HEARTBEAT: &[Field] = &[TEXT, I32, TEXT, TEXT.since(3)];

const LEAVE_GROUP: &[Field] = &[TEXT, TEXT.until(2), each![TEXT, TEXT, TEXT.since(5)].since(3)];

const SYNC_GROUP: &[Field] = &[TEXT, I32, TEXT, TEXT.since(3), TEXT.since(5), TEXT.since(5), each![TEXT, BYTES]];

const DESCRIBE_GROUPS: &[Field] = &[TEXTS, FLAG.since(3)];

const LIST_GROUPS: &[Field] = &[TEXTS.since(4)];

const API_VERSIONS: &[Field] = &[TEXT.since(3), TEXT.since(3)];

const CREATE_TOPICS: &[Field] = &[each![TEXT, I32, I16, each![I32, NUMBERS], each![TEXT, TEXT]], I32, FLAG];

const DELETE_TOPICS: &[Field] = &[TEXTS, I32];

const DELETE_RECORDS: &[Field] = &[each![TEXT, each![I32, I64]], I32];

const INIT_PRODUCER_ID: &[Field] = &[TEXT, I32, I64.since(3), I16.since(3)];

const OFFSET_FOR_LEADER_EPOCH: &[Field] = &[I32.since(3), each![TEXT, each![I32, I32, I32]]];

const ADD_PARTITIONS_TO_TXN: &[Field] = &[TEXT, I64, I16, each![TEXT, NUMBERS]];

const ADD_OFFSETS_TO_TXN: &[Field] = &[TEXT, I64, I16, TEXT];

const END_TXN: &[Field] = &[TEXT, I64, I16, FLAG];

const TXN_OFFSET_COMMIT: &[Field] = &[
    TEXT,
    TEXT,
    I64,
    I16,
    I32.since(3),
    TEXT.since(3),
    TEXT.since(3),
    each![TEXT, each![I32, I64, I32.since(2), TEXT]],
];

const DESCRIBE_CONFIGS: &[Field] = &[each![I8, TEXT, TEXTS], FLAG, FLAG.since(3)];

const CREATE_PARTITIONS: &[Field] = &[each![TEXT, I32, each![NUMBERS]], I32, FLAG];

const DELETE_GROUPS: &[Field] = &[TEXTS];

const OFFSET_DELETE: &[Field] = &[TEXT, each![TEXT, each![I32]]];

const DESCRIBE_CLUSTER: &[Field] = &[FLAG, I8.since(1)];
