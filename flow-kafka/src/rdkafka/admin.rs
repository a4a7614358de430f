//! Describes and creates topics on librdkafka's admin interface.

use std::ffi::{c_char, c_int};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use flow_core::Offset;
use rdkafka_sys as sys;
use sys::rd_kafka_admin_op_t as Op;

use super::client::{Client, c_string, millis};
use super::error::{Code, Failure, text};
use super::list::{List, entries};
use super::queue::Queue;
use super::reach::Reach;
use super::request::{Options, answer, array};
use super::{raw, settings};
use crate::broker::{Admin, BrokerError, ErrorKind, NewTopic, TopicInfo, TopicPartition};
use crate::config::ClientSettings;

pub(super) struct RdkafkaAdmin {
    client: Client,
}

impl RdkafkaAdmin {
    pub(super) fn new(settings: &ClientSettings, reach: &Arc<Reach>) -> Result<Self, BrokerError> {
        let client = Client::producer(&settings::admin(settings, "admin")?, 0, reach)?;
        Ok(RdkafkaAdmin { client })
    }

    /// The number of partitions of each topic; `None` where it does not exist.
    fn partitions(&self, names: &[String], timeout: Duration) -> Result<Vec<Option<i32>>, BrokerError> {
        let what = format!("describe the topics {}", names.join(", "));
        let queue = Queue::new(&self.client)?;
        let options = Options::new(&self.client, Op::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS, timeout)?;
        let c_names = names.iter().map(|name| c_string(name)).collect::<Result<Vec<_>, _>>()?;
        let mut pointers: Vec<*const c_char> = c_names.iter().map(|name| name.as_ptr()).collect();
        // SAFETY: client, options, names and queue live for the calls; the collection is a copy and is freed here.
        unsafe {
            let topics = sys::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len());
            sys::rd_kafka_DescribeTopics(self.client.raw(), topics, options.raw(), queue.raw());
            sys::rd_kafka_TopicCollection_destroy(topics);
        }
        let event = answer(&queue, timeout, &what)?;
        let mut found = vec![None; names.len()];
        // SAFETY: the answer is of this request; what is in it lives with the event.
        unsafe {
            let result = sys::rd_kafka_event_DescribeTopics_result(event.raw());
            let mut count = 0;
            let topics = sys::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
            for topic in array(topics.cast_const(), count) {
                let name = text(sys::rd_kafka_TopicDescription_name(*topic));
                match Failure::read(sys::rd_kafka_TopicDescription_error(*topic)) {
                    Err(failure) if failure.code == Code::UNKNOWN_TOPIC => continue,
                    Err(failure) => return Err(failure.general(format_args!("describe the topic {name}"))),
                    Ok(()) => {}
                }
                let mut partitions = 0;
                sys::rd_kafka_TopicDescription_partitions(*topic, &raw mut partitions);
                if let Some(index) = names.iter().position(|asked| asked == name) {
                    found[index] = i32::try_from(partitions).ok();
                }
            }
        }
        Ok(found)
    }

    /// `cleanup.policy` of each topic.
    fn cleanup_policies(&self, names: &[&String], timeout: Duration) -> Result<Vec<Option<String>>, BrokerError> {
        let what = "describe the settings of topics";
        let queue = Queue::new(&self.client)?;
        let options = Options::new(&self.client, Op::RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, timeout)?;
        let resources = names.iter().map(|name| Resource::topic(name)).collect::<Result<Vec<_>, _>>()?;
        let mut pointers: Vec<_> = resources.iter().map(|resource| resource.0.as_ptr()).collect();
        // SAFETY: client, options, resources and queue live for the call; librdkafka copies the resources.
        unsafe {
            let count = pointers.len();
            sys::rd_kafka_DescribeConfigs(self.client.raw(), pointers.as_mut_ptr(), count, options.raw(), queue.raw());
        }
        let event = answer(&queue, timeout, what)?;
        let mut found = vec![None; names.len()];
        // SAFETY: the answer is of this request; what is in it lives with the event.
        unsafe {
            let result = sys::rd_kafka_event_DescribeConfigs_result(event.raw());
            let mut count = 0;
            let resources = sys::rd_kafka_DescribeConfigs_result_resources(result, &raw mut count);
            for resource in array(resources.cast_const(), count) {
                let name = text(sys::rd_kafka_ConfigResource_name(*resource));
                Code(raw::rd_kafka_ConfigResource_error(*resource))
                    .ok()
                    .map_err(|failure| failure.general(format_args!("read the settings of topic {name}")))?;
                let mut entries = 0;
                let configs = sys::rd_kafka_ConfigResource_configs(*resource, &raw mut entries);
                let policy = array(configs.cast_const(), entries)
                    .iter()
                    .find(|entry| text(sys::rd_kafka_ConfigEntry_name(**entry)) == "cleanup.policy")
                    .map(|entry| text(sys::rd_kafka_ConfigEntry_value(*entry)).to_owned());
                if let Some(index) = names.iter().position(|asked| *asked == name) {
                    found[index] = policy;
                }
            }
        }
        Ok(found)
    }
}

