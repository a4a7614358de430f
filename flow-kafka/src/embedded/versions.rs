//! Which requests the broker takes, in which versions.
//!
//! The upper bounds keep to what a broker without topic ids (KIP-516), KIP-848 and KIP-890 can answer; clients choose the
//! highest version that both sides know.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{ApiKey, ApiVersionsResponse};

/// Each request with its lowest and highest version.
pub(super) const SUPPORTED: &[(ApiKey, i16, i16)] = &[
    (ApiKey::Produce, 3, 11),
    (ApiKey::Fetch, 4, 12),
    (ApiKey::ListOffsets, 1, 7),
    (ApiKey::Metadata, 0, 9),
    (ApiKey::OffsetCommit, 2, 8),
    (ApiKey::OffsetFetch, 1, 8),
    (ApiKey::FindCoordinator, 0, 4),
    (ApiKey::JoinGroup, 0, 9),
    (ApiKey::Heartbeat, 0, 4),
    (ApiKey::LeaveGroup, 0, 5),
    (ApiKey::SyncGroup, 0, 5),
    (ApiKey::DescribeGroups, 0, 5),
    (ApiKey::ListGroups, 0, 4),
    (ApiKey::ApiVersions, 0, 3),
    (ApiKey::CreateTopics, 2, 6),
    (ApiKey::DeleteTopics, 1, 5),
    (ApiKey::DeleteRecords, 0, 2),
    (ApiKey::InitProducerId, 0, 4),
    (ApiKey::OffsetForLeaderEpoch, 2, 4),
    (ApiKey::AddPartitionsToTxn, 0, 3),
    (ApiKey::AddOffsetsToTxn, 0, 3),
    (ApiKey::EndTxn, 0, 3),
    (ApiKey::TxnOffsetCommit, 0, 3),
    (ApiKey::DescribeConfigs, 1, 4),
    (ApiKey::CreatePartitions, 0, 3),
    (ApiKey::DeleteGroups, 0, 2),
    (ApiKey::OffsetDelete, 0, 0),
    (ApiKey::DescribeCluster, 0, 1),
];

/// True if the broker answers this request in this version.
pub(super) fn is_supported(api: ApiKey, version: i16) -> bool {
    SUPPORTED.iter().any(|&(key, min, max)| key == api && (min..=max).contains(&version))
}

/// The answer to `ApiVersions`.
pub(super) fn answer() -> ApiVersionsResponse {
    let ranges = SUPPORTED.iter().map(|&(key, min, max)| {
        // librdkafka up to 2.8 takes a broker without Produce v0 for one that cannot decompress (KAFKA-18659); Apache Kafka 4
        // advertises it too, and refuses it as we do.
        let min = if key == ApiKey::Produce { 0 } else { min };
        ApiVersion::default().with_api_key(key as i16).with_min_version(min).with_max_version(max)
    });
    ApiVersionsResponse::default().with_api_keys(ranges.collect())
}

/// The answer to `ApiVersions` in a version that we do not know: sent as version 0, so that the client can choose a lower one.
pub(super) fn refuse() -> ApiVersionsResponse {
    answer().with_error_code(ResponseError::UnsupportedVersion.code())
}
