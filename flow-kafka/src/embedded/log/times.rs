//! Finding the first record at or after a time, for `ListOffsets`.

use super::batch::Batch;
use super::records::Records;

/// The offset delta and timestamp of the first record of a batch whose time is at least `time`.
///
/// Of a batch that cannot be unpacked the first record stands for all, so that a reader who starts there misses nothing.
pub(super) fn first_at(batch: &Batch, time: i64) -> Option<(i64, i64)> {
    if batch.max_timestamp < time {
        return None;
    }
    let Some(records) = Records::of(batch) else { return Some((0, batch.max_timestamp)) };
    let mut records = records.flatten();
    if batch.has_one_time() {
        return records.next().map(|record| (record.offset_delta, batch.max_timestamp));
    }
    records
        .map(|record| (record.offset_delta, batch.base_timestamp.saturating_add(record.timestamp_delta)))
        .find(|(_, timestamp)| *timestamp >= time)
}
