//! The control batch that ends a transaction in a partition.

use bytes::{BufMut, Bytes, BytesMut};

use super::batch::{CHECKED_FROM, CONTROL, HEADER, TRANSACTIONAL};

/// A commit or abort marker of a producer, ready for a log.
pub(super) fn encode(producer_id: i64, producer_epoch: i16, commit: bool, now: i64) -> Bytes {
    let record = record(commit);
    let mut batch = BytesMut::with_capacity(HEADER + record.len());
    batch.put_i64(0); // base offset, patched by the log
    batch.put_i32((HEADER - 12 + record.len()) as i32);
    batch.put_i32(0); // leader epoch
    batch.put_i8(2); // magic
    batch.put_u32(0); // checksum, below
    batch.put_i16(TRANSACTIONAL | CONTROL);
    batch.put_i32(0); // last offset delta
    batch.put_i64(now);
    batch.put_i64(now);
    batch.put_i64(producer_id);
    batch.put_i16(producer_epoch);
    batch.put_i32(-1); // no sequence number
    batch.put_i32(1); // one record
    batch.put_slice(&record);
    let checksum = crc32c::crc32c(&batch[CHECKED_FROM..]);
    batch[17..21].copy_from_slice(&checksum.to_be_bytes());
    batch.freeze()
}

/// The marker's record. All its lengths are below 64, so that each zigzag varint is one byte.
fn record(commit: bool) -> Vec<u8> {
    let zigzag = |n: usize| (n as u8) << 1;
    let mut body = vec![0, 0, 0]; // attributes, timestamp delta, offset delta
    body.push(zigzag(4));
    body.put_i16(0); // version of the key
    body.put_i16(i16::from(commit));
    body.push(zigzag(6));
    body.put_i16(0); // version of the value
    body.put_i32(0); // coordinator epoch
    body.push(0); // no headers
    let mut record = vec![zigzag(body.len())];
    record.extend(body);
    record
}
