//! Requests and responses as they go over the wire: a length, a header, a body.

use std::io::{self, Read};

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, FetchResponse, RequestHeader, RequestKind, ResponseHeader, ResponseKind};
use kafka_protocol::protocol::{Decodable, Encodable};

use super::shape;
use crate::embedded::{Machine, Reply};

/// Kafka's `socket.request.max.bytes`.
const REQUEST_BYTES_MAX: usize = 100 * 1024 * 1024;

/// What a client sent.
#[allow(
    clippy::large_enum_variant,
    reason = "there is one for each connection, and a box would cost an allocation a request"
)]
pub(super) enum Incoming {
    /// A request that the broker answers.
    Request { correlation: i32, version: i16, request: RequestKind },
    /// `ApiVersions` in a version that is not known here: it is answered in version 0.
    UnknownApiVersions { correlation: i32 },
}

/// Reads a request. `None` at the end of the connection.
///
/// # Errors
/// If the connection broke, or the client does not speak the Kafka protocol as the broker offered it: it must be closed.
pub(super) fn read(from: &mut impl Read) -> io::Result<Option<Incoming>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let length = usize::try_from(i32::from_be_bytes(length)).ok().filter(|length| *length <= REQUEST_BYTES_MAX);
    let length = length.ok_or_else(|| malformed("the request's length is out of range"))?;
    // Beyond this it grows with what really comes: a length alone takes no memory.
    let mut bytes = Vec::with_capacity(length.min(1 << 20));
    if from.take(length as u64).read_to_end(&mut bytes)? < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    decode(bytes.into()).map(Some)
}

pub(super) fn decode(mut bytes: Bytes) -> io::Result<Incoming> {
    let (Some(key), Some(version)) = (i16_at(&bytes, 0), i16_at(&bytes, 2)) else {
        return Err(malformed("the request has no header"));
    };
    let api = ApiKey::try_from(key).map_err(|()| malformed(&format!("there is no request with number {key}")))?;
    if api == ApiKey::ApiVersions && !Machine::supports(api, version) {
        let correlation = bytes.get(4..8).and_then(|bytes| bytes.try_into().ok()).map(i32::from_be_bytes);
        let correlation = correlation.ok_or_else(|| malformed("the request has no header"))?;
        return Ok(Incoming::UnknownApiVersions { correlation });
    }
    if !Machine::supports(api, version) {
        return Err(malformed(&format!("{api:?} version {version} is not offered")));
    }
    let unreadable = |error| malformed(&format!("{api:?} version {version}: {error}"));
    let header = RequestHeader::decode(&mut bytes, api.request_header_version(version)).map_err(unreadable)?;
    if !shape::holds(api, version, &bytes) {
        return Err(malformed(&format!("{api:?} version {version}: a length does not fit the request")));
    }
    let request = RequestKind::decode(api, &mut bytes, version).map_err(unreadable)?;
    Ok(Incoming::Request { correlation: header.correlation_id, version, request })
}

/// A reply with its length and header.
///
/// # Errors
/// If the response has no form in the reply's version.
pub(super) fn encode(reply: &Reply) -> io::Result<BytesMut> {
    let mut bytes = BytesMut::with_capacity(size_hint(&reply.response));
    bytes.put_i32(0);
    let header = ResponseHeader::default().with_correlation_id(reply.correlation);
    let header_version = reply.response.header_version(reply.version);
    header.encode(&mut bytes, header_version).map_err(io::Error::other)?;
    reply.response.encode(&mut bytes, reply.version).map_err(io::Error::other)?;
    let length = i32::try_from(bytes.len() - 4).map_err(io::Error::other)?;
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    Ok(bytes)
}

/// Room for the records of a fetch, so that they are copied once.
fn size_hint(response: &ResponseKind) -> usize {
    match response {
        ResponseKind::Fetch(response) => 256 + records(response) + 128 * partitions(response),
        _ => 256,
    }
}

fn records(response: &FetchResponse) -> usize {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    partitions.filter_map(|partition| partition.records.as_ref()).map(Bytes::len).sum()
}

fn partitions(response: &FetchResponse) -> usize {
    response.responses.iter().map(|topic| topic.partitions.len() + 1).sum()
}

fn i16_at(bytes: &Bytes, at: usize) -> Option<i16> {
    bytes.get(at..at + 2)?.try_into().ok().map(i16::from_be_bytes)
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}
