//! The commit: outputs, snapshots, timers and input offsets in one transaction that carries the consumer's generation.
//!
//! This is the only file that begins and commits transactions, and none without an offset and a live generation: the offsets
//! are what the broker compares the generation for, so they are the fence of everything else in the transaction.
//!
//! An abort undoes nothing here. State is a function of the input, so after an abort it is not wrong, only uncommitted: the
//! encoded effects are kept per task until their outcome is known, and are sent again for the tasks that are still owned.

mod failing;
mod outside;
mod send;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use self::failing::{Failing, Verdict};
use self::outside::Outside;
use crate::broker::{
    Broker, BrokerError, Consumer, ErrorKind, Generation, OffsetCommit, Producer, ProducerSpec, TopicId, TopicPartition,
};
use crate::error::{RunError, panic_message};
use crate::offsets::Note;
use crate::tasks::Active;
use crate::topics::{Layout, TaskId};

/// How a commit ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything is committed.
    Done,
    /// There was nothing to commit.
    Nothing,
    /// Nothing is committed, and nothing of it is visible; the effects are kept. Poll, then try again for what is still owned.
    Again(String),
    /// A task's offsets were committed by somebody else meanwhile, or nobody knows: drop these tasks and recover them.
    Superseded(Vec<TaskId>),
}

/// Tells whether the worker is asked to end.
pub(crate) type Stopping = Arc<dyn Fn() -> bool + Send + Sync>;

/// Commits for one worker.
pub(crate) struct Committer {
    broker: Arc<dyn Broker>,
    layout: Arc<Layout>,
    client_id: String,
    transactional_id: String,
    /// The member under which the id is used. It is used under no other one: see `crate::takeover`.
    member: Option<String>,
    timeout: Duration,
    /// True once the worker is asked to end.
    stopping: Stopping,
    producer: Option<Box<dyn Producer>>,
    outside: Option<Outside>,
    topics: HashMap<String, TopicId>,
    open: bool,
    failing: Failing,
    /// Commits done.
    pub(crate) commits: u64,
    /// Transactions aborted.
    pub(crate) aborts: u64,
}

const SLICE: Duration = Duration::from_secs(1);

/// What went wrong inside a transaction, by what must follow.
enum Trouble {
    /// Abort, and send again.
    Abort(BrokerError),
    /// The producer is of no use; the transaction did not commit.
    Replace(BrokerError),
    /// It may have committed or not.
    Unknown(BrokerError),
    /// The worker is another member now than the one that the transactional id stands for.
    Rejoined,
}

impl Trouble {
    /// Before `commit` was called nothing can have been committed.
    fn before_commit(error: BrokerError) -> Trouble {
        match error.kind {
            ErrorKind::Fenced | ErrorKind::Fatal => Trouble::Replace(error),
            _ => Trouble::Abort(error),
        }
    }
}

impl Committer {
    pub(crate) fn new(
        broker: Arc<dyn Broker>,
        layout: Arc<Layout>,
        client_id: String,
        timeout: Duration,
        stopping: Stopping,
    ) -> Self {
        let transactional_id = unique_id(&*broker, &layout, &client_id);
        Committer {
            broker,
            layout,
            client_id,
            transactional_id,
            member: None,
            timeout,
            stopping,
            producer: None,
            outside: None,
            topics: HashMap::new(),
            open: false,
            failing: Failing::default(),
            commits: 0,
            aborts: 0,
        }
    }

    /// From now on outputs are sent outside of the transactions.
    pub(crate) fn outputs_outside(&mut self) {
        let (broker, layout) = (Arc::clone(&self.broker), Arc::clone(&self.layout));
        self.outside = Some(Outside::new(broker, layout, self.client_id.clone()));
    }

    /// Sends outputs that do not wait for a transaction. What fails is sent again by the commit, which judges a failure.
    pub(crate) fn send_outside(&mut self, tasks: &mut [Active]) {
        if let Some(outside) = &mut self.outside
            && let Err(error) = outside.send(tasks)
        {
            log::debug!("{}: sending outputs stopped: {error}", self.client_id);
        }
    }

