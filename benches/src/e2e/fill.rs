//! Makes the topics and fills the input.

use std::time::Duration;

use flow_core::partition_for;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::BaseRecord;

use super::{KEYS, Options, PARTITIONS, PATIENCE, Payment, Result};
use crate::send::Send;

const START: i64 = 1_700_000_000_000;

/// Makes the input and the output topic, and the snapshot topic of a loop written by hand.
pub fn create(options: &Options) -> Result<()> {
    let topics = [(options.input(), "delete"), (options.output(), "delete"), (options.changelog(), "compact")];
    let (admin, runtime) = admin(options)?;
    let new = topics.iter().map(|(name, policy)| {
        let topic = NewTopic::new(name, PARTITIONS, TopicReplication::Fixed(-1));
        topic.set("retention.ms", "-1").set("cleanup.policy", policy)
    });
    let new: Vec<NewTopic<'_>> = new.collect();
    for made in runtime.block_on(admin.create_topics(&new, &AdminOptions::new().operation_timeout(Some(PATIENCE))))? {
        made.map_err(|(topic, code)| format!("topic `{topic}` could not be made: {code}"))?;
    }
    Ok(())
}

/// Deletes every topic of the run.
pub fn delete(options: &Options) -> Result<()> {
    let (admin, runtime) = admin(options)?;
    let metadata = admin.inner().fetch_metadata(None, PATIENCE)?;
    let prefix = format!("{}-", options.run);
    let names: Vec<&str> =
        metadata.topics().iter().map(|topic| topic.name()).filter(|name| name.starts_with(&prefix)).collect();
    for deleted in
        runtime.block_on(admin.delete_topics(&names, &AdminOptions::new().operation_timeout(Some(PATIENCE))))?
    {
        deleted.map_err(|(topic, code)| format!("topic `{topic}` could not be deleted: {code}"))?;
    }
    Ok(())
}

fn admin(options: &Options) -> Result<(AdminClient<DefaultClientContext>, tokio::runtime::Runtime)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client: AdminClient<DefaultClientContext> = options.client().create()?;
    let asked = client.inner().fetch_metadata(None, Duration::from_secs(10));
    asked.map_err(|cause| {
        format!("no Kafka answers at {} ({cause}): is the address right, and is it running?", options.brokers)
    })?;
    Ok((client, runtime))
}

/// Writes the input: uniform keys, event time a fifth of a millisecond a record.
pub fn fill(options: &Options) -> Result<()> {
    let mut sender = Send::new(options.client())?;
    let topic = options.input();
    let mut value = Vec::new();
    for number in 0..options.records {
        let user = format!("u{}", mixed(number) % KEYS);
        value.clear();
        serde_json::to_writer(&mut value, &payment(&user, number))?;
        let partition = partition_for(user.as_bytes(), PARTITIONS).0;
        let record = BaseRecord::to(&topic).key(user.as_bytes()).payload(&value[..]).partition(partition);
        sender.send(record.timestamp(START + number as i64 / 5))?;
    }
    sender.end()
}

fn payment(user: &str, number: u64) -> Payment {
    let pad = 100 - r#"{"user":"","amount":,"pad":""}"#.len() - user.len() - number.to_string().len();
    Payment { user: user.to_owned(), amount: number, pad: "x".repeat(pad) }
}

/// Spreads numbers (the finish of splitmix64): the check makes the same keys again.
pub(super) fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_a_hundred_bytes_long() {
        assert_eq!(serde_json::to_vec(&payment("u12345", 4_999_999)).unwrap().len(), 100);
        assert_eq!(serde_json::to_vec(&payment("u1", 0)).unwrap().len(), 100);
    }
}
