//! The baton: who runs next, and what time it is.
//!
//! All of it stands behind one mutex. It is never contended: whoever is awake holds the baton. An actor gives the baton away in
//! [`Scheduler::step`] and [`Scheduler::wait`] and sleeps on its own condition variable until it gets it back. A crash, too, is
//! acted out under the baton: a dead actor is handed it once more, unwinds with a private payload, and passes it on.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use super::plan::{Plan, Planned};
use super::trace::Trace;
use super::{Failure, FailureKind, Fault, Options, Process, Random, Report, Trigger};

/// What moves by itself when time passes: the broker, and the background threads of its clients.
pub(crate) trait World: Send + 'static {
    /// Does everything that is due at `now` (time since the start).
    fn advance(&mut self, now: Duration);
    /// When [`advance`](Self::advance) has something to do next.
    fn next_deadline(&self) -> Option<Duration>;
    /// Whether what an actor waits for ([`On::World`]) is there.
    fn is_ready(&self, key: u64) -> bool;
    /// The process was killed.
    fn crashed(&mut self, process: Process, now: Duration);
    /// The process was stopped, or goes on.
    fn paused(&mut self, process: Process, paused: bool, now: Duration);
    /// Nobody reaches the broker until then, and all connections break.
    fn unreachable(&mut self, until: Duration, now: Duration);
}

/// What a waiting actor waits for, beside its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    /// Only the deadline.
    Nothing,
    /// Something of the world: [`World::is_ready`].
    World(u64),
    /// The end of another actor.
    Finish(usize),
}

/// The caller has no business in the simulation (any more): its process was crashed and it is unwinding, the run is over, or the
/// simulation never started its thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gone;

/// The panic payload that takes a crashed actor down. It starts below the panic hook, so nothing is printed.
struct Crashed;

pub(crate) struct Scheduler<W> {
    core: Mutex<Core<W>>,
    /// Tells [`Scheduler::run`] that the run, or an actor after the run, has ended.
    changed: Condvar,
    /// The clock again, in microseconds: read at every record, so without the lock.
    clock: AtomicU64,
    options: Options,
}

struct Core<W> {
    world: W,
    random: Random,
    clock: Duration,
    steps: u64,
    current: Option<usize>,
    actors: Vec<Actor>,
    processes: Vec<ProcessState>,
    threads: HashMap<ThreadId, usize>,
    plan: Plan,
    trace: Trace,
    panics: Vec<String>,
    end: Option<End>,
    candidates: Vec<usize>,
}

enum End {
    Good,
    Bad(FailureKind, String),
}

struct Actor {
    name: String,
    process: Process,
    state: State,
    wake: Arc<Condvar>,
    thread: Option<JoinHandle<()>>,
    /// Its panic is handed to a joiner, and does not end the run.
    joined: bool,
}

enum State {
    Runnable,
    Waiting { until: Option<Duration>, on: On },
    Finished(Result<(), String>),
}

struct ProcessState {
    name: String,
    steps: u64,
    crashed: bool,
    paused_until: Option<Duration>,
    lose_answers: u64,
    lose_requests: u64,
    refuse: VecDeque<i16>,
}

type Locked<'a, W> = MutexGuard<'a, Core<W>>;

impl<W: World> Scheduler<W> {
    pub(crate) fn new(options: Options, world: W) -> Self {
        let core = Core {
            world,
            random: Random::stream(options.seed, 1),
            clock: Duration::ZERO,
            steps: 0,
            current: None,
            actors: Vec::new(),
            processes: Vec::new(),
            threads: HashMap::new(),
            plan: Plan::default(),
            trace: Trace::new(options.trace_kept),
            panics: Vec::new(),
            end: None,
            candidates: Vec::new(),
        };
        Scheduler { core: Mutex::new(core), changed: Condvar::new(), clock: AtomicU64::new(0), options }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Virtual time since the start.
    pub(crate) fn clock(&self) -> Duration {
        Duration::from_micros(self.clock.load(Ordering::Relaxed))
    }

    pub(crate) fn process(&self, name: &str) -> Process {
        let mut core = self.lock();
        let name = name.to_owned();
        core.processes.push(ProcessState {
            name,
            steps: 0,
            crashed: false,
            paused_until: None,
            lose_answers: 0,
            lose_requests: 0,
            refuse: VecDeque::new(),
        });
        Process(core.processes.len() - 1)
    }

    /// Looks at, or changes, the world, at the present time and without giving the baton away.
    pub(crate) fn world<R>(&self, look: impl FnOnce(&mut W, Duration) -> R) -> R {
        let mut core = self.lock();
        let now = core.clock;
        look(&mut core.world, now)
    }

    /// Starts an actor: a thread that waits for the baton.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        process: Process,
        name: &str,
        joined: bool,
        run: Box<dyn FnOnce() + Send>,
    ) -> std::io::Result<usize> {
        let mut core = self.lock();
        let index = core.actors.len();
        let scheduler = Arc::clone(self);
        let thread = start_thread(name, move || scheduler.act(index, run))?;
        core.threads.insert(thread.thread().id(), index);
        let actor = Actor {
            name: name.to_owned(),
            process,
            state: State::Runnable,
            wake: Arc::new(Condvar::new()),
            thread: Some(thread),
            joined,
        };
        core.actors.push(actor);
        Ok(index)
    }

