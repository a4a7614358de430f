//! A network that a test can cut: a TCP proxy in front of a broker, which makes itself the broker's advertised address.
//!
//! It reads the frames of the Kafka protocol. In the answers that name a broker it puts its own address, so clients that begin
//! with the proxy stay with it, whatever broker is behind it.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, FindCoordinatorResponse, MetadataResponse, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

use crate::moving::refusal;

/// What becomes of the next request of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The broker never gets it, and nothing moves on its connection any more.
    LoseRequest,
    /// The broker does it, but its answer is lost, and nothing moves on its connection any more.
    LoseAnswer,
    /// The network is cut; the request is on the way and arrives when it heals.
    Cut,
    /// The broker goes away without it.
    Away,
    /// The broker goes away once it has done it, before it answers.
    AwayAfter,
    /// The coordinator begins to move to another broker, and there is none until the network heals.
    Move,
}

/// See the module. Ends with its connections when it is dropped.
pub(crate) struct Proxy {
    port: u16,
    net: Arc<Net>,
}

struct Net {
    broker: String,
    port: u16,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    mode: Mode,
    /// What becomes of a request of a kind, and after how many others.
    fate: Option<(ApiKey, Fate, u32)>,
    streams: Vec<TcpStream>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Open,
    /// Nothing arrives, in either direction, and nobody is told. What was sent arrives when the cut heals.
    Cut,
    /// Nobody listens, and all connections are closed.
    Away,
    /// All works but what needs a coordinator.
    Moving,
    Ended,
}

impl Proxy {
    /// A proxy in front of the broker at this address.
    pub(crate) fn to(broker: &str) -> Proxy {
        // Below the ports that the system hands out itself, and each for one proxy: nobody takes it while nobody listens.
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let first = 20_000 + std::process::id() as u16 % 10_000;
        let (port, listener) = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed))
            .take(1000)
            .find_map(|port| TcpListener::bind(("127.0.0.1", port)).ok().map(|listener| (port, listener)))
            .expect("a free port");
        let net = Net { broker: broker.to_owned(), port, state: Mutex::default(), changed: Condvar::new() };
        let net = Arc::new(net);
        let accepts = Arc::clone(&net);
        std::thread::spawn(move || accepts.accept(listener));
        Proxy { port, net }
    }

    /// What clients need as `bootstrap.servers`.
    pub(crate) fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Closes all connections and takes no new ones, as a broker does that is stopped.
    pub(crate) fn away(&self) {
        self.enter(Mode::Away);
    }

    /// All works again.
    pub(crate) fn heal(&self) {
        self.enter(Mode::Open);
    }

    /// Decides what becomes of the next request of this kind.
    pub(crate) fn next(&self, api: ApiKey, fate: Fate) {
        self.nth(1, api, fate);
    }

    /// Decides what becomes of the first, second.. request of this kind from now on.
    pub(crate) fn nth(&self, nth: u32, api: ApiKey, fate: Fate) {
        self.net.state().fate = Some((api, fate, nth - 1));
    }

    /// True once it has come to that.
    pub(crate) fn has_happened(&self) -> bool {
        self.net.state().fate.is_none()
    }

    fn enter(&self, mode: Mode) {
        self.net.enter(&mut self.net.state(), mode);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.enter(Mode::Ended);
    }
}

/// Requests that wait for their answers: what they are, by correlation id.
type Asked = Arc<Mutex<HashMap<i32, (ApiKey, i16)>>>;

impl Net {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn enter(&self, state: &mut State, mode: Mode) {
        state.mode = mode;
        if matches!(mode, Mode::Away | Mode::Ended) {
            for stream in std::mem::take(&mut state.streams) {
                // It may be closed already.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        self.changed.notify_all();
    }

    fn await_the_heal<'s>(&'s self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        while state.mode == Mode::Cut {
            state = self.changed.wait(state).unwrap();
        }
        state
    }

