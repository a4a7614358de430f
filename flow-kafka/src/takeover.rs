//! Takeover: ends the transaction that a dead owner left open, so that its successor need not wait until the broker gives it up.
//!
//! While that transaction is open no stable fetch tells the partition's offset, and no reader of committed records sees past what
//! it wrote. The note beside the last committed offset names its owner's transactional id and member id. If that member is no
//! longer in the group, initialising a producer with the same id makes the broker abort what it left open (in half a second to a
//! second, where the timeout takes up to ten seconds more than `transaction.timeout.ms`).
//!
//! Why this harms nobody: `crate::commit` uses an id in one membership only, and takes a new one when its member id changes. The
//! broker refuses the offsets of a member that it does not know, so whoever still holds such an id could not have committed.
//! In doubt (a group that cannot be described, an owner that is a member, an offset without a note) nothing is done, and the
//! recovery waits for the broker's timeout. Nothing but time hangs on it.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::broker::{Broker, BrokerError, ErrorKind, ProducerSpec, Reader, TopicPartition};
use crate::offsets::Note;

/// The pause between two looks: each costs a request or two.
const PAUSE: Duration = Duration::from_millis(300);
const TIMEOUT: Duration = Duration::from_secs(5);

/// The takeovers of one recovery.
pub(crate) struct Takeover<'a> {
    broker: &'a dyn Broker,
    group: &'a str,
    /// Ids that were initialised, or may not be.
    done: BTreeSet<String>,
    /// When to look again.
    next: Duration,
}

impl<'a> Takeover<'a> {
    pub(crate) fn new(broker: &'a dyn Broker, group: &'a str) -> Self {
        Takeover { broker, group, done: BTreeSet::new(), next: Duration::ZERO }
    }

    /// The offsets of these tasks (each with its input partitions) wait for an open transaction: ends it where its owner is gone.
    pub(crate) fn free_offsets(&mut self, reader: &mut dyn Reader, tasks: &[Vec<TopicPartition>]) {
        if !self.is_due() {
            return;
        }
        for inputs in tasks {
            let note = reader.last_committed(self.group, inputs, TIMEOUT).map(|found| {
                found.into_iter().flatten().filter_map(|c| Note::decode(&c.metadata).ok()).max_by_key(|n| n.commit)
            });
            match note {
                Ok(Some(note)) => self.end(reader, &note, &inputs[0]),
                Ok(None) => {}
                Err(error) => log::debug!("who owned {} last is not known: {error}", inputs[0]),
            }
        }
    }

    /// Snapshots cannot be read to their end: ends the transaction that holds them back, if the one who committed last is gone.
    pub(crate) fn free_snapshots<'n>(
        &mut self,
        reader: &mut dyn Reader,
        tasks: impl Iterator<Item = (&'n Note, TopicPartition)>,
    ) {
        if !self.is_due() {
            return;
        }
        for (note, input) in tasks {
            self.end(reader, note, &input);
        }
    }

    fn is_due(&mut self) -> bool {
        let now = self.broker.host().elapsed();
        let due = now >= self.next;
        if due {
            self.next = now + PAUSE;
        }
        due
    }

    fn end(&mut self, reader: &mut dyn Reader, last: &Note, of: &TopicPartition) {
        let (id, member) = (&last.transactional_id, &last.member);
        if id.is_empty() || member.is_empty() || self.done.contains(id) {
            return;
        }
        match reader.members(self.group, TIMEOUT) {
            // We are a member ourselves, so a group without any is not the one we are in.
            Ok(members) if members.is_empty() || members.contains(member) => return,
            Ok(_) => {}
            Err(error) => {
                log::debug!("who is in group {} is not known: {error}", self.group);
                return;
            }
        }
        let host = self.broker.host();
        let start = host.elapsed();
        match self.initialise(id) {
            Ok(()) => {
                log::info!(
                    "takeover of {of}: the transaction that {id} left open is ended (its member {member} is gone), in {} ms",
                    host.elapsed().saturating_sub(start).as_millis()
                );
                self.done.insert(id.clone());
            }
            Err(error) if error.kind == ErrorKind::Retriable => {
                log::debug!("takeover of {of}: {id} cannot be initialised yet: {error}");
            }
            Err(error) => {
                log::warn!("takeover of {of}: what {id} left open must time out, since it cannot be ended: {error}");
                self.done.insert(id.clone());
            }
        }
    }

    fn initialise(&self, id: &str) -> Result<(), BrokerError> {
        let spec = ProducerSpec { transactional_id: id.to_owned(), client_id: format!("takeover-of-{id}") };
        self.broker.producer(&spec)?.init(TIMEOUT)
    }
}
