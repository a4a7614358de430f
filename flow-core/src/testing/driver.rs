use std::borrow::ToOwned;
use std::collections::{BTreeMap, HashMap, VecDeque};

use super::memory::{Action, Committed, Running, decode, expect};
use super::{Input, TestRecord};
use crate::codec::Codec;
use crate::{
    Offset, Partition, Policies, Policy, Task, TaskCounters, TaskError, TaskOptions, Timestamp, Topic, Topology,
    partition_for,
};

/// Stands for the topic of dead letters, which a topology does not name. No topic's name is empty.
const DEAD_LETTERS: &str = "";

/// Runs a whole topology in a test: several partitions, no broker, and the test owns both clocks.
///
/// Each record is processed to its end at once, then what it sent to repartition topics, in order, and theirs. Nothing commits by
/// itself: [`TestDriver::commit`] does, and [`TestDriver::restart`]; what came after it is lost, and processed again, by
/// [`TestDriver::crash`]. A reader sees what a `read_committed` consumer of a never-failing process would see.
///
/// ```
/// use flow_core::testing::TestDriver;
/// use flow_core::{Timestamp, Topic, TopologyBuilder};
///
/// const CLICKS: Topic<str, u64> = Topic::new("clicks");
/// const COUNTS: Topic<str, u64> = Topic::new("counts");
///
/// let topology = TopologyBuilder::new();
/// topology.stream(CLICKS).count("counts").changes().to(COUNTS);
/// let mut driver = TestDriver::new(topology.build()?);
///
/// driver.send(CLICKS, Timestamp::from_millis(0), "ann", &1);
/// let mut driver = driver.restart(); // through the snapshots, as a takeover would
/// driver.send(CLICKS, Timestamp::from_millis(1), "ann", &1);
/// let mut driver = driver.crash(); // the second click was not committed: it is processed again
/// assert_eq!(driver.read(COUNTS), [("ann".to_owned(), 1), ("ann".to_owned(), 2)]);
/// # Ok::<(), flow_core::TopologyError>(())
/// ```
pub struct TestDriver {
    topology: Topology,
    options: TaskOptions,
    partitions: i32,
    /// Per sub-topology and partition.
    tasks: Vec<Vec<Running>>,
    /// What would be in the topics that the topology reads: by topic and partition.
    log: BTreeMap<(String, i32), Vec<Input>>,
    outputs: Vec<(String, TestRecord)>,
    read: HashMap<String, usize>,
    /// What was done from outside, in order; that since the last commit is done again after a crash.
    actions: Vec<Action>,
    committed: Committed,
}

impl TestDriver {
    /// A driver with one partition, where every failure stops.
    pub fn new(topology: Topology) -> Self {
        TestDriver::with(topology, 1, TaskOptions::default())
    }

    /// A driver with so many partitions of every topic, and these options.
    pub fn with(topology: Topology, partitions: i32, options: TaskOptions) -> Self {
        let mut driver = TestDriver {
            topology,
            options,
            partitions: partitions.max(1),
            tasks: Vec::new(),
            log: BTreeMap::new(),
            outputs: Vec::new(),
            read: HashMap::new(),
            actions: Vec::new(),
            committed: Committed::default(),
        };
        driver.tasks = driver.empty_tasks();
        driver
    }

    /// A driver with one partition, where whatever can be skipped is.
    pub fn skipping(topology: Topology) -> Self {
        let policies = Policies { decode: Policy::Skip, step: Policy::Skip, produce: Policy::Skip };
        TestDriver::with(topology, 1, TaskOptions { policies, ..TaskOptions::default() })
    }

    /// Sends a record to the partition of its key, and processes it.
    ///
    /// # Panics
    /// When the topology does not read the topic, or the record fails under a policy that stops.
    #[track_caller]
    pub fn send<K: ?Sized, V: ?Sized, KC: Codec<K>, VC: Codec<V>>(
        &mut self,
        topic: Topic<K, V, KC, VC>,
        at: Timestamp,
        key: &K,
        value: &V,
    ) {
        expect(self.try_send(topic, at, key, value));
    }