    /// Sends kept effects ahead of the commit, so that the network works while the fold goes on. After a failure nobody knows
    /// how much of a chunk the client has taken, so its transaction must not commit: the commit sends everything again.
    pub(crate) fn send_ahead(&mut self, tasks: &mut [Active]) {
        let done = self.ensure_open().and_then(|()| tasks.iter_mut().try_for_each(|task| self.send(task)));
        if let Err(error) = done {
            log::debug!("{}: sending ahead stopped: {error}", self.client_id);
            self.abort(tasks);
        }
    }

    /// True if the open transaction holds effects of this task.
    pub(crate) fn holds(&self, task: &Active) -> bool {
        self.open && task.sent.is_inside()
    }

    /// Commits everything that the tasks have.
    pub(crate) fn commit(&mut self, tasks: &mut [Active], consumer: &mut dyn Consumer) -> Result<Outcome, RunError> {
        if !tasks.iter().any(Active::has_to_commit) {
            // Nothing to hang an offset on: a transaction that was opened for a task since lost must not commit.
            self.abort(tasks);
            // What failed before is somebody else's to commit by now.
            self.failing = Failing::default();
            return Ok(Outcome::Nothing);
        }
        tasks.iter_mut().filter(|task| task.has_to_commit()).try_for_each(prepare)?;
        let trouble = match self.transaction(tasks, consumer) {
            Ok(()) => {
                self.settle(tasks);
                return Ok(Outcome::Done);
            }
            Err(trouble) => trouble,
        };
        match trouble {
            Trouble::Abort(error) => {
                self.abort(tasks);
                if error.kind == ErrorKind::Retriable {
                    // A request that got no answer may still arrive, in the next transaction of the same epoch: a new epoch.
                    self.producer = None;
                }
                self.judge(error)
            }
            Trouble::Replace(error) => {
                self.replace(tasks, error.kind == ErrorKind::Fenced);
                self.try_again("a new producer takes over and sends everything again", error)
            }
            Trouble::Unknown(error) => Ok(self.resolve(tasks, &error)),
            Trouble::Rejoined => {
                self.abort(tasks);
                self.renew();
                Ok(Outcome::Again("the worker has joined its group anew".to_owned()))
            }
        }
    }

    /// The transaction itself. No way leads past a failed `send_offsets` to `commit`.
    fn transaction(&mut self, tasks: &mut [Active], consumer: &mut dyn Consumer) -> Result<(), Trouble> {
        if let Some(outside) = &mut self.outside {
            outside.send(tasks).map_err(Trouble::Abort)?;
        }
        self.ensure_open().map_err(Trouble::before_commit)?;
        tasks.iter_mut().try_for_each(|task| self.send(task)).map_err(Trouble::before_commit)?;
        let timeout = self.timeout;
        let producer = self.producer.as_deref_mut().expect("a transaction is open");
        let host = self.broker.host();
        let start = host.elapsed();
        let left = move || timeout.saturating_sub(host.elapsed().saturating_sub(start));
        if let Some(outside) = &mut self.outside {
            outside.flush(tasks, |flush| until(&left, flush)).map_err(Trouble::Abort)?;
        }
        // Flush first: send_offsets right after the previous commit would wait for its markers 100 ms at a time.
        until(&left, |slice| producer.flush(slice)).map_err(Trouble::before_commit)?;
        // Read now, on the thread that polls: an older one may be stale, and an unknown one would be accepted from anybody.
        let generation = consumer.generation().map_err(Trouble::before_commit)?;
        if *self.member.get_or_insert_with(|| generation.member.clone()) != generation.member {
            return Err(Trouble::Rejoined);
        }
        let offsets = offsets(tasks, &self.layout, &self.transactional_id, &generation);
        until(&left, |slice| producer.send_offsets(&offsets, &generation, slice)).map_err(Trouble::before_commit)?;
        let start = host.elapsed();
        let left = move || timeout.saturating_mul(2).saturating_sub(host.elapsed().saturating_sub(start));
        until(&left, |slice| producer.commit(slice)).map_err(|error| match error.kind {
            ErrorKind::Abort | ErrorKind::Unanswered | ErrorKind::RecordRefused | ErrorKind::StaleGeneration => {
                Trouble::Abort(error)
            }
            _ => Trouble::Unknown(error),
        })
    }

