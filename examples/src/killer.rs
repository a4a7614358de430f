//! `--kill-after`: ends a process at the worst moment, inside its transaction.

use std::time::{Duration, Instant};

use crate::kafka::{Admin, Transactions};
use crate::workers::Workers;
use crate::{Error, now, pause};

/// Freezes one process after another until one is caught with a transaction open; kills that one.
///
/// Whether it is open is seen from outside, on the broker: a partition's last stable offset stays below its end for as long as the
/// process is frozen, while the others go on and end theirs.
pub(crate) struct Killer {
    after: Vec<u64>,
    transactions: Transactions,
    admin: Admin,
    run: String,
    input: String,
    turn: usize,
    since: Option<Instant>,
}

/// Long enough for everybody else's transaction to end.
const HELD: Duration = Duration::from_millis(400);
/// After this long without luck the run fails: it would not have shown what was asked for.
const PATIENCE: Duration = Duration::from_secs(60);

impl Killer {
    pub(crate) fn new(brokers: &str, run: &str, input: &str, after: &[u64]) -> Result<Killer, Error> {
        let mut after = after.to_vec();
        after.reverse();
        let (transactions, admin) = (Transactions::new(brokers)?, Admin::new(brokers)?);
        Ok(Killer { after, transactions, admin, run: run.to_owned(), input: input.to_owned(), turn: 0, since: None })
    }

    /// How many are still to be killed.
    pub(crate) fn left(&self) -> usize {
        self.after.len()
    }

    /// Tries once, if it is time; what was done, if something was.
    pub(crate) fn look(&mut self, done: u64, workers: &mut Workers) -> Result<Option<String>, Error> {
        if self.after.last().is_none_or(|&after| done < after) {
            return Ok(None);
        }
        if self.since.get_or_insert_with(now).elapsed() > PATIENCE {
            return Err(Error::new(format!(
                "no process could be caught with a transaction open in {} s",
                PATIENCE.as_secs()
            )));
        }
        // Outputs and snapshots, not the input: only they are written in the transactions that we look for.
        let mut topics = self.admin.topics(&self.run)?;
        topics.retain(|(name, _)| *name != self.input);
        let processes = workers.processes();
        self.turn = (self.turn + 1) % processes.len();
        let process = &mut processes[self.turn];
        process.freeze()?;
        let open = self.transactions.open(&topics)?;
        let mut held = Vec::new();
        if !open.is_empty() {
            pause(HELD);
            held = self.transactions.open(&topics)?;
            held.retain(|partition| open.contains(partition));
        }
        let Some((topic, partition, offset)) = held.into_iter().next() else {
            process.thaw()?;
            return Ok(None);
        };
        let id = process.id();
        process.kill_and_restart()?;
        self.after.pop();
        self.since = None;
        Ok(Some(format!(
            "killed process {id} after {done} records, inside a transaction (open in {topic}/{partition} from offset {offset}); started {}",
            process.id()
        )))
    }
}
