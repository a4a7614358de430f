//! One connection: a request at a time, the next one only after the answer, as Kafka does.

use std::io::{self, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;

use kafka_protocol::messages::{RequestKind, ResponseKind};

use super::door::Door;
use super::frame::{self, Incoming};
use super::spawn;
use crate::embedded::{ConnectionId, Reply, versions};

/// Serves a connection on a thread of its own.
pub(super) fn start(stream: TcpStream, door: &Arc<Door>) -> io::Result<JoinHandle<()>> {
    stream.set_nodelay(true)?;
    let handle = stream.try_clone()?;
    let door = Arc::clone(door);
    spawn("embedded-connection", move || {
        let Some((id, replies)) = door.connect(handle) else { return };
        match (Connection { id, replies, door: &door }).serve(&stream) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                log::warn!("the embedded broker closes a connection: {error}");
            }
            Err(error) => log::debug!("the embedded broker lost a connection: {error}"),
        }
        door.disconnect(id);
    })
}

struct Connection<'d> {
    id: ConnectionId,
    replies: Receiver<Reply>,
    door: &'d Door,
}

impl Connection<'_> {
    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        let mut reader = BufReader::with_capacity(64 * 1024, stream);
        let mut writer = stream;
        while let Some(incoming) = frame::read(&mut reader)? {
            let Some(reply) = self.answer(incoming) else { continue };
            writer.write_all(&frame::encode(&reply)?)?;
        }
        Ok(())
    }

    /// Waits for the answer; `None` if there will be none.
    fn answer(&self, incoming: Incoming) -> Option<Reply> {
        let (correlation, version, request) = match incoming {
            Incoming::Request { correlation, version, request } => (correlation, version, request),
            Incoming::UnknownApiVersions { correlation } => {
                let response = ResponseKind::ApiVersions(versions::refuse());
                return Some(Reply { to: self.id, correlation, version: 0, response });
            }
        };
        let is_answered = !matches!(&request, RequestKind::Produce(request) if request.acks == 0);
        let reply = self.door.handle(self.id, correlation, version, request);
        // The sender goes away when the door closes; the next read ends the connection then.
        reply.or_else(|| is_answered.then(|| self.replies.recv().ok()).flatten())
    }
}
