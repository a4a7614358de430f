//! Finding the first record at or after a time, for `ListOffsets`.

use super::batch::Batch;

/// The offset delta and timestamp of the first record of a batch whose time is at least `time`.
///
/// A compressed batch is not unpacked: its first record stands for all of it, so that a reader who starts there misses nothing.
pub(super) fn first_at(batch: &Batch, time: i64) -> Option<(i64, i64)> {
    if batch.max_timestamp < time {
        return None;
    }
    if batch.is_compressed() || batch.has_one_time() {
        return Some((0, batch.max_timestamp));
    }
    let mut rest = batch.records();
    while !rest.is_empty() {
        let (length, after) = varint(rest)?;
        let mut record = after.get(1..usize::try_from(length).ok()?)?; // without the attributes byte
        rest = &after[usize::try_from(length).ok()?..];
        let (timestamp_delta, after) = varint(record)?;
        record = after;
        let (offset_delta, _) = varint(record)?;
        let timestamp = batch.base_timestamp.saturating_add(timestamp_delta);
        if timestamp >= time {
            return Some((offset_delta, timestamp));
        }
    }
    None
}

/// A zigzag varint, and what follows it.
fn varint(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Some(((value >> 1) as i64 ^ -((value & 1) as i64), &bytes[i + 1..]));
        }
    }
    None
}