    /// A step: lets the seed pick who goes on, and returns its number in its process when it is the caller's turn.
    ///
    /// Whatever the caller does next, up to its next step or wait, happens at once.
    pub(crate) fn step(&self, what: fmt::Arguments<'_>) -> Result<u64, Gone> {
        let (mut core, me) = self.enter()?;
        core.actors[me].state = State::Runnable;
        let cost = core.random.below(self.options.step_cost.as_micros() as u64 + 1);
        let to = core.clock + Duration::from_micros(cost);
        self.move_clock(&mut core, to);
        let mut core = self.hand_over(core, me)?;
        let process = core.actors[me].process;
        core.steps += 1;
        core.processes[process.0].steps += 1;
        let number = core.processes[process.0].steps;
        core.note(me, format_args!("#{number} {what}"));
        if core.steps > self.options.step_limit {
            let message = format!("the run has not ended after {} steps", self.options.step_limit);
            self.end(&mut core, End::Bad(FailureKind::StepLimit, message));
        }
        self.strike(core, me, Trigger::BeforeStep(number)).map(|_| number)
    }

    /// The step of this number took effect, and its caller is about to learn it.
    pub(crate) fn done(&self, number: u64, outcome: fmt::Arguments<'_>) -> Result<(), Gone> {
        let (mut core, me) = self.enter()?;
        core.note(me, format_args!("#{number} = {outcome}"));
        self.strike(core, me, Trigger::AfterStep(number)).map(drop)
    }

    /// Gives the baton away until the deadline, or until what the actor waits for is there.
    pub(crate) fn wait(&self, until: Option<Duration>, on: On) -> Result<(), Gone> {
        let (mut core, me) = self.enter()?;
        core.actors[me].state = State::Waiting { until, on };
        self.hand_over(core, me).map(drop)
    }

    /// True once if a planned fault says that the next answer to this caller is lost.
    pub(crate) fn loses_answer(&self) -> bool {
        self.loses(|process| &mut process.lose_answers)
    }

    /// True as often as a planned fault says that a request of this caller is lost.
    pub(crate) fn loses_request(&self) -> bool {
        self.loses(|process| &mut process.lose_requests)
    }

    /// The error code with which a planned fault refuses this request of the caller, and its answer, if it is a request that can be
    /// refused with it.
    pub(crate) fn refuses<R>(&self, refusal: impl FnOnce(i16) -> Option<R>) -> Option<(i16, R)> {
        let (mut core, me) = self.enter().ok()?;
        let process = core.actors[me].process;
        let planned = &mut core.processes[process.0].refuse;
        let code = *planned.front()?;
        let refusal = refusal(code)?;
        planned.pop_front();
        Some((code, refusal))
    }

    fn loses(&self, what: impl FnOnce(&mut ProcessState) -> &mut u64) -> bool {
        let Ok((mut core, me)) = self.enter() else { return false };
        let process = core.actors[me].process;
        let lose = what(&mut core.processes[process.0]);
        let lost = *lose > 0;
        *lose = lose.saturating_sub(1);
        lost
    }

    /// How another actor ended; `None` while it has not.
    pub(crate) fn finished(&self, actor: usize) -> Option<Result<(), String>> {
        match &self.lock().actors[actor].state {
            State::Finished(result) => Some(result.clone()),
            State::Runnable | State::Waiting { .. } => None,
        }
    }

    /// Plans a fault.
    pub(crate) fn plan(&self, process: Process, trigger: Trigger, fault: Fault) {
        self.lock().plan.add(Planned { process, trigger, fault });
    }

