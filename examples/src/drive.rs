//! Drives a run: writes the input, watches the workers, reads the output, and gives up when nothing moves any more.

use std::time::{Duration, Instant};

use crate::kafka::{Feeder, Reader};
use crate::killer::Killer;
use crate::progress::{Progress, bar, grouped};
use crate::workers::{Done, Workers};
use crate::{Error, Input, Results, now};

/// A run in which nothing happens for this long has failed. Longer than a dead process can hold its partitions.
const STALLED: Duration = Duration::from_secs(90);
/// While a process is still to be killed, the rest of the input is spread over this time: its workers must have work then.
const SPREAD: Duration = Duration::from_secs(20);

/// The input, and how much of it was written.
pub(crate) struct Feed {
    pub(crate) feeder: Feeder,
    pub(crate) rest: Input,
    pub(crate) total: u64,
}

impl Feed {
    /// Writes on until `upto` records were written in all; true if that is the whole input.
    fn write(&mut self, upto: u64) -> Result<bool, Error> {
        while self.feeder.sent() < upto.min(self.total) {
            let Some(record) = self.rest.next() else { break };
            self.feeder.send(&record)?;
            if self.feeder.sent() == self.total {
                self.feeder.flush()?;
            }
        }
        Ok(self.feeder.sent() >= self.total)
    }
}

/// A run under way.
pub(crate) struct Drive {
    pub(crate) name: &'static str,
    pub(crate) feed: Feed,
    pub(crate) reader: Reader,
    pub(crate) killer: Option<Killer>,
    pub(crate) progress: Progress,
    /// Records written before the workers start.
    pub(crate) first: u64,
}

impl Drive {
    /// Writes the first part of the input.
    pub(crate) fn fill(&mut self) -> Result<(), Error> {
        let (start, records) = (now(), self.first);
        while self.feed.feeder.sent() < records {
            self.feed.write((self.feed.feeder.sent() + 10_000).min(records))?;
            let (name, sent) = (self.name, self.feed.feeder.sent());
            let line =
                || format!("{name}: {} wrote {} of {} records", bar(sent, records), grouped(sent), grouped(records));
            self.progress.show(line);
        }
        self.feed.feeder.flush()?;
        let line =
            format!("{}: wrote {} records in {:.1} s", self.name, grouped(records), start.elapsed().as_secs_f64());
        self.progress.say(&line);
        Ok(())
    }

    /// Lets the workers run until as many results as expected were read; how long that took, and what they did.
    pub(crate) fn drain(&mut self, mut workers: Workers, expected: u64) -> Result<(Duration, Done), Error> {
        let start = now();
        let mut moved = (now(), 0);
        loop {
            let done = workers.done();
            let whole = self.write_on(start)?;
            self.reader.read(Duration::from_millis(20))?;
            let results = self.reader.results.len();
            let processed = expected > 0 || done.records >= self.feed.total;
            if whole && results >= expected && processed && self.killer.as_ref().is_none_or(|killer| killer.left() == 0)
            {
                let time = start.elapsed();
                self.progress.clear();
                return Ok((time, workers.stop()?));
            }
            if workers.ended() {
                self.progress.clear();
                workers.stop()?;
                return Err(Error::new("the workers ended before the input did"));
            }
            if let Some(killer) = &mut self.killer
                && let Some(killed) = killer.look(done.records, &mut workers)?
            {
                self.progress.say(&format!("{}: {killed}", self.name));
            }
            self.watch(&mut moved, done, results, expected)?;
            let name = self.name;
            let line = || line(name, done, results, expected, start.elapsed());
            self.progress.show(line);
        }
    }

    /// Writes what is due of the rest of the input; true if all is written.
    fn write_on(&mut self, start: Instant) -> Result<bool, Error> {
        if self.killer.as_ref().is_none_or(|killer| killer.left() == 0) {
            return self.feed.write(self.feed.feeder.sent() + 20_000);
        }
        let (first, share) = (self.first, start.elapsed().as_secs_f64() / SPREAD.as_secs_f64());
        self.feed.write(first + ((self.feed.total - first) as f64 * share) as u64)
    }

    fn watch(&self, moved: &mut (Instant, u64), done: Done, results: u64, expected: u64) -> Result<(), Error> {
        let sum = done.records + done.commits + done.timers + results;
        if sum != moved.1 {
            *moved = (now(), sum);
        }
        if moved.0.elapsed() < STALLED {
            return Ok(());
        }
        let (results, expected, records) = (grouped(results), grouped(expected), grouped(done.records));
        let seconds = STALLED.as_secs();
        Err(Error::new(format!(
            "nothing has moved for {seconds} s: {records} records processed, {results} of {expected} results read"
        )))
    }

    /// Reads what is left of the output: the results, and how many lay in a wrong partition.
    pub(crate) fn finish(mut self) -> Result<(Results, u64), Error> {
        let (name, progress) = (self.name, &mut self.progress);
        self.reader.read_to_end(|| progress.show(|| format!("{name}: reading the output to its end")))?;
        progress.clear();
        Ok((self.reader.results, self.reader.misplaced))
    }
}

fn line(name: &str, done: Done, results: u64, expected: u64, time: Duration) -> String {
    let Done { records, commits, timers, .. } = done;
    let shown = if expected > 0 { bar(results, expected) } else { String::new() };
    let restore = match done.to_restore {
        0 => String::new(),
        need => format!(", restoring {} of {} snapshots", grouped(done.restored), grouped(need)),
    };
    let rate = (records as f64 / time.as_secs_f64().max(0.001)) as u64;
    let [records, rate, commits, timers, results, expected] =
        [records, rate, commits, timers, results, expected].map(grouped);
    format!(
        "{name}: {shown} {records} records ({rate} a second), {commits} commits, {timers} timers fired, {results} of {expected} results\
         {restore}"
    )
}
