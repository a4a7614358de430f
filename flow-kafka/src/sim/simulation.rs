//! A simulation: an embedded broker, the processes that use it, and the seed.

use std::sync::Arc;

use super::{Failure, Fault, Options, Process, Report, Scheduler, Trigger};
use crate::broker::{BrokerError, ErrorKind};
use crate::config::ClientSettings;
use crate::embedded::{self, direct};

/// One run: an embedded broker, and the processes that work with it.
///
/// Make processes, start their actors, plan faults, and [`run`](Self::run). Clones are the same simulation, so an actor can hold
/// one: a test's driver usually is an actor of its own process, that feeds input, waits, and tells the others to end.
#[derive(Clone)]
pub struct Simulation {
    scheduler: Arc<Scheduler<direct::Net>>,
}

impl Simulation {
    /// A simulation that has not started.
    pub fn new(options: Options, broker: embedded::Options) -> Self {
        let net = direct::Net::new(broker, options.start, options.seed);
        Simulation { scheduler: Arc::new(Scheduler::new(options, net)) }
    }

    /// A new process. To start a crashed one again, make another.
    pub fn process(&self, name: &str) -> Process {
        self.scheduler.process(name)
    }

    /// The broker as this process sees it, with the process's clock and threads.
    pub fn broker(&self, process: Process, settings: &ClientSettings) -> direct::DirectBroker {
        direct::DirectBroker::new(Arc::clone(&self.scheduler), process, settings.clone())
    }

    /// Starts a thread of a process. It first runs when the seed says so. Its panic ends the run with a failure.
    pub fn actor(&self, process: Process, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), BrokerError> {
        self.scheduler
            .spawn(process, name, false, Box::new(run))
            .map(drop)
            .map_err(|error| BrokerError::new(ErrorKind::Fatal, format!("thread {name} could not be started: {error}")))
    }

    /// Runs until every actor has ended, or something is wrong.
    pub fn run(&self) -> Result<Report, Box<Failure>> {
        self.scheduler.run()
    }

    /// Plans a fault. Those of one process and trigger strike in the order in which they were planned.
    pub fn plan(&self, process: Process, trigger: Trigger, fault: Fault) {
        self.scheduler.plan(process, trigger, fault);
    }

    /// Lets a fault strike now.
    pub fn fault(&self, process: Process, fault: Fault) {
        self.scheduler.fault(process, fault);
    }

    /// True once the process was crashed.
    pub fn is_crashed(&self, process: Process) -> bool {
        self.scheduler.is_crashed(process)
    }

    /// A look into the broker, from outside.
    pub fn view(&self) -> direct::View {
        direct::View::new(Arc::clone(&self.scheduler))
    }

    /// Adds a line to the trace: it counts for the hash that two runs must agree in.
    pub fn note(&self, line: &str) {
        self.scheduler.note(line);
    }
}
