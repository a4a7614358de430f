//! The output: when each partition speaks, and whether every count is the next one of its key.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};

use super::{Options, PATIENCE, Pauses, Result, now, pause, thread};

/// Shorter pauses are the rhythm of commits.
const NOTED: Duration = Duration::from_millis(150);

pub(super) struct Watch {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    reader: JoinHandle<()>,
}

struct Seen {
    /// When each partition spoke last.
    last: Vec<Instant>,
    /// Times in which a partition was silent: which, from when, until when.
    silences: Vec<(usize, Instant, Instant)>,
    /// The last count of each key.
    counts: Vec<u64>,
    read: u64,
    /// Counts that were not the next one of their key.
    wrong: u64,
    failed: Option<String>,
}

impl Watch {
    pub(super) fn start(options: &Options) -> Result<Watch> {
        let mut config = options.client();
        config.set("group.id", format!("{}-watch", options.run)).set("enable.auto.commit", "false");
        config
            .set("isolation.level", "read_committed")
            .set("fetch.wait.max.ms", "10")
            .set("auto.offset.reset", "error");
        let consumer: BaseConsumer = config.create()?;
        let output = options.output();
        consumer.fetch_metadata(Some(&output), PATIENCE)?;
        let mut all = TopicPartitionList::new();
        for partition in 0..options.partitions {
            all.add_partition_offset(&output, partition, Offset::Offset(0))?;
        }
        consumer.assign(&all)?;
        drop(all);
        let seen = Arc::new(Mutex::new(Seen {
            last: vec![now(); options.partitions as usize],
            silences: Vec::new(),
            counts: vec![0; options.keys as usize],
            read: 0,
            wrong: 0,
            failed: None,
        }));
        let stop = Arc::new(AtomicBool::new(false));
        let (sight, stopped) = (Arc::clone(&seen), Arc::clone(&stop));
        let reader = thread(move || {
            while !stopped.load(Ordering::Relaxed) {
                let Some(polled) = consumer.poll(Duration::from_millis(20)) else { continue };
                let mut seen = sight.lock().unwrap_or_else(PoisonError::into_inner);
                match polled {
                    Ok(message) => seen.note(&message),
                    Err(KafkaError::MessageConsumption(
                        RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::AllBrokersDown,
                    )) => {}
                    Err(error) => {
                        seen.failed = Some(format!("the output could not be read: {error}"));
                        return;
                    }
                }
            }
        });
        Ok(Watch { seen, stop, reader })
    }

    fn look<T>(&self, look: impl FnOnce(&Seen) -> T) -> Result<T> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match &seen.failed {
            Some(failed) => Err(failed.clone().into()),
            None => Ok(look(&seen)),
        }
    }

    /// Waits until so many records were read.
    pub(super) fn await_records(&self, count: u64, limit: Duration) -> Result<()> {
        let start = now();
        while self.look(|seen| seen.read)? < count {
            if start.elapsed() > limit {
                let read = self.look(|seen| seen.read)?;
                return Err(format!("after {} s only {read} of {count} records came out", limit.as_secs()).into());
            }
            pause(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Waits until every partition has spoken after `after`, and all of them lately.
    pub(super) fn await_all(&self, after: Instant, limit: Duration) -> Result<()> {
        let start = now();
        let fresh = |last: &Instant| *last > after && last.elapsed() < Duration::from_secs(1);
        while !self.look(|seen| seen.last.iter().all(fresh))? {
            if start.elapsed() > limit {
                let silent: Vec<usize> = self.look(|seen| {
                    let silent = seen.last.iter().enumerate().filter(|(_, last)| !fresh(last));
                    silent.map(|(partition, _)| partition).collect()
                })?;
                return Err(format!("partitions {silent:?} are silent after {} s", limit.as_secs()).into());
            }
            pause(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The pauses that reach into the time since `from`; those longer than `long` are of partitions that lost their owner.
    pub(super) fn pauses(&self, from: Instant, long: Duration) -> Result<Pauses> {
        self.look(|seen| {
            let mut longest = vec![Duration::ZERO; seen.last.len()];
            for (partition, begin, end) in seen.silences.iter().filter(|(_, _, end)| *end > from) {
                longest[*partition] = longest[*partition].max(*end - *begin);
            }
            let (affected, others): (Vec<Duration>, Vec<Duration>) = longest.into_iter().partition(|time| *time > long);
            let max = |times: &[Duration]| times.iter().max().map_or(0, |time| time.as_millis() as u64);
            Pauses { affected: affected.len(), affected_ms: max(&affected), others_ms: max(&others) }
        })
    }

    /// Stops; how many records were read, how many of them were wrong, and the last count of each key.
    pub(super) fn end(self) -> Result<(u64, u64, Vec<u64>)> {
        self.stop.store(true, Ordering::Relaxed);
        self.reader.join().map_err(|_| "the reading thread panicked")?;
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        Ok((seen.read, seen.wrong, seen.counts.clone()))
    }
}

impl Seen {
    fn note(&mut self, message: &impl Message) {
        let (at, partition) = (now(), message.partition() as usize);
        let silent = at - self.last[partition];
        if silent > NOTED {
            self.silences.push((partition, self.last[partition], at));
        }
        self.last[partition] = at;
        self.read += 1;
        let number =
            message.key().and_then(|key| std::str::from_utf8(key).ok()?.strip_prefix("key-")?.parse::<usize>().ok());
        let count = message.payload().and_then(|value| std::str::from_utf8(value).ok()?.parse::<u64>().ok());
        match (number.and_then(|number| self.counts.get_mut(number)), count) {
            (Some(last), Some(count)) if count == *last + 1 => *last = count,
            _ => self.wrong += 1,
        }
    }
}
