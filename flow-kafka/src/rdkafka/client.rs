//! One librdkafka client: made from settings, ended off the caller's thread.

use std::ffi::{CString, c_int};
use std::ptr;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rdkafka_sys as sys;

use super::error::{Code, text};
use super::feed::Watch;
use super::reach::Reach;
use super::{host, raw};
use crate::broker::{BrokerError, ErrorKind};

/// Longest that leaving the group may hold up a worker that closes; it goes on in the background after that.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// What a client is for; admin clients are producers, which belong to no group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Consumer,
    Producer,
}

/// A live client. What was made from it (queues, messages, topics, lists of partitions) must be gone before it is dropped: a
/// list of partitions that outlives it makes librdkafka wait for ever. So owners declare it as their last field.
pub(super) struct Client {
    rk: *mut sys::rd_kafka_t,
    role: Role,
    name: String,
    watch: Arc<Watch>,
}

// SAFETY: librdkafka's client handle may be used from any thread, and from several.
unsafe impl Send for Client {}

impl Client {
    /// Makes a consumer from settings (later ones win). `watch` gets its rebalances and errors.
    pub(super) fn consumer(settings: &[(String, String)], watch: &Arc<Watch>) -> Result<Client, BrokerError> {
        Client::new(Role::Consumer, settings, 0, watch)
    }

    /// Makes a producer or admin client from settings (later ones win) that puts `events` into its queue.
    pub(super) fn producer(
        settings: &[(String, String)],
        events: c_int,
        reach: &Arc<Reach>,
    ) -> Result<Client, BrokerError> {
        Client::new(Role::Producer, settings, events, &Watch::of(reach))
    }

    /// Makes an admin client that tells nobody when it finds no broker.
    pub(super) fn quiet(settings: &[(String, String)]) -> Result<Client, BrokerError> {
        Client::new(Role::Producer, settings, 0, &Arc::default())
    }

    fn new(
        role: Role,
        settings: &[(String, String)],
        events: c_int,
        watch: &Arc<Watch>,
    ) -> Result<Client, BrokerError> {
        let name = settings.iter().rev().find(|(key, _)| key == "client.id").map_or("", |(_, value)| value).to_owned();
        let conf = Conf::new(settings, events)?;
        // SAFETY: the configuration is live. The client keeps the `Watch` until it was destroyed, so longer than any callback.
        unsafe {
            watch.configure(conf.0);
            if role == Role::Consumer {
                watch.configure_consumer(conf.0);
            }
        }
        let kind = match role {
            Role::Consumer => sys::rd_kafka_type_t::RD_KAFKA_CONSUMER,
            Role::Producer => sys::rd_kafka_type_t::RD_KAFKA_PRODUCER,
        };
        let mut errors = [0; 512];
        // SAFETY: `conf` is live and the buffer has the size that is named; on success the client owns the configuration.
        let rk = unsafe { sys::rd_kafka_new(kind, conf.0, errors.as_mut_ptr(), errors.len()) };
        if rk.is_null() {
            // SAFETY: librdkafka has written a string that ends in NUL.
            let why = unsafe { text(errors.as_ptr()) };
            return Err(BrokerError::new(ErrorKind::Refused, format!("could not make the Kafka client {name}: {why}")));
        }
        std::mem::forget(conf);
        Ok(Client { rk, role, name, watch: Arc::clone(watch) })
    }

    /// The handle, for librdkafka's calls while `self` lives.
    pub(super) fn raw(&self) -> *mut sys::rd_kafka_t {
        self.rk
    }

    /// The client's name in logs and errors.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The error after which this client is of no use any more, if there was one.
    pub(super) fn fatal(&self) -> Option<(Code, String)> {
        let mut errors = [0; 512];
        // SAFETY: the client lives and the buffer has the size that is named.
        let code = Code(unsafe { raw::rd_kafka_fatal_error(self.rk, errors.as_mut_ptr(), errors.len()) });
        // SAFETY: librdkafka has written a string that ends in NUL when the code is not zero; else it is still empty.
        (code != Code::NONE).then(|| (code, unsafe { text(errors.as_ptr()) }.to_owned()))
    }

    /// True if a broker answers a question for metadata within this time.
    pub(super) fn is_answered(&self, timeout: Duration) -> bool {
        let mut metadata = ptr::null();
        // SAFETY: the client and the place for the answer live for the call; no topic is asked for. The answer is ours.
        unsafe {
            let place = &raw mut metadata;
            let code = Code(raw::rd_kafka_metadata(self.rk, 0, ptr::null_mut(), place, millis(timeout)));
            if !metadata.is_null() {
                sys::rd_kafka_metadata_destroy(metadata);
            }
            code == Code::NONE
        }
    }

    /// Leaves the group and ends the client, and waits for it: not longer than some seconds, for a client that is just joining
    /// may take as long as its join.
    pub(super) fn close(self) {
        let (done, closed) = mpsc::channel();
        let name = self.name.clone();
        self.end(Some(done));
        if closed.recv_timeout(CLOSE_WAIT) == Err(mpsc::RecvTimeoutError::Timeout) {
            log::warn!("{name} has not left its group after {CLOSE_WAIT:?}; that goes on in the background");
        }
    }

