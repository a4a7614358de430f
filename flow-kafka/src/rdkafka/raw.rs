//! librdkafka's functions that return or take an error code, declared with an integer.
//!
//! rdkafka-sys declares the code as a Rust enum of the codes that its librdkafka knows. A newer broker may send one that it
//! does not know, librdkafka passes it on, and an enum with a value outside its list is undefined behaviour. So an error code
//! is an integer everywhere in this folder: these declarations replace those of rdkafka-sys, and the fields of structs are
//! read by [`code_at`].

use std::ffi::{c_char, c_int, c_void};

use rdkafka_sys as sys;

use super::error::Code;

/// A rebalance: client, code, partitions, the configuration's opaque pointer.
pub(super) type RebalanceCallback =
    unsafe extern "C" fn(*mut sys::rd_kafka_t, c_int, *mut sys::rd_kafka_topic_partition_list_t, *mut c_void);

unsafe extern "C" {
    pub(super) fn rd_kafka_conf_set_rebalance_cb(conf: *mut sys::rd_kafka_conf_t, callback: Option<RebalanceCallback>);
    pub(super) fn rd_kafka_err2name(code: c_int) -> *const c_char;
    pub(super) fn rd_kafka_err2str(code: c_int) -> *const c_char;
    pub(super) fn rd_kafka_fatal_error(rk: *mut sys::rd_kafka_t, text: *mut c_char, size: usize) -> c_int;
    pub(super) fn rd_kafka_last_error() -> c_int;
    pub(super) fn rd_kafka_error_code(error: *const sys::rd_kafka_error_t) -> c_int;
    pub(super) fn rd_kafka_event_error(event: *mut sys::rd_kafka_event_t) -> c_int;
    pub(super) fn rd_kafka_subscribe(
        rk: *mut sys::rd_kafka_t,
        topics: *const sys::rd_kafka_topic_partition_list_t,
    ) -> c_int;
    pub(super) fn rd_kafka_assign(
        rk: *mut sys::rd_kafka_t,
        partitions: *const sys::rd_kafka_topic_partition_list_t,
    ) -> c_int;
    pub(super) fn rd_kafka_commit_queue(
        rk: *mut sys::rd_kafka_t,
        offsets: *const sys::rd_kafka_topic_partition_list_t,
        queue: *mut sys::rd_kafka_queue_t,
        callback: Option<RebalanceCallback>,
        opaque: *mut c_void,
    ) -> c_int;
    pub(super) fn rd_kafka_consumer_close(rk: *mut sys::rd_kafka_t) -> c_int;
    pub(super) fn rd_kafka_pause_partitions(
        rk: *mut sys::rd_kafka_t,
        partitions: *mut sys::rd_kafka_topic_partition_list_t,
    ) -> c_int;
    pub(super) fn rd_kafka_resume_partitions(
        rk: *mut sys::rd_kafka_t,
        partitions: *mut sys::rd_kafka_topic_partition_list_t,
    ) -> c_int;
    pub(super) fn rd_kafka_position(
        rk: *mut sys::rd_kafka_t,
        partitions: *mut sys::rd_kafka_topic_partition_list_t,
    ) -> c_int;
    pub(super) fn rd_kafka_get_watermark_offsets(
        rk: *mut sys::rd_kafka_t,
        topic: *const c_char,
        partition: i32,
        low: *mut i64,
        high: *mut i64,
    ) -> c_int;
    pub(super) fn rd_kafka_metadata(
        rk: *mut sys::rd_kafka_t,
        all_topics: c_int,
        only_topic: *mut sys::rd_kafka_topic_t,
        metadata: *mut *const sys::rd_kafka_metadata_t,
        timeout_ms: c_int,
    ) -> c_int;
    pub(super) fn rd_kafka_flush(rk: *mut sys::rd_kafka_t, timeout_ms: c_int) -> c_int;
    pub(super) fn rd_kafka_topic_result_error(result: *const sys::rd_kafka_topic_result_t) -> c_int;
    pub(super) fn rd_kafka_ConsumerGroupDescription_state(
        group: *const sys::rd_kafka_ConsumerGroupDescription_t,
    ) -> c_int;
    pub(super) fn rd_kafka_ConfigResource_error(resource: *const sys::rd_kafka_ConfigResource_t) -> c_int;
    pub(super) fn rd_kafka_NewTopic_set_config(
        topic: *mut sys::rd_kafka_NewTopic_t,
        name: *const c_char,
        value: *const c_char,
    ) -> c_int;
}

/// Reads an error code from a field that rdkafka-sys declares as an enum.
///
/// # Safety
/// `field` points to an initialised field of a live librdkafka struct.
pub(super) unsafe fn code_at(field: *const sys::rd_kafka_resp_err_t) -> Code {
    const { assert!(size_of::<sys::rd_kafka_resp_err_t>() == size_of::<c_int>()) };
    // SAFETY: a C enum of this size is an int, and the caller promises that it is there.
    Code(unsafe { field.cast::<c_int>().read() })
}