    /// A fault strikes now.
    pub(crate) fn fault(&self, process: Process, fault: Fault) {
        self.lock().apply(process, fault);
    }

    pub(crate) fn is_crashed(&self, process: Process) -> bool {
        self.lock().processes[process.0].crashed
    }

    /// Adds a line to the trace, in the caller's name if it is an actor.
    pub(crate) fn note(&self, line: &str) {
        let mut core = self.lock();
        match core.threads.get(&thread::current().id()).copied() {
            Some(me) => core.note(me, format_args!("{line}")),
            None => {
                let line = format!("{:>13.6} {line}", core.clock.as_secs_f64());
                core.trace.push(line);
            }
        }
    }

    /// Runs the actors until all have ended, or something is wrong.
    pub(crate) fn run(&self) -> Result<Report, Box<Failure>> {
        let mut core = self.lock();
        self.pass(&mut core, None);
        core = self.await_end(core);
        core = self.await_actors(core);
        let threads: Vec<_> = core
            .actors
            .iter_mut()
            .filter(|actor| matches!(actor.state, State::Finished(_)))
            .filter_map(|actor| actor.thread.take())
            .collect();
        let outcome = core.end.take().unwrap_or(End::Good);
        core.end = Some(End::Good);
        let report = core.report(self.options.seed);
        drop(core);
        for thread in threads {
            // The panic of an actor is caught in `act`; a failed join can tell nothing more.
            let _ = thread.join();
        }
        match outcome {
            End::Good => Ok(report),
            End::Bad(kind, message) => Err(Box::new(Failure { kind, message, report })),
        }
    }

    fn await_end<'a>(&'a self, mut core: Locked<'a, W>) -> Locked<'a, W> {
        let mut steps = core.progress();
        while core.end.is_none() {
            let (back, wait) =
                self.changed.wait_timeout(core, self.options.stall).unwrap_or_else(PoisonError::into_inner);
            core = back;
            if wait.timed_out() && core.end.is_none() {
                if core.progress() == steps {
                    let name = core.current.map_or_else(|| "nobody".to_owned(), |actor| core.name(actor));
                    let message = format!(
                        "{name} has held the baton for {:?}: it blocks on something other than the seam",
                        self.options.stall
                    );
                    self.end(&mut core, End::Bad(FailureKind::Stalled, message));
                }
                steps = core.progress();
            }
        }
        core
    }

    /// After the end, waits until the actors have unwound; one that is stuck outside the seam is left behind.
    fn await_actors<'a>(&'a self, mut core: Locked<'a, W>) -> Locked<'a, W> {
        while core.actors.iter().any(|actor| !matches!(actor.state, State::Finished(_))) {
            let (back, wait) =
                self.changed.wait_timeout(core, self.options.stall).unwrap_or_else(PoisonError::into_inner);
            core = back;
            if wait.timed_out() {
                break;
            }
        }
        core
    }

    fn lock(&self) -> Locked<'_, W> {
        // A thread that panics while it holds the lock would be a bug of this file; the data is plain, so go on reporting.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds out who calls. A crashed caller does not come back from here, unless it is unwinding already.
    fn enter(&self) -> Result<(Locked<'_, W>, usize), Gone> {
        let core = self.lock();
        let Some(&me) = core.threads.get(&thread::current().id()) else { return Err(Gone) };
        if core.end.is_some() || core.is_dead(me) {
            drop(core);
            return Err(leave());
        }
        if thread::panicking() {
            // A destructor of an actor that panicked: it may not block, and what it wants does not matter any more.
            return Err(Gone);
        }
        Ok((core, me))
    }

    /// Passes the baton on and waits until it comes back.
    fn hand_over<'a>(&'a self, mut core: Locked<'a, W>, me: usize) -> Result<Locked<'a, W>, Gone> {
        self.pass(&mut core, Some(me));
        core = self.await_turn(core, me);
        if core.end.is_some() || core.is_dead(me) {
            drop(core);
            return Err(leave());
        }
        core.actors[me].state = State::Runnable;
        Ok(core)
    }

    fn await_turn<'a>(&'a self, mut core: Locked<'a, W>, me: usize) -> Locked<'a, W> {
        let wake = Arc::clone(&core.actors[me].wake);
        while core.current != Some(me) && core.end.is_none() {
            core = wake.wait(core).unwrap_or_else(PoisonError::into_inner);
        }
        core
    }

