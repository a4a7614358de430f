//! A list of partitions, with an offset and metadata each.
//!
//! Some calls (pause, resume, position, seek) leave references to the client's partitions in the list, and a client does not
//! end while one lives. So a list is made for one call and gone after it; none is kept in a struct.

use std::ptr::{self, NonNull};
use std::slice;

use rdkafka_sys as sys;

use super::client::c_string;
use super::error::{Code, text};
use super::raw;
use crate::broker::{BrokerError, ErrorKind, TopicPartition};

/// A list that we own.
pub(super) struct List(NonNull<sys::rd_kafka_topic_partition_list_t>);

/// An offset for lists whose offsets nobody reads.
pub(super) const NO_OFFSET: i64 = sys::RD_KAFKA_OFFSET_INVALID as i64;

impl List {
    pub(super) fn with_capacity(capacity: usize) -> List {
        // SAFETY: makes a new object. It never answers null: librdkafka ends the process when memory runs out, as Rust does.
        let list = unsafe { sys::rd_kafka_topic_partition_list_new(capacity.try_into().unwrap_or(0)) };
        List(NonNull::new(list).expect("librdkafka's allocations do not answer null"))
    }

    /// Partitions without offsets.
    pub(super) fn of<'p>(partitions: impl IntoIterator<Item = &'p TopicPartition>) -> Result<List, BrokerError> {
        List::at(partitions.into_iter().map(|partition| (partition, NO_OFFSET)))
    }

    /// Partitions with an offset each.
    pub(super) fn at<'p>(partitions: impl IntoIterator<Item = (&'p TopicPartition, i64)>) -> Result<List, BrokerError> {
        let partitions = partitions.into_iter();
        let mut list = List::with_capacity(partitions.size_hint().0);
        for (partition, offset) in partitions {
            list.push(partition, offset, None)?;
        }
        Ok(list)
    }

    pub(super) fn push(
        &mut self,
        partition: &TopicPartition,
        offset: i64,
        metadata: Option<&str>,
    ) -> Result<(), BrokerError> {
        let topic = c_string(&partition.topic)?;
        // SAFETY: the list is live and the name is copied. The new element is used before the list can grow again.
        unsafe {
            let element =
                sys::rd_kafka_topic_partition_list_add(self.0.as_ptr(), topic.as_ptr(), partition.partition.0);
            (*element).offset = offset;
            if let Some(metadata) = metadata.filter(|metadata| !metadata.is_empty()) {
                // librdkafka frees the metadata with the list, so it must come from its allocator.
                let copy = sys::rd_kafka_mem_malloc(ptr::null_mut(), metadata.len()).cast::<u8>();
                if copy.is_null() {
                    return Err(BrokerError::new(ErrorKind::Fatal, "out of memory for an offset's metadata"));
                }
                ptr::copy_nonoverlapping(metadata.as_ptr(), copy, metadata.len());
                (*element).metadata = copy.cast();
                (*element).metadata_size = metadata.len();
            }
        }
        Ok(())
    }

    pub(super) fn raw(&self) -> *mut sys::rd_kafka_topic_partition_list_t {
        self.0.as_ptr()
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        // SAFETY: the list is live as long as `self` is borrowed.
        unsafe { entries(self.0.as_ptr()) }
    }

    /// The partitions of a list that belongs to something else.
    ///
    /// # Safety
    /// `list` is null or a live list.
    pub(super) unsafe fn partitions(list: *const sys::rd_kafka_topic_partition_list_t) -> Vec<TopicPartition> {
        // SAFETY: the caller's promise.
        unsafe { entries(list) }.map(|entry| entry.partition()).collect()
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: live, and only ours.
        unsafe { sys::rd_kafka_topic_partition_list_destroy(self.0.as_ptr()) };
    }
}

/// One partition of a list.
pub(super) struct Entry<'l>(&'l sys::rd_kafka_topic_partition_t);

impl<'l> Entry<'l> {
    /// An element that lives outside a list.
    ///
    /// # Safety
    /// `element` is live for `'l`.
    pub(super) unsafe fn new(element: *const sys::rd_kafka_topic_partition_t) -> Entry<'l> {
        // SAFETY: the caller's promise. Its error code may be one that the enum does not list, but a reference asserts nothing
        // about a field that is never read as such: see `code`.
        Entry(unsafe { &*element })
    }

    pub(super) fn topic(&self) -> &'l str {
        // SAFETY: every element has a name that ends in NUL and lives as long as the list.
        unsafe { text(self.0.topic) }
    }

    pub(super) fn partition(&self) -> TopicPartition {
        TopicPartition::new(self.topic(), self.0.partition)
    }

    pub(super) fn is(&self, partition: &TopicPartition) -> bool {
        self.0.partition == partition.partition.0 && self.topic() == partition.topic
    }

    pub(super) fn offset(&self) -> i64 {
        self.0.offset
    }

    pub(super) fn code(&self) -> Code {
        // SAFETY: the field is part of a live element.
        unsafe { raw::code_at(&raw const self.0.err) }
    }

    pub(super) fn metadata(&self) -> &'l [u8] {
        if self.0.metadata.is_null() {
            return &[];
        }
        // SAFETY: librdkafka keeps this many bytes there as long as the list lives.
        unsafe { slice::from_raw_parts(self.0.metadata.cast(), self.0.metadata_size) }
    }
}

/// # Safety
/// `list` is null or a list that is live for `'l`.
pub(super) unsafe fn entries<'l>(list: *const sys::rd_kafka_topic_partition_list_t) -> impl Iterator<Item = Entry<'l>> {
    let (first, count) = if list.is_null() {
        (ptr::null_mut(), 0)
    } else {
        // SAFETY: live, by the caller's promise.
        unsafe { ((*list).elems, usize::try_from((*list).cnt).unwrap_or(0)) }
    };
    // SAFETY: a list has `cnt` elements from `elems` on.
    (0..count).map(move |i| unsafe { Entry::new(first.add(i)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_gives_back_what_was_put_in() {
        let mut list = List::with_capacity(0);
        for number in 0..100 {
            let metadata = (number % 2 == 0).then(|| format!("méta {number}"));
            list.push(&TopicPartition::new("t", number), i64::from(number) * 10, metadata.as_deref()).unwrap();
        }
        for (number, entry) in list.entries().enumerate() {
            assert_eq!(entry.partition(), TopicPartition::new("t", number as i32));
            assert_eq!(entry.offset(), number as i64 * 10);
            assert_eq!(entry.code(), Code::NONE);
            let expected = if number % 2 == 0 { format!("méta {number}") } else { String::new() };
            assert_eq!(entry.metadata(), expected.as_bytes());
        }
        assert_eq!(list.entries().count(), 100);
    }

    #[test]
    fn a_topic_name_with_a_nul_is_refused() {
        let error = List::of([&TopicPartition::new("a\0b", 0)]).err().unwrap();
        assert_eq!(error.kind, ErrorKind::Refused);
    }

    #[test]
    fn no_list_has_no_entries() {
        // SAFETY: null is allowed.
        assert_eq!(unsafe { List::partitions(ptr::null()) }, []);
    }
}