    fn settle(&mut self, tasks: &mut [Active]) {
        self.open = false;
        self.recovered();
        self.commits += 1;
        let by = &self.transactional_id;
        tasks.iter_mut().filter(|task| task.has_to_commit()).for_each(|task| task.committed(by));
    }

    /// Commits pass again.
    fn recovered(&mut self) {
        if let Some(line) = self.failing.over(self.broker.host().elapsed()) {
            log::info!("{}: {line}", self.client_id);
        }
    }

    /// A refused record or transaction is sent again a few times, a stale generation as long as we are a member, and what got no
    /// answer until it gets one.
    fn judge(&mut self, error: BrokerError) -> Result<Outcome, RunError> {
        match error.kind {
            ErrorKind::Refused | ErrorKind::UnknownTopic => {
                Err(RunError::Broker { doing: format!("{}: committing", self.client_id), cause: error })
            }
            _ => self.try_again("the commit is sent again for what is still owned, until it passes", error),
        }
    }

    /// Says once for all failures in a row what is done about them.
    fn try_again(&mut self, what: &str, error: BrokerError) -> Result<Outcome, RunError> {
        match self.failing.failed(self.broker.host().elapsed(), error.kind) {
            Verdict::First => log::warn!("{}: {what}: {error}", self.client_id),
            Verdict::Again => log::debug!("{}: {what}: {error}", self.client_id),
            Verdict::Enough(attempts) => return Err(RunError::Commit { attempts, cause: error }),
        }
        Ok(Outcome::Again(error.message))
    }

    /// Aborts the open transaction, if there is one. The effects stay with their tasks and will be sent again.
    pub(crate) fn abort(&mut self, tasks: &mut [Active]) {
        tasks.iter_mut().for_each(|task| task.sent.aborted());
        if !std::mem::take(&mut self.open) {
            return;
        }
        self.aborts += 1;
        let Some(producer) = self.producer.as_deref_mut() else { return };
        let host = self.broker.host();
        let (start, timeout) = (host.elapsed(), self.timeout);
        let left = move || timeout.saturating_sub(host.elapsed().saturating_sub(start));
        if let Err(error) = until(&left, |slice| producer.abort(slice)) {
            // The id's next initialisation aborts it for us; a new producer under the same id does that.
            log::debug!("{}: the abort did not end ({error}); its producer is replaced", self.client_id);
            self.producer = None;
        }
    }

    /// Gives up the producer. A fenced one's transaction is dead already, and so is its id; any other's is aborted when the next
    /// producer initialises the same id.
    fn replace(&mut self, tasks: &mut [Active], fenced: bool) {
        tasks.iter_mut().for_each(|task| task.sent.aborted());
        self.open = false;
        self.aborts += 1;
        self.producer = None;
        if fenced {
            self.renew();
        }
    }

    /// The id that the next commit is made under.
    pub(crate) fn transactional_id(&self) -> &str {
        &self.transactional_id
    }

    /// From now on another transactional id. What is open under the old one must be aborted before.
    pub(crate) fn renew(&mut self) {
        self.producer = None;
        self.member = None;
        self.transactional_id = unique_id(&*self.broker, &self.layout, &self.client_id);
    }

