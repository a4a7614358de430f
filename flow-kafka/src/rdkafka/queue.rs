//! Queues of a client, the events that come through them, and a way to wait for two queues at once.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rdkafka_sys as sys;

use super::client::{Client, millis};
use super::error::{Code, text};
use super::{message::Message, raw};
use crate::broker::{BrokerError, ErrorKind};

/// Wakes a thread that waits for any of several queues.
#[derive(Default)]
pub(super) struct Wake {
    set: Mutex<bool>,
    changed: Condvar,
}

impl Wake {
    fn set(&self) {
        *self.set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    /// Returns when something has come since the last wait, or after `timeout`.
    pub(super) fn wait(&self, timeout: Duration) {
        let guard = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut guard, _) =
            self.changed.wait_timeout_while(guard, timeout, |set| !*set).unwrap_or_else(PoisonError::into_inner);
        *guard = false;
    }
}

/// A reference to a queue of a client. It must be gone before the client.
pub(super) struct Queue {
    queue: NonNull<sys::rd_kafka_queue_t>,
    wakes: Option<Arc<Wake>>,
}

// SAFETY: librdkafka's queues lock themselves.
unsafe impl Send for Queue {}

impl Queue {
    /// A queue of our own.
    pub(super) fn new(client: &Client) -> Result<Queue, BrokerError> {
        // SAFETY: the client lives.
        Queue::own(unsafe { sys::rd_kafka_queue_new(client.raw()) }, client)
    }

    /// The queue of all that a consumer has to say: records, rebalances, errors.
    pub(super) fn of_consumer(client: &Client) -> Result<Queue, BrokerError> {
        // SAFETY: the client lives. The redirection of the main queue to this one can only fail for a producer.
        unsafe {
            sys::rd_kafka_poll_set_consumer(client.raw());
            Queue::own(sys::rd_kafka_queue_get_consumer(client.raw()), client)
        }
    }

    /// The queue of a producer's delivery reports and errors.
    pub(super) fn of_producer(client: &Client) -> Result<Queue, BrokerError> {
        // SAFETY: the client lives.
        Queue::own(unsafe { sys::rd_kafka_queue_get_main(client.raw()) }, client)
    }

    fn own(queue: *mut sys::rd_kafka_queue_t, client: &Client) -> Result<Queue, BrokerError> {
        match NonNull::new(queue) {
            Some(queue) => Ok(Queue { queue, wakes: None }),
            None => Err(BrokerError::new(ErrorKind::Refused, format!("{} has no such queue", client.name()))),
        }
    }

    pub(super) fn raw(&self) -> *mut sys::rd_kafka_queue_t {
        self.queue.as_ptr()
    }

    /// Calls `wake` whenever something comes in.
    pub(super) fn wakes(&mut self, wake: &Arc<Wake>) {
        let opaque = Arc::as_ptr(wake).cast_mut().cast::<c_void>();
        // SAFETY: the queue is live. `self` keeps the `Wake` alive until it has taken the callback away again, and librdkafka
        // calls it under the queue's lock, so not after that.
        unsafe { sys::rd_kafka_queue_cb_event_enable(self.raw(), Some(woken), opaque) };
        self.wakes = Some(Arc::clone(wake));
    }

    /// The next event; waits up to `timeout` for it.
    pub(super) fn event(&self, timeout: Duration) -> Option<Event> {
        // SAFETY: the queue lives; the event is ours.
        NonNull::new(unsafe { sys::rd_kafka_queue_poll(self.raw(), millis(timeout)) }).map(Event)
    }

    /// Moves the records that are there, up to the size of `batch`, to `into`. Rebalances and errors on the way go to the
    /// client's callbacks, on this thread.
    pub(super) fn take_records(
        &self,
        batch: &mut [*mut sys::rd_kafka_message_t],
        into: &mut impl Extend<Message>,
    ) -> usize {
        // SAFETY: the queue lives and the array has this many places. With a timeout of 0 it does not wait.
        let count = unsafe { sys::rd_kafka_consume_batch_queue(self.raw(), 0, batch.as_mut_ptr(), batch.len()) };
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: these places were filled with messages that are ours now.
        into.extend(batch[..count].iter().filter_map(|message| unsafe { Message::own(*message) }));
        count
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: live; the callback goes before the `Wake` that it was given.
        unsafe {
            if self.wakes.is_some() {
                sys::rd_kafka_queue_cb_event_enable(self.raw(), None, ptr::null_mut());
            }
            sys::rd_kafka_queue_destroy(self.raw());
        }
    }
}

/// librdkafka calls this from its threads, under the queue's lock; so it only sets a flag.
unsafe extern "C" fn woken(_: *mut sys::rd_kafka_t, wake: *mut c_void) {
    // SAFETY: the pointer given in `Queue::wakes`, whose `Arc` lives as long as the callback is set.
    unsafe { &*wake.cast::<Wake>() }.set();
}

/// Something that a client has to say.
pub(super) struct Event(NonNull<sys::rd_kafka_event_t>);

impl Event {
    pub(super) fn raw(&self) -> *mut sys::rd_kafka_event_t {
        self.0.as_ptr()
    }

    /// One of the `RD_KAFKA_EVENT_..` numbers.
    pub(super) fn kind(&self) -> i32 {
        // SAFETY: the event is live.
        unsafe { sys::rd_kafka_event_type(self.raw()) }
    }

    pub(super) fn code(&self) -> Code {
        // SAFETY: the event is live.
        Code(unsafe { raw::rd_kafka_event_error(self.raw()) })
    }

    pub(super) fn text(&self) -> String {
        // SAFETY: the event is live, and the text is copied.
        let said = unsafe { text(sys::rd_kafka_event_error_string(self.raw())) };
        if said.is_empty() { self.code().text() } else { said.to_owned() }
    }

    /// Topic, partition and code of each record of a delivery report.
    pub(super) fn deliveries(&self, mut each: impl FnMut(&str, i32, Code)) {
        loop {
            // SAFETY: the event is live and owns the messages that it hands out here, one after the other.
            unsafe {
                let message = sys::rd_kafka_event_message_next(self.raw());
                if message.is_null() {
                    return;
                }
                let topic = if (*message).rkt.is_null() { "" } else { text(sys::rd_kafka_topic_name((*message).rkt)) };
                each(topic, (*message).partition, raw::code_at(&raw const (*message).err));
            }
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: live and only ours.
        unsafe { sys::rd_kafka_event_destroy(self.0.as_ptr()) };
    }
}
