//! Reads the output as a `read_committed` consumer and compares every record with what it must be.

use std::collections::HashMap;
use std::time::Duration;

use flow_core::partition_for;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};

use super::fill::mixed;
use super::{KEYS, Options, PARTITIONS, PATIENCE, Payment, Result, Workload};

/// What was read.
#[derive(Debug, Default)]
pub struct Checked {
    /// Records in the output.
    pub outputs: u64,
    /// Records that are not what they must be, or not where.
    pub wrong: u64,
}

/// Reads and compares.
pub fn check(options: &Options) -> Result<Checked> {
    let topic = options.output();
    let mut config = options.client();
    config
        .set("group.id", format!("{}-check", options.run))
        .set("enable.auto.commit", "false")
        .set("fetch.wait.max.ms", "20");
    let consumer: BaseConsumer = config.clone().set("isolation.level", "read_committed").create()?;
    let ends: BaseConsumer = config.set("isolation.level", "read_uncommitted").create()?;
    let mut all = TopicPartitionList::new();
    let mut high = Vec::new();
    for partition in 0..PARTITIONS {
        all.add_partition_offset(&topic, partition, Offset::Offset(0))?;
        high.push(ends.fetch_watermarks(&topic, partition, PATIENCE)?.1);
    }
    consumer.assign(&all)?;
    let mut expected = Expected::new(options.workload);
    let (mut checked, mut idle) = (Checked::default(), Duration::ZERO);
    let wait = Duration::from_millis(100);
    loop {
        match consumer.poll(wait) {
            Some(Ok(message)) => {
                idle = Duration::ZERO;
                checked.outputs += 1;
                let (key, value) = (message.key().unwrap_or_default(), message.payload().unwrap_or_default());
                let in_place = partition_for(key, PARTITIONS).0 == message.partition();
                checked.wrong += u64::from(!in_place || !expected.next(message.partition(), key, value));
            }
            Some(Err(KafkaError::MessageConsumption(
                RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::AllBrokersDown,
            ))) => {}
            Some(Err(error)) => return Err(format!("the output could not be read: {error}").into()),
            None if at_end(&consumer, &topic, &high)? => return Ok(checked),
            None => idle += wait,
        }
        if idle > PATIENCE {
            return Err(format!("the output `{topic}` cannot be read to its end: is a transaction still open?").into());
        }
    }
}

fn at_end(consumer: &BaseConsumer, topic: &str, high: &[i64]) -> Result<bool> {
    let position = consumer.position()?;
    let reached = |partition: i32| match position.find_partition(topic, partition).map(|found| found.offset()) {
        Some(Offset::Offset(offset)) => offset,
        _ => 0,
    };
    Ok((0..PARTITIONS).all(|partition| reached(partition) >= high[partition as usize]))
}

/// What comes next, by key or by partition.
enum Expected {
    Counts(HashMap<Box<[u8]>, u64>),
    Copies([u64; PARTITIONS as usize]),
}

impl Expected {
    fn new(workload: Workload) -> Expected {
        match workload {
            Workload::Passthrough => Expected::Copies([0; PARTITIONS as usize]),
            Workload::Count | Workload::RawCount => Expected::Counts(HashMap::new()),
        }
    }

    /// True if this record is the next one.
    fn next(&mut self, partition: i32, key: &[u8], value: &[u8]) -> bool {
        match self {
            Expected::Counts(counts) => {
                let count = counts.entry(key.into()).or_default();
                *count += 1;
                serde_json::from_slice::<u64>(value).is_ok_and(|found| found == *count)
            }
            Expected::Copies(numbers) => {
                let number = &mut numbers[partition as usize];
                while !lies_in(*number, partition) {
                    *number += 1;
                }
                *number += 1;
                serde_json::from_slice::<Payment>(value).is_ok_and(|found| found.amount == *number - 1)
            }
        }
    }
}

fn lies_in(number: u64, partition: i32) -> bool {
    partition_for(format!("u{}", mixed(number) % KEYS).as_bytes(), PARTITIONS).0 == partition
}