    /// Applies the faults that this condition triggers to the caller's own process, and lives with the consequences.
    fn strike<'a>(&'a self, mut core: Locked<'a, W>, me: usize, trigger: Trigger) -> Result<Locked<'a, W>, Gone> {
        let process = core.actors[me].process;
        while let Some(planned) = core.plan.take(|planned| planned.process == process && planned.trigger == trigger) {
            core.apply(process, planned.fault);
        }
        if core.end.is_some() || core.is_dead(me) {
            drop(core);
            return Err(leave());
        }
        if core.processes[process.0].paused_until.is_some() {
            return self.hand_over(core, me);
        }
        Ok(core)
    }

    /// Gives the baton to somebody who can run, after moving the clock as far as it takes.
    fn pass(&self, core: &mut Core<W>, from: Option<usize>) {
        core.current = None;
        while core.end.is_none() {
            if let Some(next) = core.pick() {
                core.current = Some(next);
                if from != Some(next) {
                    core.actors[next].wake.notify_one();
                }
                return;
            }
            if core.actors.iter().all(|actor| matches!(actor.state, State::Finished(_))) {
                self.end(core, End::Good);
                return;
            }
            match core.next_time() {
                None => {
                    let message = format!("nobody can ever run again: {}", core.describe());
                    self.end(core, End::Bad(FailureKind::Deadlock, message));
                }
                Some(at) if at > self.options.time_limit => {
                    let limit = self.options.time_limit;
                    let message = format!("the run has not ended after {limit:?} of virtual time: {}", core.describe());
                    self.end(core, End::Bad(FailureKind::TimeLimit, message));
                }
                // Always forward: a world whose deadline stays in the past must not stop the clock.
                Some(at) => self.move_clock(core, at.max(core.clock + Duration::from_micros(1))),
            }
        }
    }

    fn move_clock(&self, core: &mut Core<W>, to: Duration) {
        core.clock = to;
        self.clock.store(to.as_micros() as u64, Ordering::Relaxed);
        core.resume_due();
        while let Some(due) = core.plan.take(|planned| matches!(planned.trigger, Trigger::Time(at) if at <= to)) {
            core.apply(due.process, due.fault);
        }
        core.world.advance(to);
    }

    fn end(&self, core: &mut Core<W>, end: End) {
        if core.end.is_none() {
            core.end = Some(end);
        }
        for actor in &core.actors {
            actor.wake.notify_one();
        }
        self.changed.notify_all();
    }

    /// The life of an actor's thread.
    fn act(&self, me: usize, run: Box<dyn FnOnce() + Send>) {
        let core = self.await_turn(self.lock(), me);
        let starts = core.end.is_none() && !core.is_dead(me);
        drop(core);
        let result =
            if starts { catch_unwind(AssertUnwindSafe(run)) } else { Err(Box::new(Crashed) as Box<dyn Any + Send>) };
        let mut core = self.lock();
        let outcome = match result {
            Ok(()) => Ok(()),
            Err(payload) if payload.is::<Crashed>() => Err("its process was crashed, or the run ended".to_owned()),
            Err(payload) => {
                let message = format!("{} panicked: {}", core.name(me), panic_message(payload.as_ref()));
                core.panics.push(message.clone());
                if !core.actors[me].joined {
                    self.end(&mut core, End::Bad(FailureKind::Panicked, message.clone()));
                }
                Err(message)
            }
        };
        core.actors[me].state = State::Finished(outcome);
        if core.end.is_none() {
            core.note(me, format_args!("ended"));
            self.pass(&mut core, None);
        }
        self.changed.notify_all();
    }
}

impl<W: World> Core<W> {
    fn is_dead(&self, actor: usize) -> bool {
        self.processes[self.actors[actor].process.0].crashed
    }

    fn can_run(&self, index: usize) -> bool {
        let actor = &self.actors[index];
        let process = &self.processes[actor.process.0];
        match actor.state {
            State::Finished(_) => false,
            // It must unwind.
            _ if process.crashed => true,
            _ if process.paused_until.is_some() => false,
            State::Runnable => true,
            State::Waiting { until, on } => {
                until.is_some_and(|until| until <= self.clock)
                    || match on {
                        On::Nothing => false,
                        On::World(key) => self.world.is_ready(key),
                        On::Finish(other) => matches!(self.actors[other].state, State::Finished(_)),
                    }
            }
        }
    }

