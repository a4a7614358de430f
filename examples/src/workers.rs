//! The workers of a run: in this process, or in processes of their own that a parent starts, kills and starts again.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flow_core::Topology;
use flow_kafka::{App, KafkaConfig, Progress, State};
use tokio::runtime::Runtime;

use crate::{Error, Options};

/// What workers have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// Records processed, those of repartition topics and those processed again after a crash included.
    pub(crate) records: u64,
    /// Transactions committed.
    pub(crate) commits: u64,
    /// Transactions aborted, and sent again.
    pub(crate) aborts: u64,
    /// Timers fired.
    pub(crate) timers: u64,
    /// Snapshots read of the state that is being restored now, and how many there are.
    pub(crate) restored: u64,
    pub(crate) to_restore: u64,
}

impl Done {
    fn of(app: &App) -> Done {
        let restore: Progress = app.restoring().into_values().sum();
        Done { restored: restore.have, to_restore: restore.need, ..Done::from(&app.counters()) }
    }

    fn add(self, other: Done) -> Done {
        Done {
            records: self.records + other.records,
            commits: self.commits + other.commits,
            aborts: self.aborts + other.aborts,
            timers: self.timers + other.timers,
            restored: self.restored + other.restored,
            to_restore: self.to_restore + other.to_restore,
        }
    }

    /// The line that a child writes to its parent.
    fn line(&self) -> String {
        let Done { records, commits, aborts, timers, restored, to_restore } = self;
        format!("{records} {commits} {aborts} {timers} {restored} {to_restore}")
    }
}

impl From<&flow_kafka::Counters> for Done {
    fn from(counters: &flow_kafka::Counters) -> Done {
        let flow_kafka::Counters { records, commits, aborts, timers, .. } = *counters;
        Done { records, commits, aborts, timers, ..Done::default() }
    }
}

impl FromStr for Done {
    type Err = Error;

    fn from_str(line: &str) -> Result<Done, Error> {
        let numbers: Vec<u64> = line.split(' ').filter_map(|number| number.parse().ok()).collect();
        match numbers[..] {
            [records, commits, aborts, timers, restored, to_restore] => {
                Ok(Done { records, commits, aborts, timers, restored, to_restore })
            }
            _ => Err(Error::new(format!("a process wrote `{line}`, which is no progress"))),
        }
    }
}

/// How an example's library configuration follows from its options.
pub(crate) fn config(options: &Options, run: &str, brokers: &str) -> KafkaConfig {
    KafkaConfig::new(brokers, run)
        .workers(options.workers)
        .commit_interval(Duration::from_millis(options.commit_ms))
        // The least that a broker allows by default: a killed process is replaced sooner.
        .session_timeout(Duration::from_secs(6))
}

/// Who runs the topology.
pub(crate) enum Workers {
    /// This process.
    Here { app: App, runtime: Runtime },
    /// Processes started by this one.
    Processes(Vec<Process>),
}

impl Workers {
    pub(crate) fn start(options: &Options, run: &str, brokers: &str, topology: Topology) -> Result<Workers, Error> {
        let Some(processes) = options.processes else {
            let app = flow_kafka::start(topology, config(options, run, brokers))?;
            return Ok(Workers::Here { app, runtime: runtime()? });
        };
        let arguments = options.for_child(run, brokers);
        let started: Result<Vec<Process>, Error> = (0..processes).map(|_| Process::start(&arguments)).collect();
        Ok(Workers::Processes(started?))
    }

    /// What they have done so far.
    pub(crate) fn done(&self) -> Done {
        match self {
            Workers::Here { app, .. } => Done::of(app),
            Workers::Processes(processes) => {
                processes.iter().fold(Done::default(), |sum, process| sum.add(process.done()))
            }
        }
    }

    /// True if one has ended that nobody asked to.
    pub(crate) fn ended(&mut self) -> bool {
        match self {
            Workers::Here { app, .. } => matches!(app.state(), State::Stopped | State::Failed),
            Workers::Processes(processes) => processes.iter_mut().any(Process::ended),
        }
    }

    /// Stops all and waits; the error is why one ended early.
    pub(crate) fn stop(self) -> Result<Done, Error> {
        match self {
            Workers::Here { app, runtime } => Ok(Done::from(&runtime.block_on(app.shutdown())?.counters)),
            Workers::Processes(mut processes) => {
                processes.iter_mut().for_each(Process::ask_to_stop);
                processes.into_iter().try_fold(Done::default(), |sum, process| Ok(sum.add(process.wait()?)))
            }
        }
    }

