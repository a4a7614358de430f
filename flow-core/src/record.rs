//! What a record is before anything is decoded: borrowed bytes, a position and headers.

use std::fmt;

use crate::Timestamp;

/// The place of a record in its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub i64);

/// The number of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(pub i32);

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A record as it was read, borrowed from whoever read it.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'r> {
    /// The key's bytes, if it has a key.
    pub key: Option<&'r [u8]>,
    /// The value's bytes; `None` is a tombstone.
    pub value: Option<&'r [u8]>,
    /// The record's time; `None` stands for Kafka's -1, "no timestamp".
    pub timestamp: Option<Timestamp>,
    /// Its place in the partition.
    pub offset: Offset,
    /// Its headers, in order.
    pub headers: HeadersRef<'r>,
}

/// Headers of a record, borrowed: names with optional values, in order, names may repeat.
///
/// They travel as one run of bytes (made by [`Headers`]), so passing them on is one copy whatever their number.
#[derive(Clone, Copy, Default)]
pub struct HeadersRef<'r> {
    bytes: &'r [u8],
}

impl<'r> HeadersRef<'r> {
    /// No headers.
    pub const EMPTY: HeadersRef<'static> = HeadersRef { bytes: &[] };

    /// Headers from the bytes of [`HeadersRef::bytes`]. Bytes of any other origin end the headers where they stop making sense.
    pub const fn new(bytes: &'r [u8]) -> Self {
        HeadersRef { bytes }
    }

    /// The encoded headers; empty if there are none.
    pub const fn bytes(&self) -> &'r [u8] {
        self.bytes
    }

    /// True if there are none.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Names and values in order.
    pub fn iter(&self) -> HeadersIter<'r> {
        HeadersIter { rest: self.bytes }
    }

    /// The value of the last header called `name`; `None` if there is none, or if its value is null.
    pub fn last(&self, name: &str) -> Option<&'r [u8]> {
        self.iter().filter(|(n, _)| *n == name).last().and_then(|(_, value)| value)
    }
}

impl<'r> IntoIterator for HeadersRef<'r> {
    type Item = (&'r str, Option<&'r [u8]>);
    type IntoIter = HeadersIter<'r>;
    fn into_iter(self) -> HeadersIter<'r> {
        self.iter()
    }
}

impl fmt::Debug for HeadersRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for HeadersRef<'_> {
    fn eq(&self, other: &HeadersRef<'_>) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for HeadersRef<'_> {}

/// The headers of a [`HeadersRef`], in order.
#[derive(Clone, Debug)]
pub struct HeadersIter<'r> {
    rest: &'r [u8],
}

impl<'r> Iterator for HeadersIter<'r> {
    type Item = (&'r str, Option<&'r [u8]>);
    fn next(&mut self) -> Option<Self::Item> {
        let (name, rest) = split(self.rest)?;
        let (value, rest) = split(rest)?;
        self.rest = rest;
        Some((std::str::from_utf8(name?).ok()?, value))
    }
}

/// One length-prefixed run of bytes; a negative length is a null.
fn split(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else { return Some((None, rest)) };
    let (run, rest) = rest.split_at_checked(length)?;
    Some((Some(run), rest))
}

/// Headers to fill: a buffer that can be used again.
///
/// ```
/// use flow_core::Headers;
///
/// let mut headers = Headers::default();
/// headers.push("trace", Some(b"42"));
/// headers.push("empty", None);
/// let all: Vec<_> = headers.as_ref().iter().collect();
/// assert_eq!(all, [("trace", Some(&b"42"[..])), ("empty", None)]);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers {
    bytes: Vec<u8>,
}

impl Headers {
    /// No headers yet.
    pub const fn new() -> Self {
        Headers { bytes: Vec::new() }
    }

    /// Adds a header behind the others.
    pub fn push(&mut self, name: &str, value: Option<&[u8]>) {
        self.run(Some(name.as_bytes()));
        self.run(value);
    }

    fn run(&mut self, run: Option<&[u8]>) {
        // A header beyond 2 GiB cannot have come from Kafka, whose own lengths are 32 bits wide, so it is cut rather than wrapped.
        let run = run.map(|run| &run[..run.len().min(i32::MAX as usize)]);
        let length = run.map_or(-1, |run| run.len() as i32);
        self.bytes.extend_from_slice(&length.to_be_bytes());
        self.bytes.extend_from_slice(run.unwrap_or_default());
    }

    /// Removes all headers and keeps the buffer.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The headers, borrowed.
    pub fn as_ref(&self) -> HeadersRef<'_> {
        HeadersRef { bytes: &self.bytes }
    }
}

impl From<HeadersRef<'_>> for Headers {
    fn from(headers: HeadersRef<'_>) -> Self {
        Headers { bytes: headers.bytes.to_vec() }
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_keep_order_repeats_and_nulls() {
        let mut headers = Headers::new();
        headers.push("a", Some(b"1"));
        headers.push("a", Some(b""));
        headers.push("b", None);
        let read: Vec<_> = headers.as_ref().iter().collect();
        assert_eq!(read, [("a", Some(&b"1"[..])), ("a", Some(&b""[..])), ("b", None)]);
        assert_eq!(headers.as_ref().last("a"), Some(&b""[..]));
        headers.clear();
        assert!(headers.as_ref().is_empty());
    }

    #[test]
    fn bytes_that_are_no_headers_end_them() {
        let mut headers = Headers::new();
        headers.push("a", Some(b"1"));
        for length in 0..headers.as_ref().bytes().len() {
            assert_eq!(HeadersRef::new(&headers.as_ref().bytes()[..length]).iter().count(), 0);
        }
        assert_eq!(HeadersRef::new(&[0xff; 7]).iter().count(), 0);
    }
}