    /// Finds out what became of a commit whose answer never came. It waits out an outage, but does not hold a shutdown up. Where
    /// it cannot be found out the tasks are given up: a recovery starts from what the broker has, whatever that is, and nothing
    /// is sent again.
    fn resolve(&mut self, tasks: &mut [Active], cause: &BrokerError) -> Outcome {
        log::warn!("{}: the outcome of a commit is not known ({cause}); asking the broker", self.client_id);
        self.producer = None;
        self.open = false;
        tasks.iter_mut().for_each(|task| task.sent.aborted());
        self.ask_outcome(tasks, cause).unwrap_or_else(|error| {
            log::warn!("{}: the outcome stays unknown, the tasks are recovered: {error}", self.client_id);
            self.aborts += 1;
            Outcome::Superseded(tasks.iter().filter(|task| task.has_to_commit()).map(|task| task.id).collect())
        })
    }

    /// Initialising our own id completes or aborts the transaction; then the stable offsets tell, by the commit number beside them.
    fn ask_outcome(&mut self, tasks: &mut [Active], cause: &BrokerError) -> Result<Outcome, RunError> {
        let host = Arc::clone(&self.broker);
        let (start, longest) = (host.host().elapsed(), self.timeout.saturating_mul(2));
        let stopping = Arc::clone(&self.stopping);
        let late = move || stopping() && host.host().elapsed().saturating_sub(start) > longest;
        self.ensure_producer_patiently(&late)?;
        let mut reader =
            self.broker.reader().map_err(|cause| self.broken("opening a client to read offsets", cause))?;
        // All answers first: a failure half way must not leave some tasks settled.
        let mut notes = Vec::new();
        for task in tasks.iter().filter(|task| task.has_to_commit()) {
            notes.push(self.stable_note(&mut *reader, &task.inputs, &late)?);
        }
        let mut committed = 0;
        let mut superseded = Vec::new();
        for (task, note) in tasks.iter_mut().filter(|task| task.has_to_commit()).zip(notes) {
            let number = note.as_ref().map_or(0, |n| n.commit);
            let ours = note.is_some_and(|n| n.transactional_id == self.transactional_id && n.commit == task.commit + 1);
            if ours {
                task.committed(&self.transactional_id);
                committed += 1;
            } else if number != task.commit {
                superseded.push(task.id);
            }
        }
        log::info!("{}: {committed} tasks had committed, the others are sent again", self.client_id);
        self.commits += u64::from(committed > 0);
        self.aborts += u64::from(committed == 0);
        if committed > 0 {
            self.recovered();
        }
        Ok(match superseded.is_empty() {
            false => Outcome::Superseded(superseded),
            true if committed > 0 => Outcome::Done,
            true => Outcome::Again(cause.message.clone()),
        })
    }

    fn stable_note(
        &self,
        reader: &mut dyn crate::broker::Reader,
        inputs: &[TopicPartition],
        late: &dyn Fn() -> bool,
    ) -> Result<Option<Note>, RunError> {
        let host = self.broker.host();
        let mut logged = false;
        let committed = loop {
            match reader.committed(&self.layout.app, inputs, SLICE) {
                Ok(committed) => break committed,
                Err(error) if matches!(error.kind, ErrorKind::Retriable | ErrorKind::Unstable) && !late() => {
                    if !logged {
                        log::warn!("{}: waiting for the committed offset of {}: {error}", self.client_id, inputs[0]);
                        logged = true;
                    }
                    host.sleep(Duration::from_millis(100));
                }
                Err(cause) => return Err(self.broken("reading committed offsets", cause)),
            }
        };
        let mut newest: Option<Note> = None;
        for committed in committed.into_iter().flatten() {
            let note = Note::decode(&committed.metadata)
                .map_err(|message| RunError::Recovery { task: inputs[0].clone(), message })?;
            if newest.as_ref().is_none_or(|n| n.commit < note.commit) {
                newest = Some(note);
            }
        }
        Ok(newest)
    }

    fn broken(&self, doing: &str, cause: BrokerError) -> RunError {
        RunError::Broker { doing: format!("{}: {doing}", self.client_id), cause }
    }