    fn accept(self: Arc<Self>, listener: TcpListener) {
        let mut listener = Some(listener);
        loop {
            match self.state().mode {
                Mode::Ended => return,
                Mode::Away => listener = None,
                Mode::Open | Mode::Cut | Mode::Moving if listener.is_none() => {
                    listener = Some(TcpListener::bind(("127.0.0.1", self.port)).unwrap());
                }
                Mode::Open | Mode::Cut | Mode::Moving => {}
            }
            if let Some(listener) = &listener {
                listener.set_nonblocking(true).unwrap();
                while let Ok((client, _)) = listener.accept() {
                    client.set_nonblocking(false).unwrap();
                    if let Err(error) = Arc::clone(&self).connect(&client) {
                        println!("the proxy lost a connection: {error}");
                        let _ = client.shutdown(Shutdown::Both);
                    }
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn connect(self: Arc<Self>, client: &TcpStream) -> io::Result<()> {
        let broker = TcpStream::connect(&self.broker)?;
        client.set_nodelay(true)?;
        broker.set_nodelay(true)?;
        let mut state = self.state();
        state.streams.extend([client.try_clone()?, broker.try_clone()?]);
        drop(state);
        let asked = Asked::default();
        let (to_broker, to_client) = (Mutex::new(broker.try_clone()?), Arc::new(Mutex::new(client.try_clone()?)));
        let (from_client, net) = (client.try_clone()?, Arc::clone(&self));
        let (memory, back) = (Arc::clone(&asked), Arc::clone(&to_client));
        std::thread::spawn(move || net.pump(&from_client, &to_broker, |net, frame| net.request(&memory, &back, frame)));
        std::thread::spawn(move || self.pump(&broker, &to_client, |net, frame| Ok(net.answer(&asked, frame))));
        Ok(())
    }

    /// Moves frames from one side to the other, until either is closed.
    fn pump(&self, mut from: &TcpStream, to: &Mutex<TcpStream>, mut each: impl FnMut(&Net, Bytes) -> io::Result<Next>) {
        let mut pass = || -> io::Result<()> {
            loop {
                let mut length = [0; 4];
                from.read_exact(&mut length)?;
                let mut frame = vec![0; u32::from_be_bytes(length) as usize];
                from.read_exact(&mut frame)?;
                drop(self.await_the_heal(self.state()));
                match each(self, frame.into())? {
                    Next::Pass(frame) => write(to, frame)?,
                    Next::Answered => {}
                    Next::Mute => return io::copy(&mut from, &mut io::sink()).map(drop),
                }
            }
        };
        // However it ended, the other side has to know.
        let _ = pass();
        let _ = (from.shutdown(Shutdown::Both), to.lock().unwrap().shutdown(Shutdown::Both));
    }

    /// True if it is this that was decided.
    fn meets(&self, state: &mut State, api: ApiKey, fate: Fate) -> bool {
        let Some((_, _, before)) = state.fate.as_mut().filter(|decided| (decided.0, decided.1) == (api, fate)) else {
            return false;
        };
        if *before == 0 {
            state.fate = None;
            return true;
        }
        *before -= 1;
        false
    }

    fn request(&self, asked: &Asked, client: &Mutex<TcpStream>, frame: Bytes) -> io::Result<Next> {
        let number = |at: usize| i16::from_be_bytes(frame[at..at + 2].try_into().unwrap());
        let correlation = i32::from_be_bytes(frame[4..8].try_into().unwrap());
        let (api, version) = (ApiKey::try_from(number(0)).unwrap(), number(2));
        let mut state = self.state();
        if self.meets(&mut state, api, Fate::Cut) {
            self.enter(&mut state, Mode::Cut);
            drop(self.await_the_heal(state));
        } else if self.meets(&mut state, api, Fate::Away) {
            self.enter(&mut state, Mode::Away);
            return Ok(Next::Mute);
        } else if self.meets(&mut state, api, Fate::LoseRequest) {
            return Ok(Next::Mute);
        } else if state.mode == Mode::Moving || self.meets(&mut state, api, Fate::Move) {
            self.enter(&mut state, Mode::Moving);
            if let Some(refusal) = refusal(api, version, correlation, &frame) {
                return write(client, refusal).map(|()| Next::Answered);
            }
        }
        asked.lock().unwrap().insert(correlation, (api, version));
        Ok(Next::Pass(frame))
    }

    fn answer(&self, asked: &Asked, frame: Bytes) -> Next {
        let correlation = i32::from_be_bytes(frame[..4].try_into().unwrap());
        let (api, version) = asked.lock().unwrap().remove(&correlation).expect("an answer to a request");
        let mut state = self.state();
        if self.meets(&mut state, api, Fate::AwayAfter) {
            self.enter(&mut state, Mode::Away);
            return Next::Mute;
        } else if self.meets(&mut state, api, Fate::LoseAnswer) {
            return Next::Mute;
        }
        drop(state);
        let (host, port) = (StrBytes::from_static_str("127.0.0.1"), i32::from(self.port));
        Next::Pass(match api {
            ApiKey::Metadata => rewrite(frame, api, version, |answer: &mut MetadataResponse| {
                answer.brokers.iter_mut().for_each(|broker| (broker.host, broker.port) = (host.clone(), port));
            }),
            ApiKey::FindCoordinator => rewrite(frame, api, version, |answer: &mut FindCoordinatorResponse| {
                // No port: no coordinator.
                if answer.port > 0 {
                    (answer.host, answer.port) = (host.clone(), port);
                }
                for one in answer.coordinators.iter_mut().filter(|one| one.port > 0) {
                    (one.host, one.port) = (host.clone(), port);
                }
            }),
            _ => frame,
        })
    }
}

/// What follows for a frame.
enum Next {
    /// It goes on.
    Pass(Bytes),
    /// It was a request that has its answer already.
    Answered,
    /// Nothing moves in this direction any more, until somebody closes the connection.
    Mute,
}

fn write(to: &Mutex<TcpStream>, frame: Bytes) -> io::Result<()> {
    let mut whole = BytesMut::with_capacity(4 + frame.len());
    whole.put_u32(frame.len() as u32);
    whole.put(frame);
    to.lock().unwrap().write_all(&whole)
}

fn rewrite<M: Decodable + Encodable>(frame: Bytes, api: ApiKey, version: i16, change: impl FnOnce(&mut M)) -> Bytes {
    let (mut rest, of_header) = (frame, api.response_header_version(version));
    let header = ResponseHeader::decode(&mut rest, of_header).unwrap();
    let mut answer = M::decode(&mut rest, version).unwrap();
    change(&mut answer);
    let mut changed = BytesMut::new();
    header.encode(&mut changed, of_header).unwrap();
    answer.encode(&mut changed, version).unwrap();
    changed.freeze()
}
