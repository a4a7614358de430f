//! One request of librdkafka's admin interface, from its options to its answer.
//!
//! The answers come through a queue of their own, so nothing here needs an executor.

use std::ptr::NonNull;
use std::time::Duration;

use rdkafka_sys as sys;

use super::client::{Client, millis};
use super::error::{Code, Failure};
use super::queue::{Event, Queue};
use crate::broker::{BrokerError, ErrorKind};

/// Options of one request. They must be gone before the client.
pub(super) struct Options(NonNull<sys::rd_kafka_AdminOptions_t>);

impl Options {
    /// The broker's answer must come within `timeout`.
    pub(super) fn new(
        client: &Client,
        of: sys::rd_kafka_admin_op_t,
        timeout: Duration,
    ) -> Result<Options, BrokerError> {
        // SAFETY: the client lives.
        let options = NonNull::new(unsafe { sys::rd_kafka_AdminOptions_new(client.raw(), of) }).map(Options);
        let options = options
            .ok_or_else(|| BrokerError::new(ErrorKind::Fatal, format!("{} cannot ask the broker", client.name())))?;
        let mut errors = [0; 256];
        // librdkafka takes at most an hour here.
        let timeout = millis(timeout.clamp(Duration::from_millis(1), Duration::from_secs(3600)));
        // SAFETY: the options live and the buffer has the size that is named. The codes are librdkafka's own; the value is in
        // its range, so there is nothing to refuse.
        unsafe {
            let _in_range = sys::rd_kafka_AdminOptions_set_request_timeout(
                options.raw(),
                timeout,
                errors.as_mut_ptr(),
                errors.len(),
            );
        }
        Ok(options)
    }

    pub(super) fn raw(&self) -> *mut sys::rd_kafka_AdminOptions_t {
        self.0.as_ptr()
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: live and only ours.
        unsafe { sys::rd_kafka_AdminOptions_destroy(self.0.as_ptr()) };
    }
}

/// Waits for the answer of the request that was sent with `queue` as its place of answer.
pub(super) fn answer(queue: &Queue, timeout: Duration, what: &str) -> Result<Event, BrokerError> {
    // librdkafka ends the request at its own timeout; this one is only for the case that it does not.
    let Some(event) = queue.event(timeout.saturating_add(Duration::from_secs(1))) else {
        return Err(Failure::from(Code::TIMED_OUT).general(what));
    };
    checked(event, what)
}

/// An answer, or the error that it is.
pub(super) fn checked(event: Event, what: &str) -> Result<Event, BrokerError> {
    match event.code() {
        Code::NONE => Ok(event),
        code => {
            let failure = Failure { text: event.text(), ..code.into() };
            Err(failure.general(what))
        }
    }
}

/// The elements of an array that librdkafka returned with its length.
///
/// # Safety
/// `first` is null or has `count` elements that live for `'a`.
pub(super) unsafe fn array<'a, T>(first: *const *const T, count: usize) -> &'a [*const T] {
    if first.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(first, count) }
}
