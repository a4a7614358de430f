//! Records to feed an engine with: clicks of 100 bytes of JSON, made from a seed.

use flow_core::{HeadersRef, Offset, RecordRef, Timestamp};
use serde::{Deserialize, Serialize};

/// One click, as it lies in the topic: 100 bytes of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Click {
    /// Who clicked.
    pub user: String,
    /// Where.
    pub page: String,
    /// When, in milliseconds.
    pub at: i64,
}

/// Records in a row, as a client's fetch buffer holds them.
#[derive(Debug)]
pub struct Data {
    bytes: Vec<u8>,
    records: Vec<(u32, u32, u32, i64)>,
}

impl Data {
    /// `records` clicks of `keys` users in no order, a fifth of a millisecond apart.
    pub fn new(records: usize, keys: u64) -> Data {
        Data::of(records, |seed, _| seed % keys)
    }

    /// One click of each of `keys` users.
    pub fn one_each(keys: usize) -> Data {
        Data::of(keys, |_, number| number as u64)
    }

    fn of(records: usize, user: impl Fn(u64, usize) -> u64) -> Data {
        let mut data = Data { bytes: Vec::with_capacity(records * 115), records: Vec::with_capacity(records) };
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        for number in 0..records {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let at = 1_700_000_000_000 + number as i64 / 5;
            let page = format!("/products/{:05}/reviews?from=search&sort=newest", seed >> 40 & 0xffff);
            let click = Click { user: format!("user-{:08}", user(seed, number)), page, at };
            let start = data.bytes.len();
            data.bytes.extend_from_slice(click.user.as_bytes());
            let key = data.bytes.len();
            serde_json::to_writer(&mut data.bytes, &click).expect("a Vec takes every byte");
            data.records.push((start as u32, key as u32, data.bytes.len() as u32, at));
        }
        data
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// True without any record.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The record `at`, borrowed.
    #[inline]
    pub fn record(&self, at: usize) -> RecordRef<'_> {
        let (start, key, end, time) = self.records[at];
        RecordRef {
            key: Some(&self.bytes[start as usize..key as usize]),
            value: Some(&self.bytes[key as usize..end as usize]),
            timestamp: Some(Timestamp::from_millis(time)),
            offset: Offset(at as i64),
            headers: HeadersRef::EMPTY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_a_hundred_bytes_long() {
        let data = Data::new(10, 5);
        assert_eq!(data.record(3).value.unwrap().len(), 100);
    }
}
