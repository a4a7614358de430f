//! A scripted broker for unit tests: it answers each call with the next planned error, or does it, and writes down what it did.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flow_core::{HeadersRef, Offset, RecordRef, Timestamp};

use crate::broker::{
    Admin, Broker, BrokerError, CommitAnswer, Committed, Consumer, ConsumerSpec, ErrorKind, Generation, Host, Joiner,
    NewTopic, Next, OffsetCommit, Outgoing, Polled, Producer, ProducerSpec, Reader, Rebalance, Sender, Standing,
    TopicId, TopicInfo, TopicPartition, Watermarks,
};

/// What the fake has seen and will answer. Shared by all its clients.
#[derive(Default)]
pub(crate) struct Script {
    /// Errors to come, by the name of the call; a call without one succeeds.
    errors: BTreeMap<&'static str, VecDeque<ErrorKind>>,
    /// Every call in order.
    pub(crate) calls: Vec<String>,
    /// The offsets of the last `send_offsets`.
    pub(crate) offsets: Vec<OffsetCommit>,
    /// What a consumer's polls bring: rebalances first.
    pub(crate) rebalances: VecDeque<Rebalance>,
    pub(crate) records: VecDeque<(TopicPartition, i64)>,
    /// What the next commit outside of a transaction answers, if it is not what was asked for.
    pub(crate) answers: Option<Vec<CommitAnswer>>,
    /// What a stable fetch answers.
    pub(crate) committed: Option<Committed>,
    /// The member that the consumer is; `m` if it is empty.
    pub(crate) member: String,
    /// The members of the group.
    pub(crate) members: Vec<String>,
    /// The end of every partition that is asked for; nothing of it can be read.
    pub(crate) high: i64,
    /// When nobody answers questions for watermarks.
    pub(crate) away: Range<Duration>,
    /// Where the consumer is in every partition that is asked for.
    pub(crate) standing: Option<Standing>,
    /// Topics that exist.
    pub(crate) topics: BTreeMap<String, TopicInfo>,
    ids: u64,
    clock: Duration,
}

impl Script {
    fn answer(&mut self, call: &'static str, what: String) -> Result<(), BrokerError> {
        self.calls.push(if what.is_empty() { call.to_owned() } else { format!("{call} {what}") });
        match self.errors.get_mut(call).and_then(VecDeque::pop_front) {
            // A call that does not end takes its time.
            Some(kind) => {
                self.clock += Duration::from_secs(1);
                Err(BrokerError::new(kind, format!("planned {kind:?}")))
            }
            None => Ok(()),
        }
    }
}

/// See the module.
#[derive(Clone, Default)]
pub(crate) struct Fake(Arc<Mutex<Script>>);

impl Fake {
    /// The next call of this name fails with this.
    pub(crate) fn plan(&self, call: &'static str, kinds: &[ErrorKind]) {
        self.script(|s| s.errors.entry(call).or_default().extend(kinds));
    }

    pub(crate) fn script<T>(&self, look: impl FnOnce(&mut Script) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    /// The calls so far; forgets them.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.script(|s| std::mem::take(&mut s.calls))
    }

    fn answer(&self, call: &'static str, what: impl Into<String>) -> Result<(), BrokerError> {
        self.script(|s| s.answer(call, what.into()))
    }
}

impl Broker for Fake {
    fn consumer(&self, _: &ConsumerSpec) -> Result<Box<dyn Consumer>, BrokerError> {
        Ok(Box::new(self.clone()))
    }

    fn producer(&self, spec: &ProducerSpec) -> Result<Box<dyn Producer>, BrokerError> {
        self.answer("producer", if spec.client_id == "w" { "" } else { &spec.transactional_id })?;
        Ok(Box::new(self.clone()))
    }

    fn sender(&self, _: &str) -> Result<Box<dyn Sender>, BrokerError> {
        self.answer("sender", "")?;
        Ok(Box::new(Outside(self.clone())))
    }

    fn reader(&self) -> Result<Box<dyn Reader>, BrokerError> {
        Ok(Box::new(self.clone()))
    }