    fn ensure_producer_patiently(&mut self, late: &dyn Fn() -> bool) -> Result<(), RunError> {
        let mut logged = false;
        loop {
            match self.ensure_producer() {
                Ok(()) => return Ok(()),
                Err(error) if matches!(error.kind, ErrorKind::Refused) || late() => {
                    return Err(self.broken("initialising the producer", error));
                }
                Err(error) => {
                    self.producer = None;
                    if !std::mem::replace(&mut logged, true) {
                        log::warn!("{}: waiting for the producer's coordinator: {error}", self.client_id);
                    }
                    self.broker.host().sleep(Duration::from_millis(100));
                }
            }
        }
    }

    /// Makes the producer before it is needed: the first commit should not pay for it.
    pub(crate) fn warm_up(&mut self) {
        if let Err(error) = self.ensure_producer() {
            log::debug!("{}: the producer is not ready yet: {error}", self.client_id);
            self.producer = None;
        }
    }

    fn ensure_producer(&mut self) -> Result<(), BrokerError> {
        if self.producer.is_some() {
            return Ok(());
        }
        let spec = ProducerSpec { transactional_id: self.transactional_id.clone(), client_id: self.client_id.clone() };
        let mut producer = self.broker.producer(&spec)?;
        let host = self.broker.host();
        let (start, timeout) = (host.elapsed(), self.timeout.max(SLICE * 10));
        let left = move || timeout.saturating_sub(host.elapsed().saturating_sub(start));
        until(&left, |_| producer.init(SLICE * 5))?;
        self.topics.clear();
        self.producer = Some(producer);
        Ok(())
    }

    fn ensure_open(&mut self) -> Result<(), BrokerError> {
        self.ensure_producer()?;
        if !self.open {
            self.producer.as_deref_mut().expect("just made").begin()?;
            self.open = true;
        }
        Ok(())
    }
}

/// Repeats a call that has not ended yet, in slices, until the time is over.
fn until(
    left: &dyn Fn() -> Duration,
    mut call: impl FnMut(Duration) -> Result<(), BrokerError>,
) -> Result<(), BrokerError> {
    loop {
        match call(left().min(SLICE)) {
            Err(error) if error.kind == ErrorKind::Retriable && !left().is_zero() => {}
            other => return other,
        }
    }
}

/// The offsets of every task with something to commit, with the note that the next owner needs.
fn offsets(
    tasks: &mut [Active],
    layout: &Layout,
    transactional_id: &str,
    generation: &Generation,
) -> Vec<OffsetCommit> {
    let mut all = Vec::new();
    for task in tasks.iter_mut().filter(|task| task.has_to_commit()) {
        task.note_written(layout.subs[task.id.sub].topology.stores());
        let note = Note {
            commit: task.commit + 1,
            transactional_id: transactional_id.to_owned(),
            member: generation.member.clone(),
            clocks: task.task.clocks().map(|(store, clock)| (store.to_owned(), clock)).collect(),
            written: task.written.clone(),
        };
        let metadata = note.encode();
        all.extend(task.inputs.iter().enumerate().map(|(source, partition)| OffsetCommit {
            partition: partition.clone(),
            offset: task.next(source),
            metadata: metadata.clone(),
        }));
    }
    all
}

/// Adds the snapshots of what changed to a task's effects. They call the user's code, which may panic.
fn prepare(task: &mut Active) -> Result<(), RunError> {
    match catch_unwind(AssertUnwindSafe(|| task.task.prepare_commit())) {
        Ok(prepared) => prepared.map_err(RunError::Record),
        Err(panic) => {
            let step = "the snapshot of a state".to_owned();
            Err(RunError::Panic { at: None, step, message: panic_message(&*panic) })
        }
    }
}

/// An id that no other incarnation of any worker uses: initialising a live producer's id would fence it.
fn unique_id(broker: &dyn Broker, layout: &Layout, client_id: &str) -> String {
    format!("{}-{client_id}-{:016x}", layout.app, broker.host().unique())
}

#[cfg(test)]
mod tests;
