//! What the clients of a process say about brokers that are away, as one voice.
//!
//! Each client has several connections and tries each twice a second, and each try that fails is a line of librdkafka's log and
//! an error event. None of them tells an operator that the brokers are gone, or that they are back. So what fails for lack of an
//! answer is a suspicion; a client of its own then asks for metadata, until it gets some; and the log has one line when nobody
//! answers and one when somebody does again. Everything else that librdkafka says passes once a minute for each kind.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::client::Client;
use super::error::{Code, is_transient};
use super::host;
use super::outage::{Outage, Repeats};
use super::queue::Wake;
use super::settings;
use crate::config::ClientSettings;

/// How long a broker may take to answer before it counts as away.
const LOOK: Duration = Duration::from_secs(2);
/// The time between two looks, where the first ended early.
const PAUSE: Duration = Duration::from_millis(500);

/// See the module. Shared by all clients of a cluster.
pub(super) struct Reach {
    settings: ClientSettings,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    outage: Outage,
    repeats: Repeats,
}

impl Reach {
    pub(super) fn new(settings: &ClientSettings) -> Arc<Reach> {
        Arc::new(Reach { settings: settings.clone(), started: host::now(), state: Mutex::default() })
    }

    /// Does something to what is known, at this time.
    fn with<T>(&self, change: impl FnOnce(&mut State, Duration) -> T) -> T {
        let now = host::now().saturating_duration_since(self.started);
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner), now)
    }

    /// Something failed that a broker that is away explains.
    pub(super) fn suspect(self: &Arc<Self>, failed: &str) {
        if !self.with(|state, now| state.outage.suspect(now, failed)) {
            return;
        }
        let reach = Arc::downgrade(self);
        if let Err(error) = host::spawn("kafka-look", move || look(&reach)) {
            log::warn!("it is not known whether a broker answers, for no thread can be started to ask: {error}");
        }
    }

    /// An error of a client that it heals by itself.
    pub(super) fn error(self: &Arc<Self>, code: Code, message: &str) {
        if is_transient(code) {
            log::debug!("{message}");
            // This one only sums up others.
            if code != Code::ALL_DOWN {
                self.suspect(message);
            }
        } else if self.is_new(message) {
            log::warn!("{message}");
        }
    }

    /// A line of librdkafka's log.
    pub(super) fn log(self: &Arc<Self>, level: log::Level, client: &str, facility: &str, line: &str) {
        // It begins with the thread's name.
        let what = line.split_once("]: ").map_or(line, |(_, what)| what);
        let connection = matches!(facility, "FAIL" | "REQTMOUT" | "ERROR");
        // A session that ends for lack of answers is both: the brokers may be gone, and what this member had is lost.
        if connection || facility == "SESSTMOUT" {
            self.suspect(what);
        }
        // What becomes of a transaction is also the answer to the call that it fails; and a leader that is away comes back.
        const ELSEWHERE: [&str; 5] = ["TXNERR", "GETPID", "ADDPARTS", "ADDOFFSETS", "METADATAUPDATE"];
        let told_elsewhere = connection || ELSEWHERE.contains(&facility);
        let repeats = || level <= log::Level::Info && !self.is_new(&format!("{facility} {line}"));
        let level = if told_elsewhere || repeats() { log::Level::Debug } else { level };
        log::log!(target: "librdkafka", level, "{client}: {facility}: {line}");
    }

    fn is_new(&self, line: &str) -> bool {
        self.with(|state, now| state.repeats.is_new(now, line))
    }
}

/// Asks until somebody answers, or nobody wants to know any more.
fn look(reach: &Weak<Reach>) {
    let Some(settings) = reach.upgrade().map(|reach| reach.settings.clone()) else { return };
    let client = settings::admin(&settings, "look").and_then(|settings| Client::quiet(&settings));
    let client = match client {
        Ok(client) => client,
        Err(error) => {
            log::warn!("it is not known whether a broker answers, for no client can be made to ask: {error}");
            return;
        }
    };
    let between = Wake::default();
    loop {
        let answered = client.is_answered(LOOK);
        let Some(reach) = reach.upgrade() else { return };
        let bootstrap = &reach.settings.bootstrap;
        if answered {
            if let Some(line) = reach.with(|state, now| state.outage.answered(now, bootstrap)) {
                log::info!("{line}");
            }
            return;
        }
        if let Some(line) = reach.with(|state, now| state.outage.silent(now, bootstrap)) {
            log::warn!("{line}");
        }
        drop(reach);
        between.wait(PAUSE);
    }
}