impl Admin for RdkafkaAdmin {
    fn topics(&mut self, names: &[String], timeout: Duration) -> Result<Vec<Option<TopicInfo>>, BrokerError> {
        // Each name once: the broker refuses a request that has one twice.
        let mut once: Vec<String> = names.to_vec();
        once.sort();
        once.dedup();
        if once.is_empty() {
            return Ok(Vec::new());
        }
        let partitions = self.partitions(&once, timeout)?;
        let existing: Vec<_> =
            once.iter().zip(&partitions).filter(|(_, p)| p.is_some()).map(|(name, _)| name).collect();
        let policies = match existing.is_empty() {
            true => Vec::new(),
            false => self.cleanup_policies(&existing, timeout)?,
        };
        let mut policies = policies.into_iter();
        let found: Vec<_> = partitions
            .into_iter()
            .map(|partitions| {
                let cleanup_policy = policies.by_ref().take(usize::from(partitions.is_some())).next().flatten();
                partitions.map(|partitions| TopicInfo { partitions, cleanup_policy })
            })
            .collect();
        Ok(names.iter().map(|name| once.binary_search(name).ok().and_then(|index| found[index].clone())).collect())
    }

    fn create(&mut self, topics: &[NewTopic], timeout: Duration) -> Result<(), BrokerError> {
        if topics.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = topics.iter().map(|topic| topic.name.as_str()).collect();
        let what = format!("create the topics {}", names.join(", "));
        let queue = Queue::new(&self.client)?;
        let options = Options::new(&self.client, Op::RD_KAFKA_ADMIN_OP_CREATETOPICS, timeout)?;
        let new = topics.iter().map(New::topic).collect::<Result<Vec<_>, _>>()?;
        let mut pointers: Vec<_> = new.iter().map(|new| new.0.as_ptr()).collect();
        let mut errors = [0; 256];
        // SAFETY: client, options, topics and queue live for the calls; librdkafka copies the topics. The operation timeout
        // (how long the broker waits until the topics are there) is in its range, so there is nothing to refuse.
        unsafe {
            let wait = millis(timeout.min(Duration::from_secs(3600)));
            let _in_range = sys::rd_kafka_AdminOptions_set_operation_timeout(
                options.raw(),
                wait,
                errors.as_mut_ptr(),
                errors.len(),
            );
            let count = pointers.len();
            sys::rd_kafka_CreateTopics(self.client.raw(), pointers.as_mut_ptr(), count, options.raw(), queue.raw());
        }
        let event = answer(&queue, timeout, &what)?;
        // SAFETY: the answer is of this request; what is in it lives with the event.
        unsafe {
            let result = sys::rd_kafka_event_CreateTopics_result(event.raw());
            let mut count = 0;
            let results = sys::rd_kafka_CreateTopics_result_topics(result, &raw mut count);
            for result in array(results.cast_const(), count) {
                let code = Code(raw::rd_kafka_topic_result_error(*result));
                if code == Code::NONE || code == Code::TOPIC_EXISTS {
                    continue;
                }
                let said = text(sys::rd_kafka_topic_result_error_string(*result));
                let said = if said.is_empty() { code.text() } else { said.to_owned() };
                let name = text(sys::rd_kafka_topic_result_name(*result));
                let failure = Failure { text: said, ..code.into() };
                return Err(failure.general(format_args!("create the topic {name}")));
            }
        }
        Ok(())
    }

