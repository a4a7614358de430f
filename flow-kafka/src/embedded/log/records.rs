//! The records inside a batch (magic 2), read where they lie: nothing is copied that is not compressed.

use bytes::Bytes;

use super::batch::Batch;
use super::compression;

/// One record of a batch.
#[derive(Debug)]
pub(super) struct Record {
    /// All of it, with its length in front: as it can be put into a batch again.
    pub(super) bytes: Bytes,
    /// Added to the batch's base offset.
    pub(super) offset_delta: i64,
    /// Added to the batch's base timestamp.
    pub(super) timestamp_delta: i64,
    pub(super) key: Option<Bytes>,
    /// Whether it has no value: it deletes its key.
    pub(super) is_tombstone: bool,
}

/// The records of a batch, in order; `None` in place of one that cannot be read, and nothing behind it.
#[derive(Debug)]
pub(super) struct Records {
    rest: Bytes,
}

impl Records {
    /// `None` if the batch cannot be unpacked.
    pub(super) fn of(batch: &Batch) -> Option<Records> {
        let packed = batch.records();
        let rest = match batch.compression() {
            0 => packed,
            codec => compression::unpack(codec, &packed)?.into(),
        };
        Some(Records { rest })
    }

    fn read(&mut self) -> Option<Record> {
        let start = self.rest.clone();
        let length = usize::try_from(varint(&mut self.rest)?).ok()?;
        let mut body = take(&mut self.rest, length)?;
        let bytes = start.slice(..start.len() - self.rest.len());
        take(&mut body, 1)?; // attributes, of which there are none
        let timestamp_delta = varint(&mut body)?;
        let offset_delta = varint(&mut body)?;
        let key = nullable(&mut body)?;
        let is_tombstone = nullable(&mut body)?.is_none();
        Some(Record { bytes, offset_delta, timestamp_delta, key, is_tombstone })
    }
}

impl Iterator for Records {
    type Item = Option<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let record = self.read();
        if record.is_none() {
            self.rest.clear();
        }
        Some(record)
    }
}

/// A length, -1 for none, and as many bytes.
fn nullable(from: &mut Bytes) -> Option<Option<Bytes>> {
    match varint(from)? {
        -1 => Some(None),
        length => take(from, usize::try_from(length).ok()?).map(Some),
    }
}

fn take(from: &mut Bytes, length: usize) -> Option<Bytes> {
    (length <= from.len()).then(|| from.split_to(length))
}

/// A zigzag varint.
fn varint(from: &mut Bytes) -> Option<i64> {
    let mut value = 0u64;
    for (i, &byte) in from.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            drop(from.split_to(i + 1));
            return Some((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    None
}
