//! Dead letters: records that failed, as they were, with what is wrong with them.
//!
//! The names of the headers are Kafka Streams' (KIP-1034), so what reads its dead letters reads these; `__flow` ones say what it
//! has no name for. All values are text; numbers are decimal.

use super::effects::{Effects, split};
use super::{FailedTimer, TaskError};
use crate::{Headers, HeadersRef, RecordRef, Timestamp};

/// The names of the headers that a dead letter has behind those of its record.
pub mod dead_letter {
    /// What failed: `decode failure`, `step failure` or `produce failure`.
    pub const EXCEPTION: &str = "__streams.errors.exception";
    /// The whole error: what, where and why.
    pub const STACKTRACE: &str = "__streams.errors.stacktrace";
    /// Why.
    pub const MESSAGE: &str = "__streams.errors.message";
    /// The record's topic; a timer has none.
    pub const TOPIC: &str = "__streams.errors.topic";
    /// The record's, or the timer's, partition.
    pub const PARTITION: &str = "__streams.errors.partition";
    /// The record's offset; a timer has none.
    pub const OFFSET: &str = "__streams.errors.offset";
    /// The step that failed, as `describe()` prints it.
    pub const STEP: &str = "__flow.errors.step";
    /// The record's timestamp in milliseconds, where it is one that no broker takes: the letter itself then carries the time of its
    /// sending. Empty if the record has none.
    pub const TIMESTAMP: &str = "__flow.errors.timestamp";
    /// The name of the timer that failed. Such a letter has the timer's key and a null value.
    pub const TIMER: &str = "__flow.errors.timer";
    /// When that timer was due, in milliseconds.
    pub const DEADLINE: &str = "__flow.errors.deadline";
}

/// The most of an error's text that a letter carries, in bytes.
const TEXT_MAX: usize = 4096;

/// Key, value and headers stand one behind the other in the arena, from `start`; -1 is a null.
pub(crate) struct Letter {
    source: Option<usize>,
    timestamp: Option<Timestamp>,
    start: usize,
    key: i32,
    value: i32,
    headers: i32,
}

/// A record that failed under [`Policy::DeadLetter`](crate::Policy::DeadLetter).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadLetterRef<'e> {
    /// Which of the sub-topology's [sources](crate::SubTopology::sources) read the record; `None` for a timer. Whoever sends the
    /// letter adds the source's topic, under its full name, as the header [`dead_letter::TOPIC`].
    pub source: Option<usize>,
    /// The record's key, or the timer's.
    pub key: Option<&'e [u8]>,
    /// The record's value; `None` for a timer.
    pub value: Option<&'e [u8]>,
    /// The record's timestamp, if it is one that a broker takes.
    pub timestamp: Option<Timestamp>,
    /// The record's headers, then those of [`dead_letter`].
    pub headers: HeadersRef<'e>,
}

/// What failed: a record that was read, or a timer.
pub(crate) enum Failed<'r> {
    Record { source: usize, record: &'r RecordRef<'r>, latest: Timestamp },
    Timer { timer: &'r FailedTimer, timestamp: Timestamp },
}

impl Effects {
    /// How many dead letters are to be sent.
    pub fn letters_len(&self) -> usize {
        self.letters.len()
    }

    /// The `i`th dead letter to send.
    ///
    /// # Panics
    /// When `i` is not below [`Effects::letters_len`].
    pub fn letter(&self, i: usize) -> DeadLetterRef<'_> {
        let letter = &self.letters[i];
        let (key, rest) = split(&self.bytes[letter.start..], letter.key);
        let (value, rest) = split(rest, letter.value);
        let (headers, _) = split(rest, letter.headers);
        DeadLetterRef {
            source: letter.source,
            key,
            value,
            timestamp: letter.timestamp,
            headers: HeadersRef::new(headers.unwrap_or_default()),
        }
    }

    /// Adds a dead letter; answers its size in bytes.
    pub(crate) fn bury(&mut self, failed: &Failed<'_>, error: &TaskError) -> usize {
        let (key, value, own) = match failed {
            Failed::Record { record, .. } => (record.key, record.value, record.headers),
            Failed::Timer { timer, .. } => (Some(&timer.key[..]), None, HeadersRef::EMPTY),
        };
        let (source, timestamp) = match failed {
            Failed::Record { source, record, latest } => {
                (Some(*source), record.timestamp.filter(|time| time.as_millis() >= 0 && time <= latest))
            }
            Failed::Timer { timestamp, .. } => (None, Some(*timestamp).filter(|time| time.as_millis() >= 0)),
        };
        let headers = headers(failed, own, timestamp, error);
        let start = self.bytes.len();
        let mut add = |part: Option<&[u8]>| {
            self.bytes.extend_from_slice(part.unwrap_or_default());
            part.map_or(-1, |part| part.len() as i32)
        };
        let (key, value, headers) = (add(key), add(value), add(Some(headers.as_ref().bytes())));
        self.letters.push(Letter { source, timestamp, start, key, value, headers });
        self.bytes.len() - start
    }
}

fn headers(failed: &Failed<'_>, own: HeadersRef<'_>, timestamp: Option<Timestamp>, error: &TaskError) -> Headers {
    let mut headers = Headers::from(own);
    let mut text =
        |name: &str, text: &str| headers.push(name, Some(&text.as_bytes()[..text.floor_char_boundary(TEXT_MAX)]));
    text(dead_letter::EXCEPTION, &format!("{} failure", error.kind));
    text(dead_letter::STACKTRACE, &error.to_string());
    text(dead_letter::MESSAGE, &error.message);
    text(dead_letter::PARTITION, &error.partition.to_string());
    text(dead_letter::STEP, &error.step);
    match failed {
        Failed::Record { record, .. } => {
            text(dead_letter::OFFSET, &record.offset.to_string());
            if timestamp.is_none() {
                let own = record.timestamp.map(|time| time.as_millis().to_string());
                text(dead_letter::TIMESTAMP, &own.unwrap_or_default());
            }
        }
        Failed::Timer { timer, .. } => {
            text(dead_letter::TIMER, &timer.name);
            text(dead_letter::DEADLINE, &timer.deadline.as_millis().to_string());
        }
    }
    headers
}