    /// [`TestDriver::send`], with the failure of a policy that stops as an error.
    ///
    /// # Errors
    /// When the record fails under a policy that stops. A real application would stop there.
    ///
    /// # Panics
    /// When the topology does not read the topic.
    #[track_caller]
    pub fn try_send<K: ?Sized, V: ?Sized, KC: Codec<K>, VC: Codec<V>>(
        &mut self,
        topic: Topic<K, V, KC, VC>,
        at: Timestamp,
        key: &K,
        value: &V,
    ) -> Result<(), TaskError> {
        self.try_send_record(topic.name(), Input::of(topic, key, value).at(at))
    }

    /// Sends a record byte by byte, and processes it.
    ///
    /// # Panics
    /// When the topology does not read the topic, or the record fails under a policy that stops.
    #[track_caller]
    pub fn send_record(&mut self, topic: &str, record: Input) {
        expect(self.try_send_record(topic, record));
    }

    /// [`TestDriver::send_record`], with the failure of a policy that stops as an error.
    ///
    /// # Errors
    /// When the record fails under a policy that stops. A real application would stop there.
    ///
    /// # Panics
    /// When the topology does not read the topic.
    #[track_caller]
    pub fn try_send_record(&mut self, topic: &str, record: Input) -> Result<(), TaskError> {
        if !self.reads(topic) {
            let subs = self.topology.sub_topologies();
            let read: Vec<String> =
                subs.iter().flat_map(|sub| sub.sources()).map(|source| source.topic.to_string()).collect();
            panic!("the topology does not read the topic `{topic}`; it reads {}", read.join(", "));
        }
        let (partition, offset) = self.append(topic, record);
        self.act(Action::Record { topic: topic.to_owned(), partition, offset })
    }

    /// Moves event time: the clock of every step in every partition moves to `to`, and due timers fire. (In production only records
    /// move event time.)
    ///
    /// # Panics
    /// When a timer fails under a policy that stops.
    #[track_caller]
    pub fn advance_to(&mut self, to: Timestamp) {
        expect(self.act(Action::EventTime(to)));
    }

    /// Moves the wall clock to `to`, and due wall-clock timers fire.
    ///
    /// # Panics
    /// When a timer fails under a policy that stops.
    #[track_caller]
    pub fn advance_wall_clock(&mut self, to: Timestamp) {
        expect(self.act(Action::WallClock(to)));
    }

    /// What was written to a topic since it was last read, decoded, in the order of writing.
    ///
    /// # Panics
    /// When the topology does not write the topic, or a record cannot be decoded (a null, for instance: see
    /// [`TestDriver::read_records`]).
    #[track_caller]
    pub fn read<K, V, KC, VC>(&mut self, topic: Topic<K, V, KC, VC>) -> Vec<(K::Owned, V::Owned)>
    where
        K: ToOwned + ?Sized,
        V: ToOwned + ?Sized,
        KC: Codec<K>,
        VC: Codec<V>,
    {
        let records = self.read_records(topic.name());
        let decode = |record: &TestRecord| {
            (decode::<K, KC>("key", record.key.as_deref()), decode::<V, VC>("value", record.value.as_deref()))
        };
        records.iter().map(decode).collect()
    }

    /// [`TestDriver::read`] without the keys.
    ///
    /// # Panics
    /// When the topology does not write the topic, or a value cannot be decoded.
    #[track_caller]
    pub fn read_values<K, V, KC, VC>(&mut self, topic: Topic<K, V, KC, VC>) -> Vec<V::Owned>
    where
        K: ?Sized,
        V: ToOwned + ?Sized,
        VC: Codec<V>,
    {
        let records = self.read_records(topic.name());
        records.iter().map(|record| decode::<V, VC>("value", record.value.as_deref())).collect()
    }

