//! A broker seam that stops its whole process once, at a chosen point of a commit, like a machine that is suspended.

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flow_core::Offset;
use flow_kafka::broker::{
    Admin, Broker, BrokerError, CommitAnswer, Consumer, ConsumerSpec, Generation, Host, Next, OffsetCommit, Outgoing,
    Polled, Producer, ProducerSpec, Reader, Rebalance, Sender, Standing, TopicId, TopicPartition,
};

/// Where the process stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopAt {
    /// Before the transaction opens.
    Begin,
    /// Inside it: snapshots, outputs and offsets are there, the commit is not.
    Commit,
}

/// Wraps a broker.
pub(crate) struct Gate<B> {
    inner: B,
    state: Arc<Mutex<State>>,
}

struct State {
    stop_at: Option<StopAt>,
    /// Stop once this many records have been handed out.
    after: u64,
    records: u64,
    /// The membership as it was before the stop. A client that was suspended does not know better when it goes on; whether it
    /// learns of its loss before it commits is a race, and the test wants the broker's answer, not the race.
    seen: Option<Generation>,
    use_seen: bool,
}

impl<B> Gate<B> {
    pub(crate) fn new(inner: B, stop_at: StopAt, after: u64) -> Self {
        let state = State { stop_at: Some(stop_at), after, records: 0, seen: None, use_seen: false };
        Gate { inner, state: Arc::new(Mutex::new(state)) }
    }
}

impl State {
    fn stop_if(&mut self, at: StopAt) {
        if self.stop_at == Some(at) && self.records >= self.after {
            self.stop_at = None;
            self.use_seen = true;
            let pid = std::process::id().to_string();
            println!("STOPPING");
            let stopped = Command::new("kill").args(["-STOP", &pid]).stdin(Stdio::null()).status();
            // The signal reaches one thread, which then stops the others: on a busy machine this one would run on for a while.
            std::thread::sleep(Duration::from_secs(1));
            println!("RESUMED {stopped:?}");
        }
    }
}

impl<B: Broker> Broker for Gate<B> {
    fn consumer(&self, spec: &ConsumerSpec) -> Result<Box<dyn Consumer>, BrokerError> {
        let inner = self.inner.consumer(spec)?;
        Ok(Box::new(GatedConsumer { inner, state: Arc::clone(&self.state) }))
    }

    fn producer(&self, spec: &ProducerSpec) -> Result<Box<dyn Producer>, BrokerError> {
        let inner = self.inner.producer(spec)?;
        Ok(Box::new(GatedProducer { inner, state: Arc::clone(&self.state) }))
    }

    fn sender(&self, client_id: &str) -> Result<Box<dyn Sender>, BrokerError> {
        self.inner.sender(client_id)
    }

    fn reader(&self) -> Result<Box<dyn Reader>, BrokerError> {
        self.inner.reader()
    }

    fn admin(&self) -> Result<Box<dyn Admin>, BrokerError> {
        self.inner.admin()
    }

    fn host(&self) -> &dyn Host {
        self.inner.host()
    }
}

struct GatedConsumer {
    inner: Box<dyn Consumer>,
    state: Arc<Mutex<State>>,
}

impl Consumer for GatedConsumer {
    fn subscribe(&mut self, topics: &[String]) -> Result<(), BrokerError> {
        self.inner.subscribe(topics)
    }

    fn poll(
        &mut self,
        timeout: Duration,
        each: &mut dyn FnMut(&Polled<'_>) -> Next,
    ) -> Result<Option<Rebalance>, BrokerError> {
        if let Ok(generation) = self.inner.generation() {
            self.state.lock().unwrap().seen = Some(generation);
        }
        let state = &self.state;
        self.inner.poll(timeout, &mut |polled| {
            let next = each(polled);
            if next == Next::Continue {
                state.lock().unwrap().records += 1;
            }
            next
        })
    }

    fn acknowledge(&mut self, rebalance: &Rebalance) -> Result<(), BrokerError> {
        self.inner.acknowledge(rebalance)
    }

    fn start(&mut self, at: &[(TopicPartition, Offset)]) -> Result<(), BrokerError> {
        self.inner.start(at)
    }

    fn pause(&mut self, partitions: &[TopicPartition]) -> Result<(), BrokerError> {
        self.inner.pause(partitions)
    }

    fn resume(&mut self, partitions: &[TopicPartition]) -> Result<(), BrokerError> {
        self.inner.resume(partitions)
    }

    fn generation(&mut self) -> Result<Generation, BrokerError> {
        let mut state = self.state.lock().unwrap();
        if std::mem::take(&mut state.use_seen)
            && let Some(seen) = &state.seen
        {
            return Ok(seen.clone());
        }
        drop(state);
        self.inner.generation()
    }

    fn commit(&mut self, offsets: &[OffsetCommit], timeout: Duration) -> Result<Vec<CommitAnswer>, BrokerError> {
        self.inner.commit(offsets, timeout)
    }

    fn standing(&mut self, partition: &TopicPartition) -> Option<Standing> {
        self.inner.standing(partition)
    }

    fn close(self: Box<Self>) {
        self.inner.close();
    }
}

struct GatedProducer {
    inner: Box<dyn Producer>,
    state: Arc<Mutex<State>>,
}

impl Sender for GatedProducer {
    fn topic(&mut self, name: &str) -> Result<TopicId, BrokerError> {
        self.inner.topic(name)
    }

    fn send(&mut self, records: &[Outgoing<'_>]) -> Result<(), BrokerError> {
        self.inner.send(records)
    }

    fn flush(&mut self, timeout: Duration) -> Result<(), BrokerError> {
        self.inner.flush(timeout)
    }
}

impl Producer for GatedProducer {
    fn init(&mut self, timeout: Duration) -> Result<(), BrokerError> {
        self.inner.init(timeout)
    }

    fn begin(&mut self) -> Result<(), BrokerError> {
        self.state.lock().unwrap().stop_if(StopAt::Begin);
        self.inner.begin()
    }

    fn send_offsets(
        &mut self,
        offsets: &[OffsetCommit],
        generation: &Generation,
        timeout: Duration,
    ) -> Result<(), BrokerError> {
        let sent = self.inner.send_offsets(offsets, generation, timeout);
        if let Err(error) = &sent {
            println!("REFUSED {:?}", error.kind);
        }
        sent
    }

    fn commit(&mut self, timeout: Duration) -> Result<(), BrokerError> {
        self.state.lock().unwrap().stop_if(StopAt::Commit);
        let committed = self.inner.commit(timeout);
        if let Err(error) = &committed {
            println!("COMMIT {:?}", error.kind);
        }
        committed
    }

    fn abort(&mut self, timeout: Duration) -> Result<(), BrokerError> {
        self.inner.abort(timeout)
    }
}
