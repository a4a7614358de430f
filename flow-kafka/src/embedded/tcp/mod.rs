//! The broker's TCP door: real sockets, threads and the clock around the state machine.

mod connection;
mod door;
mod frame;
mod shape;
mod shapes;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::thread::JoinHandle;

use super::Options;
use door::Door;

/// A broker that listens on a loopback address. Dropping it closes all connections and forgets everything.
///
/// ```
/// use flow_kafka::embedded::EmbeddedBroker;
///
/// let broker = EmbeddedBroker::start("127.0.0.1:0")?;
/// println!("bootstrap.servers={}", broker.bootstrap());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct EmbeddedBroker {
    address: SocketAddr,
    door: Arc<Door>,
    threads: Vec<JoinHandle<()>>,
}

impl EmbeddedBroker {
    /// Starts a broker on a loopback address; port 0 takes a free one.
    ///
    /// # Errors
    /// If the address is not a loopback one (there is no authentication), or cannot be listened on.
    pub fn start(address: impl ToSocketAddrs) -> io::Result<Self> {
        Self::start_with(address, Options::default())
    }

    /// As [`start`](Self::start), with options. Host and port in them are overwritten by the address.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(address: impl ToSocketAddrs, mut options: Options) -> io::Result<Self> {
        let addresses = loopback(address)?;
        let listener = TcpListener::bind(&addresses[..])?;
        let address = listener.local_addr()?;
        options.host = address.ip().to_string();
        options.port = address.port();
        let door = Arc::new(Door::new(options));
        let mut broker = EmbeddedBroker { address, door, threads: vec![] };
        let door = Arc::clone(&broker.door);
        broker.threads.push(spawn("embedded-timer", move || door.run_timer())?);
        let door = Arc::clone(&broker.door);
        broker.threads.push(spawn("embedded-accept", move || accept(&listener, &door))?);
        Ok(broker)
    }

    /// What clients need as `bootstrap.servers`.
    pub fn bootstrap(&self) -> String {
        self.address.to_string()
    }

    /// Compacts a partition now, and returns how many records went: see [`Machine::compact`](super::Machine::compact).
    ///
    /// # Errors
    /// If there is no such partition, or its topic's `cleanup.policy` has no `compact`.
    pub fn compact(&self, topic: &str, partition: i32) -> io::Result<usize> {
        let compacted = self.door.work(|machine, now| machine.compact(topic, partition, now))?;
        compacted
            .map_err(|error| io::Error::other(format!("partition {partition} of {topic} is not compacted: {error}")))
    }

    /// How many bytes of record batches the broker keeps.
    ///
    /// # Errors
    /// If a thread of the broker has panicked.
    pub fn log_bytes(&self) -> io::Result<u64> {
        self.door.work(|machine, _| machine.log_bytes())
    }
}

impl Drop for EmbeddedBroker {
    fn drop(&mut self) {
        self.door.close();
        // The accepting thread sleeps in the kernel; a connection wakes it. If none can be made, it is not listening any more.
        drop(TcpStream::connect(self.address));
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                log::error!("a thread of the embedded broker at {} panicked", self.address);
            }
        }
    }
}

fn loopback(address: impl ToSocketAddrs) -> io::Result<Vec<SocketAddr>> {
    let addresses: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
    match addresses.iter().find(|address| !address.ip().is_loopback()) {
        Some(foreign) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "the embedded broker has no authentication and does not listen on {foreign}: use a loopback address"
            ),
        )),
        None => Ok(addresses),
    }
}

fn accept(listener: &TcpListener, door: &Arc<Door>) {
    let mut threads: Vec<JoinHandle<()>> = vec![];
    for stream in listener.incoming() {
        if door.is_closed() {
            break;
        }
        threads.retain(|thread| !thread.is_finished());
        match stream.and_then(|stream| connection::start(stream, door)) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                log::warn!("the embedded broker could not take a connection: {error}");
                // Out of file descriptors, most likely: give the other connections time to end.
                door.pause();
            }
        }
    }
    for thread in threads {
        if thread.join().is_err() {
            log::error!("a connection's thread of the embedded broker panicked");
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the door is where the state machine meets the machine's threads")]
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).stack_size(512 * 1024).spawn(run)
}
