//! The header of a record batch (magic 2), as Kafka puts it on the wire.

use bytes::{Bytes, BytesMut};
use kafka_protocol::ResponseError;

use super::compression;
use super::records::Records;

/// Bytes in front of the records.
pub(super) const HEADER: usize = 61;
/// Bytes of base offset and length, which the length does not count.
const PREFIX: usize = 12;
/// Where the part that the checksum covers begins.
pub(super) const CHECKED_FROM: usize = 21;

pub(super) const TRANSACTIONAL: i16 = 0x10;
pub(super) const CONTROL: i16 = 0x20;
const COMPRESSION: i16 = 0x07;
const LOG_APPEND_TIME: i16 = 0x08;

/// A checked batch that is not in a log yet.
#[derive(Debug)]
pub(in crate::embedded) struct Batch {
    bytes: Bytes,
    attributes: i16,
    pub(super) last_offset_delta: i32,
    pub(super) base_timestamp: i64,
    pub(in crate::embedded) max_timestamp: i64,
    pub(in crate::embedded) producer_id: i64,
    pub(in crate::embedded) producer_epoch: i16,
    pub(super) base_sequence: i32,
}

impl Batch {
    /// Reads and checks the one batch of a produce request.
    ///
    /// # Errors
    /// `CORRUPT_MESSAGE` if it is not whole or its checksum does not match, `INVALID_RECORD` if it is not one batch of magic 2
    /// that a client may send.
    pub(in crate::embedded) fn parse(bytes: Bytes) -> Result<Batch, ResponseError> {
        let batch = Batch::read(bytes)?;
        if batch.is_control() {
            return Err(ResponseError::InvalidRecord);
        }
        Ok(batch)
    }

    pub(super) fn read(bytes: Bytes) -> Result<Batch, ResponseError> {
        let (Some(length), Some(&magic)) = (i32_at(&bytes, 8), bytes.get(16)) else {
            return Err(ResponseError::CorruptMessage);
        };
        if magic != 2 {
            return Err(ResponseError::InvalidRecord);
        }
        let size = usize::try_from(length).map_err(|_| ResponseError::CorruptMessage)?.saturating_add(PREFIX);
        if size < HEADER || bytes.len() < size {
            return Err(ResponseError::CorruptMessage);
        }
        // A produce request carries exactly one batch for a partition.
        if bytes.len() > size {
            return Err(ResponseError::InvalidRecord);
        }
        let checksum = i32_at(&bytes, 17).unwrap_or_default() as u32;
        if crc32c::crc32c(&bytes[CHECKED_FROM..]) != checksum {
            return Err(ResponseError::CorruptMessage);
        }
        Batch::fields(bytes).ok_or(ResponseError::CorruptMessage)?.counted()
    }

    /// A batch out of a log: it was checked when it came.
    pub(super) fn fields(bytes: Bytes) -> Option<Batch> {
        Some(Batch {
            attributes: i16_at(&bytes, 21)?,
            last_offset_delta: i32_at(&bytes, 23)?,
            base_timestamp: i64_at(&bytes, 27)?,
            max_timestamp: i64_at(&bytes, 35)?,
            producer_id: i64_at(&bytes, 43)?,
            producer_epoch: i16_at(&bytes, 51)?,
            base_sequence: i32_at(&bytes, 53)?,
            bytes,
        })
    }

    fn counted(self) -> Result<Batch, ResponseError> {
        let count = self.count();
        if count < 1 || i64::from(self.last_offset_delta) != i64::from(count) - 1 {
            return Err(ResponseError::InvalidRecord);
        }
        Ok(self)
    }

    pub(in crate::embedded) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(in crate::embedded) fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    pub(super) fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    /// The number of the codec that its records are packed with; 0 for none.
    pub(super) fn compression(&self) -> i16 {
        self.attributes & COMPRESSION
    }

