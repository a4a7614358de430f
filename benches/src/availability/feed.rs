//! The input: every key once, then a steady rate of random keys until it is told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use flow_core::partition_for;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};

use super::{Options, PATIENCE, Result, key, now, pause, thread};

/// How often records are sent, per second.
const BEATS: u32 = 100;

pub(super) struct Feed {
    stop: Arc<AtomicBool>,
    sender: JoinHandle<std::result::Result<Vec<u64>, String>>,
}

struct Sender {
    producer: ThreadedProducer<DefaultProducerContext>,
    topic: String,
    partitions: i32,
    /// Records sent of each key.
    sent: Vec<u64>,
}

impl Feed {
    /// Sends every key once, then begins the steady rate.
    pub(super) fn start(options: &Options) -> Result<Feed> {
        let mut config = options.client();
        config.set("enable.idempotence", "true").set("linger.ms", "5").set("queue.buffering.max.messages", "500000");
        let mut sender = Sender {
            producer: config.create()?,
            topic: options.input(),
            partitions: options.partitions,
            sent: vec![0; options.keys as usize],
        };
        (0..options.keys).try_for_each(|number| sender.send(number))?;
        sender.producer.flush(PATIENCE)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, rate, mut random) = (Arc::clone(&stop), options.rate, Random(options.seed));
        let sender = thread(move || {
            let (start, mut beat) = (now(), 0);
            while !stopped.load(Ordering::Relaxed) {
                beat += 1;
                let keys = sender.sent.len() as u64;
                // Any seed gives the same sequence of keys; how many of them are sent depends on the time.
                (0..rate.div_ceil(BEATS)).try_for_each(|_| sender.send(random.below(keys) as u32))?;
                pause((Duration::from_secs(1) * beat / BEATS).saturating_sub(start.elapsed()));
            }
            sender.producer.flush(PATIENCE).map_err(|error| format!("the input was not acknowledged: {error}"))?;
            Ok(sender.sent)
        });
        Ok(Feed { stop, sender })
    }

    /// Stops; how many records of each key were sent.
    pub(super) fn end(self) -> Result<Vec<u64>> {
        self.stop.store(true, Ordering::Relaxed);
        Ok(self.sender.join().map_err(|_| "the feeding thread panicked")??)
    }
}

impl Sender {
    fn send(&mut self, number: u32) -> std::result::Result<(), String> {
        let (key, value) = (key(number), number.to_string());
        let partition = partition_for(key.as_bytes(), self.partitions).0;
        let mut record = BaseRecord::to(&self.topic).partition(partition).key(&key).payload(&value);
        while let Err((error, back)) = self.producer.send(record) {
            if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                return Err(format!("the input could not be written: {error}"));
            }
            pause(Duration::from_millis(5));
            record = back;
        }
        self.sent[number as usize] += 1;
        Ok(())
    }
}

/// SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit.max(1)
    }
}