    /// What was written to a topic since it was last read, as bytes, in the order of writing.
    ///
    /// # Panics
    /// When the topology does not write the topic.
    #[track_caller]
    pub fn read_records(&mut self, topic: &str) -> Vec<TestRecord> {
        let subs = self.topology.sub_topologies();
        let mut sinks = subs.iter().flat_map(|sub| sub.sinks()).map(|sink| sink.topic.to_string());
        if !sinks.any(|written| written == topic) {
            let written: Vec<String> =
                subs.iter().flat_map(|sub| sub.sinks()).map(|sink| sink.topic.to_string()).collect();
            panic!("the topology does not write the topic `{topic}`; it writes {}", written.join(", "));
        }
        self.unread(topic)
    }

    /// The dead letters since they were last read, of all partitions, in the order of their failures. One whose record has no
    /// timestamp that a broker takes carries the driver's wall clock, as it would a real client's.
    ///
    /// ```
    /// use flow_core::testing::{Input, TestDriver};
    /// use flow_core::{Policies, Policy, TaskOptions, Topic, TopologyBuilder, dead_letter};
    ///
    /// const CLICKS: Topic<str, u64> = Topic::new("clicks");
    ///
    /// let topology = TopologyBuilder::new();
    /// topology.stream(CLICKS).count("counts");
    /// let policies = Policies { decode: Policy::DeadLetter, ..Policies::default() };
    /// let mut driver = TestDriver::with(topology.build()?, 1, TaskOptions { policies, ..TaskOptions::default() });
    ///
    /// driver.send_record("clicks", Input::new().key("ann").value("one"));
    /// let letters = driver.read_dead_letters();
    /// assert_eq!(letters[0].value.as_deref(), Some(&b"one"[..]));
    /// assert_eq!(letters[0].headers().last(dead_letter::EXCEPTION), Some(&b"decode failure"[..]));
    /// # Ok::<(), flow_core::TopologyError>(())
    /// ```
    pub fn read_dead_letters(&mut self) -> Vec<TestRecord> {
        self.unread(DEAD_LETTERS)
    }

    fn unread(&mut self, topic: &str) -> Vec<TestRecord> {
        let written = self.outputs.iter().filter(|(name, _)| name == topic).map(|(_, record)| record);
        let read = self.read.entry(topic.to_owned()).or_default();
        let new: Vec<TestRecord> = written.skip(*read).cloned().collect();
        *read += new.len();
        new
    }

    /// Commits: snapshots, clocks, outputs and offsets of all tasks.
    ///
    /// # Panics
    /// When a state cannot be written.
    #[track_caller]
    pub fn commit(&mut self) {
        self.committed.clocks.clear();
        for (sub, tasks) in self.tasks.iter_mut().enumerate() {
            for (partition, running) in (0..).zip(tasks) {
                expect(running.task.prepare_commit());
                let effects = running.task.effects();
                for snapshot in (0..effects.snapshots_len()).map(|i| effects.snapshot(i)) {
                    let entry = (sub, partition, snapshot.store, snapshot.key.to_vec());
                    match snapshot.value {
                        Some(value) => self.committed.snapshots.insert(entry, value.to_vec()),
                        None => self.committed.snapshots.remove(&entry),
                    };
                }
                let clocks = running.task.clocks().map(|(store, clock)| (sub, partition, store.to_owned(), clock));
                self.committed.clocks.extend(clocks);
                running.task.committed();
                running.taken = 0;
                running.letters_taken = 0;
            }
        }
        self.committed.outputs = self.outputs.len();
        self.committed.actions = self.actions.len();
        self.committed.written = self.log.iter().map(|(key, log)| (key.clone(), log.len())).collect();
        self.committed.wall = self.wall();
    }

    /// Commits, and goes on with new tasks that start from the snapshots, as a takeover does.
    ///
    /// # Panics
    /// When a state cannot be written or restored.
    #[track_caller]
    #[must_use = "the driver goes on as the one returned"]
    pub fn restart(mut self) -> Self {
        self.commit();
        self.restore();
        self
    }