    /// How many records are left in it.
    pub(super) fn count(&self) -> i32 {
        i32_at(&self.bytes, 57).unwrap_or_default()
    }

    /// Whether the broker's time of appending stands for the time of every record.
    pub(super) fn has_one_time(&self) -> bool {
        self.attributes & LOG_APPEND_TIME != 0
    }

    /// The sequence number of the last record; sequence numbers wrap from `i32::MAX` to 0.
    pub(super) fn last_sequence(&self) -> i32 {
        self.base_sequence.checked_add(self.last_offset_delta).unwrap_or_else(|| {
            let past_the_wrap =
                i64::from(self.base_sequence) + i64::from(self.last_offset_delta) - i64::from(i32::MAX) - 1;
            i32::try_from(past_the_wrap).unwrap_or_default()
        })
    }

    /// Whether every record has a key, which a compacted topic asks for.
    ///
    /// # Errors
    /// `CORRUPT_MESSAGE` if the records cannot be read.
    pub(super) fn check_keys(&self) -> Result<(), ResponseError> {
        let records = Records::of(self).ok_or(ResponseError::CorruptMessage)?;
        for record in records {
            record.ok_or(ResponseError::CorruptMessage)?.key.ok_or(ResponseError::InvalidRecord)?;
        }
        Ok(())
    }

    /// Overwrites the records' times with the broker's, for topics with `message.timestamp.type=LogAppendTime`.
    pub(in crate::embedded) fn stamp(&mut self, now: i64) {
        let mut bytes = BytesMut::from(&self.bytes[..]);
        self.attributes |= LOG_APPEND_TIME;
        self.max_timestamp = now;
        bytes[21..23].copy_from_slice(&self.attributes.to_be_bytes());
        bytes[35..43].copy_from_slice(&now.to_be_bytes());
        let checksum = crc32c::crc32c(&bytes[CHECKED_FROM..]);
        bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
        self.bytes = bytes.freeze();
    }

    /// The bytes as the log keeps them: with their offset, and the leader epoch, which is always 0 here.
    pub(super) fn placed_at(&self, offset: i64) -> Bytes {
        let mut bytes = BytesMut::from(&self.bytes[..]);
        bytes[0..8].copy_from_slice(&offset.to_be_bytes());
        bytes[12..16].copy_from_slice(&0i32.to_be_bytes());
        bytes.freeze()
    }

    /// The records behind the header, packed as they are.
    pub(super) fn records(&self) -> Bytes {
        self.bytes.slice(HEADER..)
    }

    /// The same batch with only these of its records, each with its length in front. Offsets, sequence numbers and times stay
    /// those of the whole, so that readers step over what is gone.
    pub(super) fn keep(&self, records: &[Bytes], max_timestamp: i64) -> Bytes {
        let plain = records.concat();
        let (codec, packed) = match compression::pack(self.compression(), &plain) {
            Some(packed) if !records.is_empty() => (self.compression(), packed),
            _ => (0, plain),
        };
        let mut bytes = BytesMut::with_capacity(HEADER + packed.len());
        bytes.extend_from_slice(&self.bytes[..HEADER]);
        bytes.extend_from_slice(&packed);
        bytes[8..12].copy_from_slice(&((HEADER - PREFIX + packed.len()) as i32).to_be_bytes());
        bytes[21..23].copy_from_slice(&(self.attributes & !COMPRESSION | codec).to_be_bytes());
        bytes[35..43].copy_from_slice(&max_timestamp.to_be_bytes());
        bytes[57..61].copy_from_slice(&(records.len() as i32).to_be_bytes());
        let checksum = crc32c::crc32c(&bytes[CHECKED_FROM..]);
        bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
        bytes.freeze()
    }
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn i16_at(bytes: &[u8], at: usize) -> Option<i16> {
    array_at(bytes, at).map(i16::from_be_bytes)
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    array_at(bytes, at).map(i32::from_be_bytes)
}

fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    array_at(bytes, at).map(i64::from_be_bytes)
}