    fn pick(&mut self) -> Option<usize> {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        candidates.extend((0..self.actors.len()).filter(|&actor| self.can_run(actor)));
        let picked = match candidates.len() {
            0 => None,
            1 => Some(candidates[0]),
            several => Some(candidates[self.random.below(several as u64) as usize]),
        };
        self.candidates = candidates;
        picked
    }

    fn next_time(&self) -> Option<Duration> {
        let waiting = self.actors.iter().filter_map(|actor| match actor.state {
            State::Waiting { until, .. } if self.processes[actor.process.0].paused_until.is_none() => until,
            State::Waiting { .. } | State::Runnable | State::Finished(_) => None,
        });
        let resumed =
            self.processes.iter().filter(|process| !process.crashed).filter_map(|process| process.paused_until);
        waiting.chain(resumed).chain(self.world.next_deadline()).chain(self.plan.next_time()).min()
    }

    fn resume_due(&mut self) {
        for index in 0..self.processes.len() {
            if self.processes[index].paused_until.is_some_and(|until| until <= self.clock) {
                self.processes[index].paused_until = None;
                self.note_process(Process(index), "goes on");
                self.world.paused(Process(index), false, self.clock);
            }
        }
    }

    fn apply(&mut self, process: Process, fault: Fault) {
        let state = &mut self.processes[process.0];
        if state.crashed {
            return;
        }
        match fault {
            Fault::Crash => {
                state.crashed = true;
                self.note_process(process, "crashed");
                self.world.crashed(process, self.clock);
            }
            Fault::Pause(time) => {
                state.paused_until = Some(self.clock + time);
                self.note_process(process, "paused");
                self.world.paused(process, true, self.clock);
            }
            Fault::LoseAnswer => {
                state.lose_answers += 1;
                self.note_process(process, "will lose an answer");
            }
            Fault::LoseRequests(count) => {
                state.lose_requests += count;
                self.note_process(process, &format!("will lose {count} requests"));
            }
            Fault::Refuse(code) => {
                state.refuse.push_back(code);
                self.note_process(process, &format!("will be refused with {code}"));
            }
            Fault::Unreachable(time) => {
                self.note_process(process, &format!("and all others do not reach the broker for {time:?}"));
                self.world.unreachable(self.clock + time, self.clock);
            }
        }
    }

    fn name(&self, actor: usize) -> String {
        let actor = &self.actors[actor];
        format!("{}/{}", self.processes[actor.process.0].name, actor.name)
    }

    fn note(&mut self, actor: usize, what: fmt::Arguments<'_>) {
        let line = format!("{:>13.6} {} {what}", self.clock.as_secs_f64(), self.name(actor));
        self.trace.push(line);
    }

    fn note_process(&mut self, process: Process, what: &str) {
        let line = format!("{:>13.6} {} {what}", self.clock.as_secs_f64(), self.processes[process.0].name);
        self.trace.push(line);
    }

    /// What every actor that has not ended is doing.
    fn describe(&self) -> String {
        let mut text = String::new();
        for (index, actor) in self.actors.iter().enumerate() {
            let doing = match actor.state {
                State::Finished(_) => continue,
                State::Runnable => "can run".to_owned(),
                State::Waiting { until: None, on } => format!("waits for {on:?}"),
                State::Waiting { until: Some(until), on } => format!("waits for {on:?} until {until:?}"),
            };
            let paused = self.processes[actor.process.0].paused_until.map(|_| " (paused)").unwrap_or_default();
            if !text.is_empty() {
                text.push_str(", ");
            }
            text.push_str(&format!("{} {doing}{paused}", self.name(index)));
        }
        text
    }

    /// Anything that grows while actors come to the seam.
    fn progress(&self) -> (u64, u64, Duration) {
        (self.steps, self.trace.count(), self.clock)
    }

    fn report(&self, seed: u64) -> Report {
        Report {
            seed,
            steps: self.steps,
            elapsed: self.clock,
            trace_hash: self.trace.hash(),
            trace: self.trace.lines(),
            panics: self.panics.clone(),
        }
    }
}

/// Takes the calling actor down, or, where a second panic would abort the real process, tells its destructor to give up.
fn leave() -> Gone {
    if thread::panicking() {
        return Gone;
    }
    resume_unwind(Box::new(Crashed))
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a value that is no text".to_owned()
    }
}

#[allow(clippy::disallowed_methods, reason = "this is where the simulation's Host gets its threads from")]
fn start_thread(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(run)
}