    /// Loses all that was not committed, starts from the snapshots, and does again what was done since.
    ///
    /// # Panics
    /// When a state cannot be restored, or a record fails under a policy that stops.
    #[track_caller]
    #[must_use = "the driver goes on as the one returned"]
    pub fn crash(mut self) -> Self {
        self.outputs.truncate(self.committed.outputs);
        let written: Vec<String> = self.written_topics();
        for (key, log) in &mut self.log {
            if written.contains(&key.0) {
                log.truncate(self.committed.written.get(key).copied().unwrap_or(0));
            }
        }
        self.restore();
        let again = self.actions.split_off(self.committed.actions);
        again.into_iter().for_each(|action| expect(self.act(action)));
        self
    }

    /// Sets the offsets of all topics that were sent to back to `offset`, in every partition, and processes those records again, on
    /// the states and clocks as they are: as after a reset of the group's offsets.
    ///
    /// # Panics
    /// When a record fails under a policy that stops.
    #[track_caller]
    pub fn rewind(&mut self, offset: Offset) {
        let from = usize::try_from(offset.0).unwrap_or(0);
        let is_again = |action: &&Action| matches!(action, Action::Record { offset, .. } if *offset >= from);
        let mut seen = std::collections::HashSet::new();
        let again: Vec<Action> = self.actions.iter().filter(is_again).cloned().collect();
        for action in again {
            if let Action::Record { topic, partition, offset } = &action
                && seen.insert((topic.clone(), *partition, *offset))
            {
                expect(self.act(action));
            }
        }
    }

    /// What all tasks have counted since they were made.
    pub fn counters(&self) -> TaskCounters {
        let mut sum = TaskCounters::default();
        for counters in self.tasks.iter().flatten().map(|running| running.task.counters()) {
            sum.processed += counters.processed;
            sum.skipped.add(&counters.skipped);
            sum.dead_lettered.add(&counters.dead_lettered);
            sum.dropped_null_key += counters.dropped_null_key;
            sum.timers_fired += counters.timers_fired;
            sum.outputs += counters.outputs;
        }
        sum
    }

    /// The committed snapshots of a store: entries and their envelopes, by partition and entry.
    pub fn snapshots(&self, store: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
        let named = |sub: usize, index: usize| {
            let stores = self.topology.sub_topologies().get(sub).map(|sub| sub.stores());
            stores.and_then(|stores| stores.get(index)).is_some_and(|info| info.name == store)
        };
        let entries = self.committed.snapshots.iter().filter(|((sub, _, index, _), _)| named(*sub, *index));
        entries.map(|((.., entry), value)| (entry.clone(), value.clone())).collect()
    }

    fn empty_tasks(&self) -> Vec<Vec<Running>> {
        let subs = self.topology.sub_topologies().iter();
        let task = |sub: &crate::SubTopology, partition| Running {
            task: sub.task(Partition(partition), &self.options),
            taken: 0,
            letters_taken: 0,
        };
        subs.map(|sub| (0..self.partitions).map(|partition| task(sub, partition)).collect()).collect()
    }

    fn restore(&mut self) {
        self.tasks = self.empty_tasks();
        for ((sub, partition, store, entry), value) in &self.committed.snapshots {
            let task = &mut self.tasks[*sub][*partition as usize].task;
            expect(task.restore(*store, entry, Some(value)));
        }
        for (sub, partition, store, clock) in &self.committed.clocks {
            self.tasks[*sub][*partition as usize].task.restore_clock(store, *clock);
        }
        if let Some(now) = self.committed.wall {
            // What the wall clock has passed while nobody ran fires now.
            self.tasks.iter_mut().flatten().for_each(|running| expect(running.task.advance(now)));
            self.drain();
        }
    }

    fn wall(&self) -> Option<Timestamp> {
        self.actions.iter().rev().find_map(|action| match action {
            Action::WallClock(now) => Some(*now),
            _ => None,
        })
    }

    fn reads(&self, topic: &str) -> bool {
        let subs = self.topology.sub_topologies();
        subs.iter().flat_map(|sub| sub.sources()).any(|source| source.topic.to_string() == topic)
    }

    fn written_topics(&self) -> Vec<String> {
        let subs = self.topology.sub_topologies();
        subs.iter().flat_map(|sub| sub.sinks()).map(|sink| sink.topic.to_string()).collect()
    }

