use crate::codec::Codec;
use crate::{DeadLetterRef, Headers, HeadersRef, Offset, Partition, RecordRef, Timestamp, Topic, dead_letter};

/// A record to send, byte by byte: with headers, null keys, null values, or without a timestamp.
///
/// Without more it has a null key, a null value and the timestamp 0, and goes to the partition of its key (a null key: 0).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
    pub(super) timestamp: Option<Timestamp>,
    pub(super) headers: Headers,
    pub(super) partition: Option<Partition>,
}

impl Default for Input {
    fn default() -> Self {
        Input::new()
    }
}

impl Input {
    /// A record with a null key, a null value and the timestamp 0.
    pub fn new() -> Self {
        let timestamp = Some(Timestamp::from_millis(0));
        Input { key: None, value: None, timestamp, headers: Headers::new(), partition: None }
    }

    /// A record as the topic's codecs write it.
    ///
    /// # Panics
    /// When a codec cannot write it.
    #[track_caller]
    pub fn of<K: ?Sized, V: ?Sized, KC: Codec<K>, VC: Codec<V>>(
        topic: Topic<K, V, KC, VC>,
        key: &K,
        value: &V,
    ) -> Self {
        let encoded = |null: bool, encode: &dyn Fn(&mut Vec<u8>) -> Result<(), crate::CodecError>| {
            let mut bytes = Vec::new();
            match encode(&mut bytes) {
                Ok(()) => (!null).then_some(bytes),
                Err(error) => panic!("a record of topic `{}` {error}", topic.name()),
            }
        };
        let key = encoded(KC::is_null(key), &|out| KC::encode(key, out));
        let value = encoded(VC::is_null(value), &|out| VC::encode(value, out));
        Input { key, value, ..Input::new() }
    }

    /// With this key.
    pub fn key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// With this value.
    pub fn value(mut self, value: impl Into<Vec<u8>>) -> Self {
        self.value = Some(value.into());
        self
    }

    /// With this timestamp.
    pub fn at(mut self, timestamp: Timestamp) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// Without a timestamp: Kafka's -1.
    pub fn without_timestamp(mut self) -> Self {
        self.timestamp = None;
        self
    }

    /// With one more header.
    pub fn header(mut self, name: &str, value: Option<&[u8]>) -> Self {
        self.headers.push(name, value);
        self
    }

    /// To this partition, whatever its key says.
    pub fn partition(mut self, partition: Partition) -> Self {
        self.partition = Some(partition);
        self
    }

    pub(super) fn as_record(&self, offset: Offset) -> RecordRef<'_> {
        RecordRef {
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            timestamp: self.timestamp,
            offset,
            headers: self.headers.as_ref(),
        }
    }
}

/// A record that a topology wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TestRecord {
    /// The key's bytes.
    pub key: Option<Vec<u8>>,
    /// The value's bytes.
    pub value: Option<Vec<u8>>,
    /// The record's timestamp.
    pub timestamp: Timestamp,
    /// Its headers.
    pub headers: Headers,
}

impl TestRecord {
    pub(super) fn of(output: &crate::OutputRef<'_>) -> Self {
        TestRecord {
            key: output.key.map(<[u8]>::to_vec),
            value: output.value.map(<[u8]>::to_vec),
            timestamp: output.timestamp,
            headers: Headers::from(output.headers),
        }
    }

    pub(super) fn of_letter(letter: &DeadLetterRef<'_>, topic: Option<&str>, now: Timestamp) -> Self {
        let mut headers = Headers::from(letter.headers);
        if let Some(topic) = topic {
            headers.push(dead_letter::TOPIC, Some(topic.as_bytes()));
        }
        TestRecord {
            key: letter.key.map(<[u8]>::to_vec),
            value: letter.value.map(<[u8]>::to_vec),
            timestamp: letter.timestamp.unwrap_or(now),
            headers,
        }
    }

    /// The headers in order.
    pub fn headers(&self) -> HeadersRef<'_> {
        self.headers.as_ref()
    }

    pub(super) fn into_input(self) -> Input {
        Input {
            key: self.key,
            value: self.value,
            timestamp: Some(self.timestamp),
            headers: self.headers,
            partition: None,
        }
    }
}
