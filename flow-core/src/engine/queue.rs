//! Copied records of one source that wait for the other sources of their task.

use std::collections::VecDeque;

use crate::{HeadersRef, Offset, RecordRef, Timestamp};

/// Records in arrival order; their bytes stand in one buffer, so that a copy does not allocate.
#[derive(Default)]
pub(crate) struct Queue {
    bytes: Vec<u8>,
    records: VecDeque<Queued>,
}

struct Queued {
    start: usize,
    key: Option<usize>,
    value: Option<usize>,
    headers: usize,
    timestamp: Option<Timestamp>,
    offset: Offset,
}

/// Once the records at the front have left this many bytes behind, the rest moves up.
const SLACK_BYTES: usize = 64 * 1024;

impl Queue {
    pub(crate) fn push(&mut self, record: &RecordRef<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(record.key.unwrap_or_default());
        self.bytes.extend_from_slice(record.value.unwrap_or_default());
        self.bytes.extend_from_slice(record.headers.bytes());
        self.records.push_back(Queued {
            start,
            key: record.key.map(<[u8]>::len),
            value: record.value.map(<[u8]>::len),
            headers: record.headers.bytes().len(),
            timestamp: record.timestamp,
            offset: record.offset,
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
    }

    pub(crate) fn front(&self) -> Option<RecordRef<'_>> {
        let queued = self.records.front()?;
        let (key, rest) = self.bytes[queued.start..].split_at(queued.key.unwrap_or(0));
        let (value, rest) = rest.split_at(queued.value.unwrap_or(0));
        Some(RecordRef {
            key: queued.key.map(|_| key),
            value: queued.value.map(|_| value),
            timestamp: queued.timestamp,
            offset: queued.offset,
            headers: HeadersRef::new(&rest[..queued.headers]),
        })
    }

    pub(crate) fn pop(&mut self) {
        self.records.pop_front();
        match self.records.front() {
            None => self.bytes.clear(),
            Some(first) if first.start > SLACK_BYTES && first.start > self.bytes.len() / 2 => {
                let gone = first.start;
                self.bytes.drain(..gone);
                self.records.iter_mut().for_each(|queued| queued.start -= gone);
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_the_queue_is_what_was_put_in_and_its_memory_is_used_again() {
        let mut queue = Queue::default();
        let value = vec![7u8; 1_000];
        for offset in 0..1_000 {
            let record = |offset| RecordRef {
                key: (offset % 2 == 0).then_some(&b"key"[..]),
                value: (offset % 3 == 0).then_some(&value[..]),
                timestamp: Some(Timestamp::from_millis(offset)),
                offset: Offset(offset),
                headers: HeadersRef::EMPTY,
            };
            queue.push(&record(offset));
            if offset >= 100 {
                let front = queue.front().unwrap();
                let expected = record(offset - 100);
                assert_eq!((front.key, front.value, front.offset), (expected.key, expected.value, expected.offset));
                queue.pop();
            }
        }
        assert_eq!(queue.len(), 100);
        assert!(queue.bytes.len() < 200_000, "{}", queue.bytes.len());
    }
}