    fn admin(&self) -> Result<Box<dyn Admin>, BrokerError> {
        Ok(Box::new(self.clone()))
    }

    fn host(&self) -> &dyn Host {
        self
    }
}

impl Host for Fake {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.elapsed().as_millis() as i64)
    }

    fn elapsed(&self) -> Duration {
        self.script(|s| s.clock)
    }

    fn sleep(&self, time: Duration) {
        self.script(|s| s.clock += time);
    }

    /// Runs it at once, on the caller's thread.
    fn spawn(&self, name: &str, run: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Joiner>, BrokerError> {
        self.answer("spawn", name)?;
        run();
        Ok(Box::new(Ended))
    }

    fn unique(&self) -> u64 {
        self.script(|s| {
            s.ids += 1;
            s.ids
        })
    }
}

struct Ended;

impl Joiner for Ended {
    fn join(self: Box<Self>) -> Result<(), String> {
        Ok(())
    }

    fn is_finished(&self) -> bool {
        true
    }
}

impl Consumer for Fake {
    fn subscribe(&mut self, _: &[String]) -> Result<(), BrokerError> {
        Ok(())
    }

    fn poll(
        &mut self,
        _: Duration,
        each: &mut dyn FnMut(&Polled<'_>) -> Next,
    ) -> Result<Option<Rebalance>, BrokerError> {
        if let Some(rebalance) = self.script(|s| s.rebalances.pop_front()) {
            return Ok(Some(rebalance));
        }
        while let Some((at, offset)) = self.script(|s| s.records.pop_front()) {
            let headers = HeadersRef::EMPTY;
            let record = RecordRef { key: None, value: Some(b"v"), timestamp: None, offset: Offset(offset), headers };
            if each(&Polled { topic: &at.topic, partition: at.partition, record }) == Next::Stop {
                self.script(|s| s.records.push_front((at, offset)));
                break;
            }
        }
        Ok(None)
    }

    fn acknowledge(&mut self, _: &Rebalance) -> Result<(), BrokerError> {
        Ok(())
    }

    fn start(&mut self, _: &[(TopicPartition, Offset)]) -> Result<(), BrokerError> {
        Ok(())
    }

    fn pause(&mut self, _: &[TopicPartition]) -> Result<(), BrokerError> {
        Ok(())
    }

    fn resume(&mut self, _: &[TopicPartition]) -> Result<(), BrokerError> {
        Ok(())
    }

    fn generation(&mut self) -> Result<Generation, BrokerError> {
        self.answer("generation", "")?;
        let member = self.script(|s| if s.member.is_empty() { "m".to_owned() } else { s.member.clone() });
        Ok(Generation { group: "app".into(), id: 1, member, instance: None })
    }

    fn commit(&mut self, offsets: &[OffsetCommit], _: Duration) -> Result<Vec<CommitAnswer>, BrokerError> {
        let at: Vec<String> = offsets.iter().map(|o| format!("{}@{}", o.partition, o.offset.0)).collect();
        self.answer("commit offsets", at.join(" "))?;
        let good = |o: &OffsetCommit| CommitAnswer { partition: o.partition.clone(), offset: o.offset, error: None };
        Ok(self.script(|s| s.answers.take()).unwrap_or_else(|| offsets.iter().map(good).collect()))
    }

    fn standing(&mut self, _: &TopicPartition) -> Option<Standing> {
        self.script(|s| s.standing)
    }

    fn close(self: Box<Self>) {}
}

impl Sender for Fake {
    fn topic(&mut self, _: &str) -> Result<TopicId, BrokerError> {
        Ok(TopicId(0))
    }

    fn send(&mut self, records: &[Outgoing<'_>]) -> Result<(), BrokerError> {
        self.answer("send", records.len().to_string())
    }

    fn flush(&mut self, _: Duration) -> Result<(), BrokerError> {
        self.answer("flush", "")
    }
}

/// The fake as a producer without transactions.
struct Outside(Fake);

impl Sender for Outside {
    fn topic(&mut self, _: &str) -> Result<TopicId, BrokerError> {
        Ok(TopicId(0))
    }

