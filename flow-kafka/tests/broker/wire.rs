//! Single requests of the Kafka protocol over a socket.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request};

/// Errors of a broker that is still starting, still making a topic, or still writing the markers of the transaction before.
const NOT_YET: [i16; 7] = [3, 5, 6, 14, 15, 16, 51];

/// A connection to the broker.
pub(crate) struct Wire {
    stream: TcpStream,
    correlation: i32,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Wire {
        Wire { stream, correlation: 0 }
    }

    /// Sends a request and waits for its response.
    pub(crate) fn call<Q: Request>(&mut self, request: &Q, version: i16) -> Q::Response {
        self.correlation += 1;
        let mut frame = BytesMut::new();
        frame.put_i32(0);
        RequestHeader::default()
            .with_request_api_key(Q::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation)
            .with_client_id(Some("raw".into()))
            .encode(&mut frame, Q::header_version(version))
            .unwrap();
        request.encode(&mut frame, version).unwrap();
        let length = i32::try_from(frame.len() - 4).unwrap();
        frame[..4].copy_from_slice(&length.to_be_bytes());
        self.stream.write_all(&frame).unwrap();
        self.receive::<Q>(version)
    }

    fn receive<Q: Request>(&mut self, version: i16) -> Q::Response {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).unwrap();
        let mut frame = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap()];
        self.stream.read_exact(&mut frame).unwrap();
        let mut frame = Bytes::from(frame);
        let header = ResponseHeader::decode(&mut frame, Q::Response::header_version(version)).unwrap();
        assert_eq!(header.correlation_id, self.correlation, "answers come in the order of the requests");
        Q::Response::decode(&mut frame, version).unwrap()
    }

    /// As [`call`](Self::call), again and again while the broker is not ready for it. `error` finds the response's error code.
    #[allow(clippy::disallowed_methods, reason = "a real broker needs real time")]
    pub(crate) fn settle<Q: Request>(
        &mut self,
        request: &Q,
        version: i16,
        error: impl Fn(&Q::Response) -> i16,
    ) -> Q::Response {
        let start = Instant::now();
        loop {
            let response = self.call(request, version);
            if !NOT_YET.contains(&error(&response)) || start.elapsed() > Duration::from_secs(30) {
                return response;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
