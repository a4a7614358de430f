//! What a transaction gets: a task's outputs, dead letters and snapshots.

use std::sync::Arc;

use flow_core::{DeadLetterRef, Headers, HeadersRef, OutputRef, Partition, SnapshotRef, dead_letter, partition_for};

use super::Committer;
use super::outside::is_users;
use crate::broker::{BrokerError, Outgoing, Sender, TopicId};
use crate::tasks::Active;

/// Records given to the producer at once.
const CHUNK: usize = 1000;

impl Committer {
    /// Sends what the open transaction does not have yet of a task's effects.
    pub(super) fn send(&mut self, task: &mut Active) -> Result<(), BrokerError> {
        let layout = Arc::clone(&self.layout);
        let (sub, own) = (&layout.subs[task.id.sub], task.id.partition);
        let sinks: Vec<(TopicId, i32)> = sub
            .sinks
            .iter()
            .map(|(name, partitions)| Ok((self.topic(name)?, *partitions)))
            .collect::<Result<_, BrokerError>>()?;
        let changelogs: Vec<TopicId> =
            sub.changelogs.iter().map(|name| self.topic(name)).collect::<Result<_, BrokerError>>()?;
        let (effects, sent) = (task.task.effects(), &mut task.sent);
        let letters = match &layout.letters {
            Some((name, partitions)) if effects.letters_len() > 0 => {
                Some((self.topic(name)?, Partition(own.0 % partitions)))
            }
            _ => None,
        };
        let producer = self.producer.as_deref_mut().expect("a transaction is open");
        let outside = self.outside.is_some();
        in_chunks(producer, &mut sent.outputs, effects.outputs_len(), |at| {
            let one = effects.output(at);
            (!outside || !is_users(sub, one.sink)).then(|| output(one, &sinks, own))
        })?;
        if let Some(to) = letters {
            while sent.letters < effects.letters_len() {
                send_letter(producer, &effects.letter(sent.letters), &sub.sources, to)?;
                sent.letters += 1;
            }
        }
        in_chunks(producer, &mut sent.snapshots, effects.snapshots_len(), |at| {
            Some(snapshot(effects.snapshot(at), &changelogs, own))
        })
    }

    fn topic(&mut self, name: &str) -> Result<TopicId, BrokerError> {
        if let Some(id) = self.topics.get(name) {
            return Ok(*id);
        }
        let id = self.producer.as_deref_mut().expect("a transaction is open").topic(name)?;
        self.topics.insert(name.to_owned(), id);
        Ok(id)
    }
}

/// Sends what is still to be sent of `all` records, those that `record` does not leave out, and notes how far it came.
pub(super) fn in_chunks<'e, S: Sender + ?Sized>(
    producer: &mut S,
    sent: &mut usize,
    all: usize,
    record: impl Fn(usize) -> Option<Outgoing<'e>>,
) -> Result<(), BrokerError> {
    let mut chunk = Vec::with_capacity(CHUNK.min(all - *sent));
    while *sent < all {
        chunk.clear();
        let end = all.min(*sent + CHUNK);
        chunk.extend((*sent..end).filter_map(&record));
        if !chunk.is_empty() {
            producer.send(&chunk)?;
        }
        *sent = end;
    }
    Ok(())
}

pub(super) fn output<'e>(output: OutputRef<'e>, sinks: &[(TopicId, i32)], own: Partition) -> Outgoing<'e> {
    let (topic, partitions) = sinks[output.sink];
    let OutputRef { key, value, timestamp, headers, .. } = output;
    // A null key says nothing about a partition; the task's own keeps the order and needs no chance.
    let partition = key.map_or(Partition(own.0 % partitions), |key| partition_for(key, partitions));
    Outgoing { topic, partition, key, value, timestamp: Some(timestamp), headers }
}

fn snapshot<'e>(snapshot: SnapshotRef<'e>, changelogs: &[TopicId], own: Partition) -> Outgoing<'e> {
    Outgoing {
        topic: changelogs[snapshot.store],
        partition: own,
        key: Some(snapshot.key),
        value: snapshot.value,
        timestamp: None,
        headers: HeadersRef::EMPTY,
    }
}

/// Adds the name of the topic, which only the layout knows in full.
fn send_letter<S: Sender + ?Sized>(
    producer: &mut S,
    letter: &DeadLetterRef<'_>,
    sources: &[String],
    (topic, partition): (TopicId, Partition),
) -> Result<(), BrokerError> {
    let mut headers = Headers::from(letter.headers);
    if let Some(source) = letter.source {
        headers.push(dead_letter::TOPIC, Some(sources[source].as_bytes()));
    }
    let (key, value, timestamp) = (letter.key, letter.value, letter.timestamp);
    producer.send(&[Outgoing { topic, partition, key, value, timestamp, headers: headers.as_ref() }])
}
