//! What a consumer brings: records in batches, and rebalances and errors noted on the way.
//!
//! librdkafka hands out records one event at a time or, through its batch call, hundreds at a time, which costs a quarter. A
//! batch passes over rebalances and errors on the queue by calling the client's callbacks, on the thread that asks; they only
//! note what happened. (Forwarding the partitions to a second queue would be another way to batch, but librdkafka drops the
//! forward whenever it stops to fetch a partition, and the records after that would never be seen.)

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka_sys as sys;

use super::client::Client;
use super::error::{Code, text};
use super::list::List;
use super::message::Message;
use super::queue::{Queue, Wake};
use super::raw;
use super::reach::Reach;
use crate::broker::{BrokerError, Rebalance};

/// Records taken from the client at once. More is no faster, and what was taken but not yet processed holds memory.
pub(super) const BATCH: usize = 1000;

/// What a consumer's callbacks have noted.
#[derive(Default)]
pub(super) struct Watch {
    noted: Mutex<Noted>,
    wake: Arc<Wake>,
    /// Who is told what the client says about brokers; nobody, for the client that looks for them.
    reach: Option<Arc<Reach>>,
}

#[derive(Default)]
struct Noted {
    all: VecDeque<Notice>,
    closing: bool,
}

/// Something that a consumer said beside records.
pub(super) enum Notice {
    Rebalance(Rebalance),
    Error { code: Code, text: String },
}

impl Watch {
    /// A watch over a client that shares its reach with others.
    pub(super) fn of(reach: &Arc<Reach>) -> Arc<Watch> {
        Arc::new(Watch { reach: Some(Arc::clone(reach)), ..Watch::default() })
    }

    fn noted<T>(&self, with: impl FnOnce(&mut Noted) -> T) -> T {
        with(&mut self.noted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets what every client that is about to be made needs: where its callbacks find this, and the one for its log.
    ///
    /// # Safety
    /// `conf` is live, and `self` stays where it is until the client was destroyed.
    pub(super) unsafe fn configure(self: &Arc<Self>, conf: *mut sys::rd_kafka_conf_t) {
        // SAFETY: the caller's promise. The log's callback may come from any thread, and only reads what is shared.
        unsafe {
            sys::rd_kafka_conf_set_opaque(conf, Arc::as_ptr(self).cast_mut().cast());
            sys::rd_kafka_conf_set_log_cb(conf, Some(forward_log));
        }
    }

    /// Sets what a consumer needs beside.
    ///
    /// # Safety
    /// As [`configure`](Self::configure), which comes first.
    pub(super) unsafe fn configure_consumer(&self, conf: *mut sys::rd_kafka_conf_t) {
        // SAFETY: the caller's promise.
        unsafe {
            raw::rd_kafka_conf_set_rebalance_cb(conf, Some(note_rebalance));
            sys::rd_kafka_conf_set_error_cb(conf, Some(note_error));
        }
    }

    /// From now on rebalances are answered where they come up: by giving up everything.
    pub(super) fn close(&self) {
        self.noted(|noted| noted.closing = true);
    }
}

/// Called by librdkafka on the thread that polls, or the one that closes.
unsafe extern "C" fn note_rebalance(
    rk: *mut sys::rd_kafka_t,
    code: c_int,
    partitions: *mut sys::rd_kafka_topic_partition_list_t,
    watch: *mut c_void,
) {
    // SAFETY: the pointer given in `configure`, alive as long as the client; client and list are live during the call.
    unsafe {
        let watch = &*watch.cast::<Watch>();
        if watch.noted(|noted| noted.closing) {
            let code = Code(raw::rd_kafka_assign(rk, ptr::null()));
            if code != Code::NONE {
                log::debug!("a closing consumer could not give up its partitions: {}", code.name());
            }
            return;
        }
        let partitions = List::partitions(partitions);
        let rebalance = match Code(code) {
            Code::ASSIGN => Rebalance::Assigned(partitions),
            Code::REVOKE if sys::rd_kafka_assignment_lost(rk) == 0 => Rebalance::Revoked(partitions),
            Code::REVOKE => Rebalance::Lost(partitions),
            // A rebalance that failed: the client gives up what it had and tries again.
            other => {
                let line = format!("a rebalance failed: {} ({})", other.text(), other.name());
                match &watch.reach {
                    Some(reach) => reach.error(other, &line),
                    None => log::warn!("{line}"),
                }
                Rebalance::Lost(partitions)
            }
        };
        watch.noted(|noted| noted.all.push_back(Notice::Rebalance(rebalance)));
    }
}

/// Called by librdkafka on the thread that polls.
unsafe extern "C" fn note_error(_: *mut sys::rd_kafka_t, code: c_int, said: *const c_char, watch: *mut c_void) {
    // SAFETY: the pointer given in `configure`, alive as long as the client; the text lives for the call.
    unsafe {
        let (code, text) = (Code(code), text(said).to_owned());
        (*watch.cast::<Watch>()).noted(|noted| noted.all.push_back(Notice::Error { code, text }));
    }
}

/// librdkafka's own log lines, sent on to the `log` crate. It calls this from its own threads.
unsafe extern "C" fn forward_log(
    rk: *const sys::rd_kafka_t,
    level: c_int,
    facility: *const c_char,
    line: *const c_char,
) {
    // SAFETY: librdkafka passes strings that live for this call. The handle is null, as long as the client is being made, or
    // live; then so is the pointer given in `configure`.
    let (name, facility, line, reach) = unsafe {
        let (name, watch) = match rk.is_null() {
            true => (ptr::null(), ptr::null()),
            false => (sys::rd_kafka_name(rk), sys::rd_kafka_opaque(rk).cast::<Watch>().cast_const()),
        };
        (text(name), text(facility), text(line), watch.as_ref().and_then(|watch| watch.reach.as_ref()))
    };
    // The levels of syslog. Every client gets all of the user's settings and warns of those that are for another kind.
    let level = match level {
        _ if facility == "CONFWARN" => log::Level::Debug,
        ..=3 => log::Level::Error,
        4 => log::Level::Warn,
        5 | 6 => log::Level::Info,
        _ => log::Level::Debug,
    };
    match reach {
        Some(reach) => reach.log(level, name, facility, line),
        None => log::debug!(target: "librdkafka", "{name}: {facility}: {line}"),
    }
}

/// A consumer's queue. It must be gone before the client.
pub(super) struct Feed {
    queue: Queue,
    watch: Arc<Watch>,
    batch: Box<[*mut sys::rd_kafka_message_t]>,
}

// SAFETY: the array is scratch space for one call; its pointers are never used after it.
unsafe impl Send for Feed {}

impl Feed {
    pub(super) fn new(client: &Client, watch: &Arc<Watch>) -> Result<Feed, BrokerError> {
        let mut queue = Queue::of_consumer(client)?;
        queue.wakes(&watch.wake);
        Ok(Feed { queue, watch: Arc::clone(watch), batch: vec![ptr::null_mut(); BATCH].into() })
    }

    /// Adds the records that are there to `into`, up to a batch; the number of them. Notices come first: see
    /// [`notice`](Self::notice). Being asked is also what tells librdkafka that its user is alive.
    pub(super) fn take(&mut self, into: &mut VecDeque<Message>) -> usize {
        self.queue.take_records(&mut self.batch, into)
    }

    /// The next thing that was noted.
    pub(super) fn notice(&self) -> Option<Notice> {
        self.watch.noted(|noted| noted.all.pop_front())
    }

    /// Waits until there is something to take, up to `timeout`.
    pub(super) fn wait(&self, timeout: Duration) {
        self.watch.wake.wait(timeout);
    }
}