    fn send(&mut self, records: &[Outgoing<'_>]) -> Result<(), BrokerError> {
        self.0.answer("send outside", records.len().to_string())
    }

    fn flush(&mut self, _: Duration) -> Result<(), BrokerError> {
        self.0.answer("flush outside", "")
    }
}

impl Producer for Fake {
    fn init(&mut self, _: Duration) -> Result<(), BrokerError> {
        self.answer("init", "")
    }

    fn begin(&mut self) -> Result<(), BrokerError> {
        self.answer("begin", "")
    }

    fn send_offsets(&mut self, offsets: &[OffsetCommit], _: &Generation, _: Duration) -> Result<(), BrokerError> {
        assert!(!offsets.is_empty(), "an empty list fences nobody");
        self.script(|s| s.offsets = offsets.to_vec());
        let at: Vec<String> = offsets.iter().map(|o| o.offset.0.to_string()).collect();
        self.answer("send_offsets", at.join(","))
    }

    fn commit(&mut self, _: Duration) -> Result<(), BrokerError> {
        self.answer("commit", "")
    }

    fn abort(&mut self, _: Duration) -> Result<(), BrokerError> {
        self.answer("abort", "")
    }
}

impl Reader for Fake {
    fn committed(
        &mut self,
        _: &str,
        of: &[TopicPartition],
        _: Duration,
    ) -> Result<Vec<Option<Committed>>, BrokerError> {
        self.answer("committed", "")?;
        Ok(vec![self.script(|s| s.committed.clone()); of.len()])
    }

    fn last_committed(
        &mut self,
        _: &str,
        of: &[TopicPartition],
        _: Duration,
    ) -> Result<Vec<Option<Committed>>, BrokerError> {
        self.answer("last_committed", "")?;
        Ok(vec![self.script(|s| s.committed.clone()); of.len()])
    }

    fn members(&mut self, _: &str, _: Duration) -> Result<Vec<String>, BrokerError> {
        self.answer("members", "")?;
        Ok(self.script(|s| s.members.clone()))
    }

    fn watermarks(&mut self, of: &[TopicPartition], _: Duration) -> Result<Vec<Watermarks>, BrokerError> {
        if self.script(|s| s.away.contains(&s.clock)) {
            self.sleep(Duration::from_secs(1));
            return Err(BrokerError::new(ErrorKind::Retriable, "nobody answers"));
        }
        Ok(vec![Watermarks { low: Offset(0), high: Offset(self.script(|s| s.high)) }; of.len()])
    }

    fn assign(&mut self, _: &[(TopicPartition, Offset)]) -> Result<(), BrokerError> {
        Ok(())
    }

    fn poll(&mut self, timeout: Duration, _: &mut dyn FnMut(&Polled<'_>)) -> Result<(), BrokerError> {
        self.sleep(timeout);
        Ok(())
    }

    fn position(&mut self, _: &TopicPartition) -> Result<Option<Offset>, BrokerError> {
        Ok(None)
    }
}

impl Admin for Fake {
    fn topics(&mut self, names: &[String], _: Duration) -> Result<Vec<Option<TopicInfo>>, BrokerError> {
        self.answer("topics", "")?;
        Ok(self.script(|s| names.iter().map(|name| s.topics.get(name).cloned()).collect()))
    }

    fn create(&mut self, topics: &[NewTopic], _: Duration) -> Result<(), BrokerError> {
        for topic in topics {
            self.answer("create", format!("{} {} {:?}", topic.name, topic.partitions, topic.config))?;
            let policy = topic.config.iter().find(|(key, _)| key == "cleanup.policy").map(|(_, value)| value.clone());
            let info = TopicInfo { partitions: topic.partitions, cleanup_policy: policy };
            self.script(|s| s.topics.insert(topic.name.clone(), info));
        }
        Ok(())
    }

    fn delete_records(&mut self, below: &[(TopicPartition, Offset)], _: Duration) -> Result<(), BrokerError> {
        let below: Vec<String> = below.iter().map(|(of, offset)| format!("{of}<{offset}")).collect();
        self.answer("delete_records", below.join(" "))
    }
}
