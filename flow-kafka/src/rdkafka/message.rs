//! A record as librdkafka hands it out.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::slice;

use flow_core::{Headers, Offset, RecordRef, Timestamp};
use rdkafka_sys as sys;

use super::error::{Code, text};
use super::raw;

/// A record, or an error of one partition, that we own. It keeps the whole response that it came in, so it should not be kept
/// for long.
pub(super) struct Message(NonNull<sys::rd_kafka_message_t>);

// SAFETY: a message is bound to no thread; it is read and freed by whoever owns it.
unsafe impl Send for Message {}

impl Message {
    /// # Safety
    /// `message` is null or a message that the caller owns, of a client that outlives the result.
    pub(super) unsafe fn own(message: *mut sys::rd_kafka_message_t) -> Option<Message> {
        NonNull::new(message).map(Message)
    }

    fn get(&self) -> &sys::rd_kafka_message_t {
        // SAFETY: live while `self` is; the error code is not read through this reference.
        unsafe { self.0.as_ref() }
    }

    /// [`Code::NONE`] for a record.
    pub(super) fn code(&self) -> Code {
        // SAFETY: the field is part of a live message.
        unsafe { raw::code_at(&raw const (*self.0.as_ptr()).err) }
    }

    /// What an error says; its value is the text.
    pub(super) fn error_text(&self) -> String {
        // SAFETY: the value lives as long as the message.
        match unsafe { bytes(self.get().payload, self.get().len) } {
            Some(text) => String::from_utf8_lossy(text).into_owned(),
            None => self.code().text(),
        }
    }

    /// Tells topics apart: the same as long as the topic has an assigned partition.
    pub(super) fn topic_id(&self) -> usize {
        self.get().rkt as usize
    }

    pub(super) fn topic(&self) -> &str {
        if self.get().rkt.is_null() {
            return "";
        }
        // SAFETY: the message holds a reference to its topic.
        unsafe { text(sys::rd_kafka_topic_name(self.get().rkt)) }
    }

    pub(super) fn partition(&self) -> i32 {
        self.get().partition
    }

    pub(super) fn offset(&self) -> i64 {
        self.get().offset
    }

    /// The record, with its headers written to `headers`.
    pub(super) fn record<'m>(&'m self, headers: &'m mut Headers) -> RecordRef<'m> {
        let message = self.get();
        self.read_headers(headers);
        // SAFETY: key and value live as long as the message.
        let (key, value) = unsafe { (bytes(message.key, message.key_len), bytes(message.payload, message.len)) };
        RecordRef { key, value, timestamp: self.timestamp(), offset: Offset(message.offset), headers: headers.as_ref() }
    }

    fn timestamp(&self) -> Option<Timestamp> {
        let mut kind = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: both pointers are live; librdkafka writes one of the three kinds of its enum.
        let millis = unsafe { sys::rd_kafka_message_timestamp(self.0.as_ptr(), &raw mut kind) };
        let known = kind != sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE && millis != -1;
        known.then(|| Timestamp::from_millis(millis))
    }

    fn read_headers(&self, into: &mut Headers) {
        into.clear();
        let mut all = ptr::null_mut();
        // SAFETY: the message is live; the headers stay its own. The codes are librdkafka's own: NO_ERROR, _NOENT, _BAD_MSG.
        let found = unsafe { sys::rd_kafka_message_headers(self.0.as_ptr(), &raw mut all) };
        if found != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
            return;
        }
        for index in 0.. {
            let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
            // SAFETY: the headers are live with the message, and so is what is read of one.
            unsafe {
                let found = sys::rd_kafka_header_get_all(all, index, &raw mut name, &raw mut value, &raw mut size);
                if found != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                    return;
                }
                into.push(text(name), bytes(value, size));
            }
        }
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: live and only ours.
        unsafe { sys::rd_kafka_message_destroy(self.0.as_ptr()) };
    }
}

/// The bytes behind a pointer; null is null.
///
/// # Safety
/// `from` is null or points to `len` bytes that live for `'m`.
unsafe fn bytes<'m>(from: *const c_void, len: usize) -> Option<&'m [u8]> {
    // SAFETY: the caller's promise.
    (!from.is_null()).then(|| unsafe { slice::from_raw_parts(from.cast(), len) })
}
