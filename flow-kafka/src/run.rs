//! Starts a topology: a supervisor thread that prepares the topics, starts the workers and waits for them.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use flow_core::Topology;
use futures::channel::oneshot;
use futures::future::{Either, select};

use crate::app::{App, Shared, State, Summary};
use crate::broker::{Broker, Joiner};
use crate::config::KafkaConfig;
use crate::error::RunError;
use crate::rdkafka::RdkafkaBroker;
use crate::topics;
use crate::worker::Worker;

/// Runs a topology until `shutdown` completes, then commits, leaves the group and returns what was done.
///
/// Works on any async runtime: the workers are threads of their own. Dropping the future asks them to stop, without waiting.
///
/// # Errors
/// Why the topology did not start, or stopped by itself; see [`RunError`].
pub async fn run(
    topology: Topology,
    config: KafkaConfig,
    shutdown: impl Future<Output = ()>,
) -> Result<Summary, RunError> {
    let app = start(topology, config)?;
    let shared = Arc::clone(&app.shared);
    match select(pin!(app.wait()), pin!(shutdown)).await {
        Either::Left((ended, _)) => ended,
        Either::Right(((), wait)) => {
            shared.stop();
            wait.await
        }
    }
}

/// Starts a topology and returns at once; what goes wrong later comes from [`App::wait`].
///
/// # Errors
/// A wrong configuration ([`RunError::Config`]), or a client that cannot be made from it.
pub fn start(topology: Topology, config: KafkaConfig) -> Result<App, RunError> {
    config.check()?;
    let broker = RdkafkaBroker::new(config.client.clone())
        .map_err(|cause| RunError::Broker { doing: "making a Kafka client".into(), cause })?;
    start_on(Arc::new(broker), topology, config)
}

/// Starts a topology on any side of the broker seam: this is how a simulation runs the same code.
///
/// # Errors
/// A wrong configuration, or a supervisor thread that cannot be started.
pub fn start_on(broker: Arc<dyn Broker>, topology: Topology, config: KafkaConfig) -> Result<App, RunError> {
    config.check()?;
    let shared = Arc::new(Shared::new());
    let (sender, end) = oneshot::channel();
    let supervisor = Supervisor { broker: Arc::clone(&broker), topology, config, shared: Arc::clone(&shared) };
    let run = Box::new(move || {
        // The handle may have been dropped; then nobody waits for the result.
        let _ = sender.send(supervisor.run());
    });
    broker
        .host()
        .spawn("flow-supervisor", run)
        .map_err(|cause| RunError::Broker { doing: "starting the supervisor".into(), cause })?;
    Ok(App { shared, end: Some(end) })
}

struct Supervisor {
    broker: Arc<dyn Broker>,
    topology: Topology,
    config: KafkaConfig,
    shared: Arc<Shared>,
}

impl Supervisor {
    fn run(self) -> Result<Summary, RunError> {
        let start = self.broker.host().elapsed();
        if let Err(error) = self.work() {
            self.shared.fail(error);
        }
        let failure = self.shared.take_failure();
        self.shared.end(failure.is_some());
        let time = self.broker.host().elapsed().saturating_sub(start);
        match failure {
            Some(error) => Err(error),
            None => {
                let summary = Summary { counters: self.shared.counters(), time, lag: self.shared.lag() };
                log::info!("ended: {summary}");
                Ok(summary)
            }
        }
    }

    fn work(&self) -> Result<(), RunError> {
        let host = self.broker.host();
        let mut admin =
            self.broker.admin().map_err(|cause| RunError::Broker { doing: "making an admin client".into(), cause })?;
        let layout = Arc::new(topics::prepare(&mut *admin, host, &self.topology, &self.config)?);
        drop(admin);
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let workers = self.config.workers.unwrap_or_else(cores).min(layout.tasks()).max(1);
        log::info!("{}: {} tasks on {workers} workers", self.config.app, layout.tasks());
        self.shared.expect_workers(workers);
        let mut threads: Vec<Box<dyn Joiner>> = Vec::new();
        for number in 0..workers {
            let worker = Worker::new(
                number,
                Arc::clone(&self.broker),
                Arc::clone(&layout),
                self.config.clone(),
                Arc::clone(&self.shared),
            );
            let shared = Arc::clone(&self.shared);
            let run = Box::new(move || {
                let _others = StopAll(&shared);
                if let Err(error) = worker.run() {
                    shared.fail(error);
                }
            });
            match host.spawn(&format!("flow-worker-{number}"), run) {
                Ok(thread) => threads.push(thread),
                Err(cause) => {
                    self.shared.fail(RunError::Broker { doing: format!("starting worker {number}"), cause });
                    break;
                }
            }
        }
        for thread in threads {
            if let Err(message) = thread.join() {
                self.shared.fail(RunError::Internal(message));
            }
        }
        self.shared.enter(State::Stopping);
        Ok(())
    }
}

/// A worker that ends, even by a panic, ends the others: their partitions would wait for it otherwise.
struct StopAll<'a>(&'a Shared);

impl Drop for StopAll<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