    /// Ends the client on a thread of its own: both leaving the group and freeing the client can block.
    fn end(mut self, done: Option<mpsc::Sender<()>>) {
        let ended = Ended { rk: self.rk, role: self.role, watch: Arc::clone(&self.watch) };
        self.rk = ptr::null_mut();
        let run = move || {
            ended.free();
            drop(done);
        };
        if let Err(error) = host::spawn("kafka-close", run) {
            // The client is lost with the closure that held it: a leak, where blocking here could be a hang.
            log::error!("could not start the thread that ends a Kafka client, which leaks: {error}");
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if !self.rk.is_null() {
            let name = std::mem::take(&mut self.name);
            Client { rk: self.rk, role: self.role, name, watch: Arc::clone(&self.watch) }.end(None);
        }
    }
}

/// A client that nothing uses any more, on its way to the thread that frees it.
struct Ended {
    rk: *mut sys::rd_kafka_t,
    role: Role,
    watch: Arc<Watch>,
}

// SAFETY: as for `Client`; it is the only handle left.
unsafe impl Send for Ended {}

impl Ended {
    fn free(self) {
        self.watch.close();
        // SAFETY: the handle is live, and this is its last user. The `Watch` of its callbacks lives until the end of this call.
        unsafe {
            if self.role == Role::Consumer {
                let code = Code(raw::rd_kafka_consumer_close(self.rk));
                if code != Code::NONE {
                    log::debug!("a consumer was closed with {}", code.name());
                }
            }
            sys::rd_kafka_destroy(self.rk);
        }
    }
}

/// A configuration that no client owns yet.
struct Conf(*mut sys::rd_kafka_conf_t);

impl Conf {
    fn new(settings: &[(String, String)], events: c_int) -> Result<Conf, BrokerError> {
        // SAFETY: makes a new object.
        let conf = Conf(unsafe { sys::rd_kafka_conf_new() });
        for (key, value) in settings {
            let mut errors = [0; 512];
            let (name, setting) = (c_string(key)?, c_string(value)?);
            // SAFETY: all pointers are live for the call, and the buffer has the size that is named.
            let result = unsafe {
                sys::rd_kafka_conf_set(conf.0, name.as_ptr(), setting.as_ptr(), errors.as_mut_ptr(), errors.len())
            };
            if result != sys::rd_kafka_conf_res_t::RD_KAFKA_CONF_OK {
                // SAFETY: librdkafka has written a string that ends in NUL.
                let why = unsafe { text(errors.as_ptr()) };
                let message = format!("the Kafka client does not take {key} = {value:?}: {why}");
                return Err(BrokerError::new(ErrorKind::Refused, message));
            }
        }
        // SAFETY: the configuration is live.
        unsafe { sys::rd_kafka_conf_set_events(conf.0, events) };
        Ok(conf)
    }
}

impl Drop for Conf {
    fn drop(&mut self) {
        // SAFETY: live, and owned by nobody else: a client that took it over forgets this value.
        unsafe { sys::rd_kafka_conf_destroy(self.0) };
    }
}

/// A string for C. One with a NUL inside has no place in Kafka either.
pub(super) fn c_string(from: &str) -> Result<CString, BrokerError> {
    CString::new(from).map_err(|_| BrokerError::new(ErrorKind::Refused, format!("{from:?} has a NUL character in it")))
}

/// A timeout in librdkafka's milliseconds. Rounded up, so that a short wait is not turned into a busy loop.
pub(super) fn millis(time: Duration) -> c_int {
    c_int::try_from(time.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_setting_that_does_not_exist_is_named() {
        let error = Client::quiet(&settings(&[("no.such.thing", "1")])).err().unwrap();
        assert_eq!(error.kind, ErrorKind::Refused);
        assert!(error.message.contains("no.such.thing"), "{error}");
    }

    #[test]
    fn settings_that_contradict_each_other_are_an_error_and_no_crash() {
        let pairs = [("transactional.id", "t"), ("acks", "0")];
        let error = Client::quiet(&settings(&pairs)).err().unwrap();
        assert!(error.message.contains("acks"), "{error}");
    }

    #[test]
    fn a_client_that_never_found_a_broker_ends_without_blocking() {
        let pairs = [("bootstrap.servers", "127.0.0.1:1"), ("group.id", "g"), ("client.id", "c")];
        let client = Client::consumer(&settings(&pairs), &Arc::default()).unwrap();
        assert_eq!((client.name(), client.fatal()), ("c", None));
        client.close();
    }

    #[test]
    fn timeouts_are_rounded_up() {
        assert_eq!(millis(Duration::from_micros(1)), 1);
        assert_eq!(millis(Duration::ZERO), 0);
        assert_eq!(millis(Duration::MAX), c_int::MAX);
    }
}