    pub(crate) fn processes(&mut self) -> &mut [Process] {
        match self {
            Workers::Here { .. } => &mut [],
            Workers::Processes(processes) => processes,
        }
    }
}

fn runtime() -> Result<Runtime, Error> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// One process that runs workers. It stops when its standard input ends, so it never outlives its parent.
pub(crate) struct Process {
    arguments: Vec<String>,
    child: Child,
    input: Option<ChildStdin>,
    now: Arc<Mutex<Done>>,
    before: Done,
}

impl Process {
    fn start(arguments: &[String]) -> Result<Process, Error> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let now = Arc::new(Mutex::new(Done::default()));
        let seen = Arc::clone(&now);
        thread("progress", move || {
            for line in output.into_iter().flat_map(|output| BufReader::new(output).lines().map_while(Result::ok)) {
                if let Ok(done) = line.parse() {
                    *seen.lock().unwrap_or_else(PoisonError::into_inner) = done;
                }
            }
        })?;
        Ok(Process { arguments: arguments.to_vec(), child, input, now, before: Done::default() })
    }

    fn done(&self) -> Done {
        self.before.add(*self.now.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)) | Err(_))
    }

    fn ask_to_stop(&mut self) {
        self.input = None;
    }

    fn wait(mut self) -> Result<Done, Error> {
        self.ask_to_stop();
        let status = self.child.wait()?;
        if !status.success() {
            return Err(Error::new(format!("a process of the run ended with {status}")));
        }
        Ok(self.done())
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops it in the middle of whatever it does (SIGSTOP).
    pub(crate) fn freeze(&self) -> Result<(), Error> {
        self.signal("-STOP")
    }

    /// Lets it go on (SIGCONT).
    pub(crate) fn thaw(&self) -> Result<(), Error> {
        self.signal("-CONT")
    }

    /// By the `kill` command: the standard library has no signals but SIGKILL, and a dependency for two would be one too many.
    fn signal(&self, signal: &str) -> Result<(), Error> {
        let status = Command::new("kill").arg(signal).arg(self.id().to_string()).status()?;
        if status.success() { Ok(()) } else { Err(Error::new(format!("kill {signal} {} failed: {status}", self.id()))) }
    }

    /// Kills it (SIGKILL) and starts another one in its place.
    pub(crate) fn kill_and_restart(&mut self) -> Result<(), Error> {
        self.child.kill()?;
        self.child.wait()?;
        let mut next = Process::start(&self.arguments)?;
        // What it was restoring is begun anew.
        next.before = Done { restored: 0, to_restore: 0, ..self.done() };
        *self = next;
        Ok(())
    }
}

impl Drop for Process {
    /// After an error of the parent: no process may stay behind.
    fn drop(&mut self) {
        if !self.ended() {
            // It may end by itself in between.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// What a child does: runs the topology until its standard input ends, and writes its progress to its standard output.
pub(crate) fn child(options: &Options, run: &str, brokers: &str, topology: Topology) -> Result<ExitCode, Error> {
    let app = flow_kafka::start(topology, config(options, run, brokers))?;
    let (asked, mut stop) = tokio::sync::oneshot::channel();
    thread("parent", move || {
        // Nothing is written to it: this returns when the parent closes it, or dies.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = asked.send(());
    })?;
    let runtime = runtime()?;
    let mut tick = runtime.block_on(async { tokio::time::interval(Duration::from_millis(50)) });
    while !matches!(app.state(), State::Stopped | State::Failed) {
        let stopped = runtime.block_on(async {
            tokio::select! {
                _ = &mut stop => true,
                _ = tick.tick() => false,
            }
        });
        if stopped {
            break;
        }
        report(&Done::of(&app))?;
    }
    let summary = runtime.block_on(app.shutdown())?;
    report(&Done::from(&summary.counters))?;
    Ok(ExitCode::SUCCESS)
}

fn report(done: &Done) -> Result<(), Error> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{}", done.line())?;
    output.flush()?;
    Ok(())
}

#[allow(
    clippy::disallowed_methods,
    reason = "an example is no part of the runtime: its own threads need no simulation"
)]
fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    std::thread::Builder::new().name(name.into()).spawn(run)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_writes_its_parent_can_read() {
        let done = Done { records: 5, commits: 2, aborts: 0, timers: 7, restored: 3, to_restore: 9 };
        assert_eq!(done.line().parse::<Done>().unwrap(), done);
        assert!("5 2".parse::<Done>().is_err());
    }
}
