//! Clicks of users, and the sessions that they make up: the input of `sessions` and `by_hand`, and what a plain loop makes of it.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use flow_core::{Timestamp, Topic, partition_for};
use serde::{Deserialize, Serialize};

use crate::{Input, Options, Random, Record, Results};

/// Clicks, keyed by user.
pub const CLICKS: Topic<str, Click> = Topic::new("clicks");
/// Closed sessions, keyed by user.
pub const CLOSED: Topic<str, SessionClosed> = Topic::new("sessions-closed");
/// A session ends when its user has not clicked for this long.
pub const IDLE_AFTER: Duration = Duration::from_secs(30 * 60);

/// One click.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Click {
    /// Who clicked.
    pub user: String,
    /// Where.
    pub page: String,
    /// When.
    pub at: Timestamp,
}

/// What is known of a session that is still open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Its first click.
    pub from: Timestamp,
    /// Its last click so far.
    pub to: Timestamp,
    /// How many clicks so far.
    pub clicks: u32,
}

/// A session that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionClosed {
    /// Its first click.
    pub from: Timestamp,
    /// Its last click.
    pub to: Timestamp,
    /// How many clicks.
    pub clicks: u32,
}

impl Session {
    /// The session with one more click.
    pub fn with(session: Option<Session>, click: &Click) -> Session {
        let session = session.unwrap_or(Session { from: click.at, to: click.at, clicks: 0 });
        Session { from: session.from.min(click.at), to: session.to.max(click.at), clicks: session.clicks + 1 }
    }

    /// The session as it is reported when it is over.
    pub fn closed(self) -> SessionClosed {
        SessionClosed { from: self.from, to: self.to, clicks: self.clicks }
    }
}

const START: i64 = 1_600_000_000_000;
const FIVE_YEARS_US: u64 = 5 * 365 * 86_400 * 1_000_000;
const LATE_MS: u64 = 5 * 60 * 1_000;

/// The input: every user clicks about every ten minutes, one click in ten arrives late.
///
/// The last click of each partition comes from a user of its own, long after all others: time only moves when records come, so
/// without it the last sessions would stay open for ever.
pub fn input(options: &Options) -> Input {
    let (partitions, keys) = (options.partitions, options.keys);
    let mut random = Random::new(options.seed);
    let closing = options.records.min(partitions as u64);
    let clicks = options.records - closing;
    let step_us = (600_000_000 / keys).min(FIVE_YEARS_US / options.records);
    let mut now_us = 0;
    let mut made = 0;
    Box::new(std::iter::from_fn(move || {
        made += 1;
        if made > clicks + closing {
            return None;
        }
        now_us += random.below(2 * step_us + 1);
        let now = START + (now_us / 1_000) as i64;
        if made > clicks {
            return Some(click(last_user((made - clicks - 1) as i32, partitions), 0, now + 86_400_000, partitions));
        }
        let user = format!("user-{}", random.below(keys));
        let late = if random.below(10) == 0 { random.below(LATE_MS) as i64 } else { 0 };
        Some(click(user, random.below(1_000), now - late, partitions))
    }))
}

fn click(user: String, page: u64, at: i64, partitions: i32) -> Record {
    let click = Click { user, page: format!("/products/{page}"), at: Timestamp::from_millis(at) };
    let value = serde_json::to_vec(&click).expect("a click is plain data");
    let key = click.user.into_bytes();
    Record { partition: partition_for(&key, partitions).0, key: Some(key), value, timestamp: at }
}

/// A user whose key lies in this partition.
fn last_user(partition: i32, partitions: i32) -> String {
    let names = (0..).map(|n: u32| format!("last-{n}"));
    names
        .into_iter()
        .find(|name| partition_for(name.as_bytes(), partitions).0 == partition)
        .expect("murmur2 reaches every partition")
}

/// The sessions of the input, computed by a plain loop that never fails: a clock and a table for each partition.
pub fn expected(input: Input) -> Results {
    let mut results = Results::new();
    let mut partitions: HashMap<i32, Partition> = HashMap::new();
    for record in input {
        let click: Click = serde_json::from_slice(&record.value).expect("we wrote it");
        let partition = partitions.entry(record.partition).or_default();
        partition.clock = partition.clock.max(record.timestamp);
        partition.close(&mut results);
        let before = partition.open.remove(&click.user);
        if let Some(session) = &before {
            partition.due.remove(&(deadline(session), click.user.clone()));
        }
        let session = Session::with(before, &click);
        partition.due.insert((deadline(&session), click.user.clone()));
        partition.open.insert(click.user, session);
        partition.close(&mut results);
    }
    results
}

#[derive(Default)]
struct Partition {
    clock: i64,
    open: HashMap<String, Session>,
    due: BTreeSet<(i64, String)>,
}

fn deadline(session: &Session) -> i64 {
    session.to.as_millis() + IDLE_AFTER.as_millis() as i64
}

impl Partition {
    /// Closes the sessions that are over by now.
    fn close(&mut self, results: &mut Results) {
        while self.due.first().is_some_and(|(deadline, _)| *deadline <= self.clock) {
            let Some((deadline, user)) = self.due.pop_first() else { return };
            let Some(session) = self.open.remove(&user) else { continue };
            let value = serde_json::to_vec(&session.closed()).expect("a session is plain data");
            results.push(user.as_bytes(), &value, deadline);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Times;

    #[test]
    fn the_input_is_the_same_for_the_same_seed_and_moves_time_in_every_partition_at_its_end() {
        let options = Options { records: 5_000, keys: 50, ..Options::default() };
        let (once, again): (Vec<Record>, Vec<Record>) = (input(&options).collect(), input(&options).collect());
        assert_eq!(once, again);
        assert_eq!(once.len(), 5_000);
        let last: Vec<i32> = once[4_996..].iter().map(|record| record.partition).collect();
        assert_eq!(last, [0, 1, 2, 3]);
        let expected = expected(input(&options));
        assert!(expected.len() > 100, "only {} sessions closed", expected.len());
        assert!(expected.compare(&super::expected(input(&options)), Times::InOrder).exact());
    }

    #[test]
    fn a_pause_closes_a_session_and_a_late_click_still_counts() {
        let minute = 60_000;
        let clicks = [("ann", 0), ("ann", 20), ("ann", 10), ("bob", 49), ("bob", 51), ("ann", 55)];
        let input = clicks.map(|(user, minutes)| click(user.into(), 1, START + minutes * minute, 1));
        let closed = expected(Box::new(input.into_iter()));
        let ann = SessionClosed {
            from: Timestamp::from_millis(START),
            to: Timestamp::from_millis(START + 20 * minute),
            clicks: 3,
        };
        let mut only = Results::new();
        only.push(b"ann", &serde_json::to_vec(&ann).unwrap(), START + 50 * minute);
        assert_eq!(closed.compare(&only, Times::InOrder), crate::Verdict::default());
    }
}
