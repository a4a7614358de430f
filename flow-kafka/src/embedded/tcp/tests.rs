//! Every request in every version, and requests that are none.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::Encodable;

use super::frame::{self, Incoming};
use super::{EmbeddedBroker, shape};
use crate::embedded::tests::samples::sample;
use crate::embedded::versions::SUPPORTED;
use crate::embedded::{Machine, Options};

fn body(api: ApiKey, version: i16) -> Bytes {
    let mut bytes = BytesMut::new();
    sample(api, version).encode(&mut bytes, version).unwrap();
    bytes.freeze()
}

fn framed(api: ApiKey, version: i16, body: &[u8]) -> BytesMut {
    let mut bytes = BytesMut::new();
    RequestHeader::default()
        .with_request_api_key(api as i16)
        .with_request_api_version(version)
        .with_correlation_id(7)
        .with_client_id(Some("test".into()))
        .encode(&mut bytes, api.request_header_version(version))
        .unwrap();
    bytes.put_slice(body);
    bytes
}

/// All requests in all versions.
fn all() -> impl Iterator<Item = (ApiKey, i16)> {
    SUPPORTED.iter().flat_map(|&(api, min, max)| (min..=max).map(move |version| (api, version)))
}

#[test]
fn every_request_is_answered_in_every_version_in_a_form_that_can_be_sent() {
    let mut machine = Machine::new(Options::default());
    let mut now = 0;
    for (api, version) in all() {
        let frame = framed(api, version, &body(api, version)).freeze();
        let Ok(Incoming::Request { correlation, version, request }) = frame::decode(frame) else {
            panic!("{api:?} version {version} was not understood");
        };
        let mut replies = vec![];
        machine.handle(1, correlation, version, request, now, &mut replies);
        // What waits, a fetch or a join, is answered in time.
        now += 1_000_000;
        machine.advance(now, &mut replies);
        let reply = replies.iter().find(|reply| reply.version == version && reply.correlation == 7);
        let reply = reply.unwrap_or_else(|| panic!("{api:?} version {version} was not answered"));
        frame::encode(reply).unwrap_or_else(|error| panic!("{api:?} version {version}: {error}"));
    }
}

#[test]
fn the_shape_of_every_request_is_that_of_the_codec() {
    for (api, version) in all() {
        let body = body(api, version);
        let rest = shape::walk(api, version, &body);
        assert_eq!(rest.map(<[u8]>::len), Some(0), "{api:?} version {version}");
    }
}

#[test]
fn a_request_that_is_cut_or_changed_is_refused_or_understood_but_breaks_nothing() {
    for (api, version) in all() {
        let whole = framed(api, version, &body(api, version));
        for length in 0..whole.len() {
            // Only the last field, if it can be left away, may be missing.
            drop(frame::decode(Bytes::copy_from_slice(&whole[..length])));
        }
        for at in 4..whole.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                if at + 3 < changed.len() {
                    changed[at + 1..at + 4].fill(byte);
                }
                drop(frame::decode(changed.freeze()));
            }
        }
    }
}

/// Sends bytes and reads until the broker closes the connection.
fn send(broker: &EmbeddedBroker, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(broker.bootstrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = vec![];
    stream.read_to_end(&mut answer).unwrap();
    answer
}

#[test]
fn what_is_no_request_closes_its_connection_and_no_other() {
    let broker = EmbeddedBroker::start("127.0.0.1:0").unwrap();
    let metadata = framed(ApiKey::Metadata, 9, &[0xff, 0xff, 0xff, 0xff, 0x0f]);
    let with_length = |frame: &[u8]| [&(frame.len() as i32).to_be_bytes(), frame].concat();
    let cases = [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        (-1i32).to_be_bytes().to_vec(),
        with_length(b""),
        with_length(b"\0"),
        with_length(&framed(ApiKey::Metadata, 99, b"")),
        with_length(&framed(ApiKey::Vote, 0, b"")),
        with_length(&metadata),
        with_length(&[0x7f; 64]),
    ];
    for case in cases {
        assert_eq!(send(&broker, &case), b"", "{case:?}");
    }
    TcpStream::connect(broker.bootstrap()).unwrap();
}

#[test]
fn an_unknown_version_of_api_versions_is_answered_with_the_known_ones() {
    let broker = EmbeddedBroker::start("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(broker.bootstrap()).unwrap();
    let mut unknown = framed(ApiKey::ApiVersions, 3, b"");
    unknown[2..4].copy_from_slice(&77i16.to_be_bytes());
    stream.write_all(&[&(unknown.len() as i32).to_be_bytes()[..], &unknown].concat()).unwrap();
    let mut start = [0; 10];
    stream.read_exact(&mut start).unwrap();
    assert_eq!(start[4..], [0, 0, 0, 7, 0, 35], "correlation id, UNSUPPORTED_VERSION");
}

#[test]
fn only_loopback_addresses_are_listened_on() {
    for address in ["0.0.0.0:0", "192.0.2.1:0", "[::]:0"] {
        let error = EmbeddedBroker::start(address).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{address}: {error}");
    }
}

#[test]
fn dropping_the_broker_ends_open_connections() {
    let broker = EmbeddedBroker::start("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(broker.bootstrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // A fetch that waits holds nothing up.
    let fetch = framed(ApiKey::Metadata, 0, &[0, 0, 0, 0]);
    stream.write_all(&[&(fetch.len() as i32).to_be_bytes()[..], &fetch].concat()).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let address = broker.bootstrap();
    drop(broker);
    let mut rest = vec![];
    stream.read_to_end(&mut rest).unwrap();
    assert!(TcpStream::connect(address).is_err());
}
