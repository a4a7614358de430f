//! What a transaction is made of, as librdkafka wants it: records with their headers, and the membership that fences them.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use flow_core::HeadersRef;
use rdkafka_sys as sys;

use super::client::c_string;
use crate::broker::{BrokerError, ErrorKind, Generation, Outgoing};

pub(super) use sys::rd_kafka_vu_s__bindgen_ty_1 as U;
pub(super) use sys::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 as Mem;

/// A membership as librdkafka wants it.
pub(super) struct Member(NonNull<sys::rd_kafka_consumer_group_metadata_t>);

impl Member {
    pub(super) fn new(generation: &Generation) -> Result<Member, BrokerError> {
        let (group, member) = (c_string(&generation.group)?, c_string(&generation.member)?);
        let instance = generation.instance.as_deref().map(c_string).transpose()?;
        // SAFETY: all strings live for the call and are copied; no instance is null.
        let made = unsafe {
            sys::rd_kafka_consumer_group_metadata_new_with_genid(
                group.as_ptr(),
                generation.id,
                member.as_ptr(),
                instance.as_ref().map_or(ptr::null(), |instance| instance.as_ptr()),
            )
        };
        NonNull::new(made).map(Member).ok_or_else(|| {
            BrokerError::new(ErrorKind::Fatal, format!("could not describe the membership of {}", generation.member))
        })
    }
}

impl Member {
    pub(super) fn raw(&self) -> *const sys::rd_kafka_consumer_group_metadata_t {
        self.0.as_ptr()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // SAFETY: live and only ours.
        unsafe { sys::rd_kafka_consumer_group_metadata_destroy(self.0.as_ptr()) };
    }
}

/// The fields of one record.
pub(super) struct Fields {
    pub(super) all: [sys::rd_kafka_vu_t; 7],
    pub(super) used: usize,
}

impl Fields {
    pub(super) fn new() -> Fields {
        let none = sys::rd_kafka_vu_t { vtype: sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_END, u: U { i: 0 } };
        Fields { all: [none; 7], used: 0 }
    }

    pub(super) fn push(&mut self, vtype: sys::rd_kafka_vtype_t, u: U) {
        self.all[self.used] = sys::rd_kafka_vu_t { vtype, u };
        self.used += 1;
    }
}

/// Bytes for C: null is null, and empty is not.
pub(super) fn parts(bytes: Option<&[u8]>) -> (*mut c_void, usize) {
    bytes.map_or((ptr::null_mut(), 0), |bytes| (bytes.as_ptr().cast_mut().cast(), bytes.len()))
}

pub(super) fn message(record: &Outgoing<'_>) -> sys::rd_kafka_message_t {
    let (payload, len) = parts(record.value);
    let (key, key_len) = parts(record.key);
    sys::rd_kafka_message_t {
        err: sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR,
        rkt: ptr::null_mut(),
        partition: record.partition.0,
        payload,
        len,
        key,
        key_len,
        offset: 0,
        _private: ptr::null_mut(),
    }
}

/// The headers for one record; none is null. The result is to be given to librdkafka or destroyed.
pub(super) fn headers(from: HeadersRef<'_>) -> Result<Option<NonNull<sys::rd_kafka_headers_t>>, BrokerError> {
    if from.is_empty() {
        return Ok(None);
    }
    // SAFETY: makes a new object.
    let Some(headers) = NonNull::new(unsafe { sys::rd_kafka_headers_new(4) }) else {
        return Err(BrokerError::new(ErrorKind::Fatal, "out of memory for a record's headers"));
    };
    for (name, value) in from.iter() {
        let (value, size) = parts(value);
        // SAFETY: the headers are live; name and value live for the call and are copied. The sizes are those of slices, which
        // fit `isize`.
        unsafe {
            sys::rd_kafka_header_add(
                headers.as_ptr(),
                name.as_ptr().cast(),
                name.len() as isize,
                value.cast_const(),
                size as isize,
            );
        }
    }
    Ok(Some(headers))
}