    fn delete_records(&mut self, below: &[(TopicPartition, Offset)], timeout: Duration) -> Result<(), BrokerError> {
        if below.is_empty() {
            return Ok(());
        }
        let what = "delete records";
        let queue = Queue::new(&self.client)?;
        let options = Options::new(&self.client, Op::RD_KAFKA_ADMIN_OP_DELETERECORDS, timeout)?;
        let list = List::at(below.iter().map(|(partition, offset)| (partition, offset.0)))?;
        // SAFETY: client, options, list and queue live for the calls; librdkafka copies the request, which is freed here.
        unsafe {
            let request = sys::rd_kafka_DeleteRecords_new(list.raw());
            let mut requests = [request];
            sys::rd_kafka_DeleteRecords(self.client.raw(), requests.as_mut_ptr(), 1, options.raw(), queue.raw());
            sys::rd_kafka_DeleteRecords_destroy(request);
        }
        let event = answer(&queue, timeout, what)?;
        // SAFETY: the answer is of this request; the partitions in it live with the event.
        unsafe {
            let result = sys::rd_kafka_event_DeleteRecords_result(event.raw());
            for entry in entries(sys::rd_kafka_DeleteRecords_result_offsets(result)) {
                entry
                    .code()
                    .ok()
                    .map_err(|failure| failure.general(format_args!("{what} of {}", entry.partition())))?;
            }
        }
        Ok(())
    }
}

/// A topic to ask the settings of.
struct Resource(NonNull<sys::rd_kafka_ConfigResource_t>);

impl Resource {
    fn topic(name: &str) -> Result<Resource, BrokerError> {
        let c_name = c_string(name)?;
        // SAFETY: the name lives for the call and is copied.
        let made = unsafe {
            sys::rd_kafka_ConfigResource_new(sys::rd_kafka_ResourceType_t::RD_KAFKA_RESOURCE_TOPIC, c_name.as_ptr())
        };
        NonNull::new(made)
            .map(Resource)
            .ok_or_else(|| BrokerError::new(ErrorKind::Refused, format!("{name:?} is no topic name")))
    }
}

impl Drop for Resource {
    fn drop(&mut self) {
        // SAFETY: live and only ours.
        unsafe { sys::rd_kafka_ConfigResource_destroy(self.0.as_ptr()) };
    }
}

/// A topic to create.
struct New(NonNull<sys::rd_kafka_NewTopic_t>);

impl New {
    fn topic(topic: &NewTopic) -> Result<New, BrokerError> {
        let name = c_string(&topic.name)?;
        let mut errors = [0; 256];
        // SAFETY: the name lives for the call and is copied; the buffer has the size that is named.
        let made = unsafe {
            sys::rd_kafka_NewTopic_new(
                name.as_ptr(),
                topic.partitions as c_int,
                topic.replication as c_int,
                errors.as_mut_ptr(),
                errors.len(),
            )
        };
        let Some(new) = NonNull::new(made).map(New) else {
            // SAFETY: librdkafka has written a string that ends in NUL.
            let why = unsafe { text(errors.as_ptr()) };
            return Err(BrokerError::new(
                ErrorKind::Refused,
                format!("could not create the topic {}: {why}", topic.name),
            ));
        };
        for (key, value) in &topic.config {
            let (c_key, c_value) = (c_string(key)?, c_string(value)?);
            // SAFETY: the topic and both strings live for the call; the strings are copied.
            let code =
                Code(unsafe { raw::rd_kafka_NewTopic_set_config(new.0.as_ptr(), c_key.as_ptr(), c_value.as_ptr()) });
            code.ok().map_err(|failure| failure.general(format_args!("set {key} of the topic {}", topic.name)))?;
        }
        Ok(new)
    }
}

impl Drop for New {
    fn drop(&mut self) {
        // SAFETY: live and only ours.
        unsafe { sys::rd_kafka_NewTopic_destroy(self.0.as_ptr()) };
    }
}