    fn append(&mut self, topic: &str, record: Input) -> (i32, usize) {
        let by_key = || record.key.as_ref().map_or(Partition(0), |key| partition_for(key, self.partitions));
        let partition = record.partition.unwrap_or_else(by_key).0.clamp(0, self.partitions - 1);
        let log = self.log.entry((topic.to_owned(), partition)).or_default();
        log.push(record);
        (partition, log.len() - 1)
    }

    fn act(&mut self, action: Action) -> Result<(), TaskError> {
        match action.clone() {
            Action::Record { topic, partition, offset } => self.deliver(&topic, partition, offset)?,
            Action::EventTime(to) => self.each_task(|task| task.advance_event_time(to))?,
            Action::WallClock(to) => self.each_task(|task| task.advance(to))?,
        }
        self.actions.push(action);
        Ok(())
    }

    fn each_task(&mut self, mut act: impl FnMut(&mut Task) -> Result<(), TaskError>) -> Result<(), TaskError> {
        for sub in 0..self.tasks.len() {
            for partition in 0..self.partitions {
                act(&mut self.tasks[sub][partition as usize].task)?;
                self.drain_and_deliver()?;
            }
        }
        Ok(())
    }

    /// One record, then what it sent to topics that the topology reads, and what that sent.
    fn deliver(&mut self, topic: &str, partition: i32, offset: usize) -> Result<(), TaskError> {
        self.process(topic, partition, offset)?;
        self.drain_and_deliver()
    }

    fn drain_and_deliver(&mut self) -> Result<(), TaskError> {
        let mut waiting = VecDeque::from(self.drain());
        while let Some((topic, partition, offset)) = waiting.pop_front() {
            self.process(&topic, partition, offset)?;
            waiting.extend(self.drain());
        }
        Ok(())
    }

    fn process(&mut self, topic: &str, partition: i32, offset: usize) -> Result<(), TaskError> {
        let Some(record) = self.log.get(&(topic.to_owned(), partition)).and_then(|log| log.get(offset)) else {
            return Ok(());
        };
        let record = record.as_record(Offset(offset as i64));
        for (sub, tasks) in self.topology.sub_topologies().iter().zip(&mut self.tasks) {
            let Some(source) = sub.sources().iter().position(|source| source.topic.to_string() == topic) else {
                continue;
            };
            let task = &mut tasks[partition as usize].task;
            if sub.sources().len() == 1 {
                task.process(source, &record)?;
            } else {
                task.enqueue(source, &record);
                task.process_queued(&|_| true, usize::MAX)?;
            }
        }
        Ok(())
    }

    /// Takes what the tasks have sent. Answers what went to topics that the topology reads.
    fn drain(&mut self) -> Vec<(String, i32, usize)> {
        let (mut sent, mut letters) = (Vec::new(), Vec::new());
        let wall = self.wall().unwrap_or(Timestamp::from_millis(0));
        for (sub, tasks) in self.topology.sub_topologies().iter().zip(&mut self.tasks) {
            for running in tasks {
                let effects = running.task.effects();
                for output in (running.taken..effects.outputs_len()).map(|i| effects.output(i)) {
                    sent.push((sub.sinks()[output.sink].topic.to_string(), TestRecord::of(&output)));
                }
                running.taken = effects.outputs_len();
                for letter in (running.letters_taken..effects.letters_len()).map(|i| effects.letter(i)) {
                    let topic = letter.source.map(|source| sub.sources()[source].topic.to_string());
                    letters.push((DEAD_LETTERS.to_owned(), TestRecord::of_letter(&letter, topic.as_deref(), wall)));
                }
                running.letters_taken = effects.letters_len();
            }
        }
        self.outputs.extend(letters);
        let mut read = Vec::new();
        for (topic, record) in sent {
            if self.reads(&topic) {
                let (partition, offset) = self.append(&topic, record.clone().into_input());
                read.push((topic.clone(), partition, offset));
            }
            self.outputs.push((topic, record));
        }
        read
    }
}
