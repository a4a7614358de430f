//! What deserves a line in the log while brokers come and go: a change, not what is tried in between. No clock in here: callers
//! say what time it is.

use std::collections::HashMap;
use std::time::Duration;

/// After a look that found a broker, so long nobody looks again: the clients' old connections break one by one.
const TRUST: Duration = Duration::from_secs(5);
/// A line comes again once nothing like it was said for so long.
const QUIET: Duration = Duration::from_secs(60);
/// Kinds of lines that are remembered; there are a few dozen in all.
const KINDS_MAX: usize = 1000;

/// Whether any broker answers. A connection that breaks is only a suspicion: idle ones are closed, leaders move, one broker of
/// several restarts. Somebody has to look.
#[derive(Debug, Default)]
pub(super) enum Outage {
    /// One answers, as far as anybody knows.
    #[default]
    None,
    /// One was found at this time, after a suspicion.
    Found(Duration),
    /// Something failed, and somebody looks.
    Suspected {
        /// When it failed first.
        since: Duration,
        /// How.
        why: String,
    },
    /// None answers.
    Lost {
        /// Since when.
        since: Duration,
    },
}

impl Outage {
    /// Something failed that a broker that is away explains. True if somebody must look now.
    pub(super) fn suspect(&mut self, now: Duration, failed: &str) -> bool {
        match self {
            Outage::Found(at) if now.saturating_sub(*at) < TRUST => false,
            Outage::None | Outage::Found(_) => {
                *self = Outage::Suspected { since: now, why: failed.to_owned() };
                true
            }
            Outage::Suspected { .. } | Outage::Lost { .. } => false,
        }
    }

    /// A look got no answer. What to say: only the first time.
    pub(super) fn silent(&mut self, now: Duration, bootstrap: &str) -> Option<String> {
        let Outage::Suspected { since, why } = self else { return None };
        let (since, time) = (*since, seconds(now.saturating_sub(*since)));
        let line = format!(
            "no broker of {bootstrap} answers for {time} s now ({why}); nothing is lost: what is not committed is kept, and the work \
             goes on once one answers"
        );
        *self = Outage::Lost { since };
        Some(line)
    }

    /// A look got an answer. What to say, if an outage is over.
    pub(super) fn answered(&mut self, now: Duration, bootstrap: &str) -> Option<String> {
        let before = std::mem::replace(self, Outage::Found(now));
        let Outage::Lost { since } = before else { return None };
        Some(format!("a broker of {bootstrap} answers again, after {} s", seconds(now.saturating_sub(since))))
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64())
}

/// Tells lines that are new from those that repeat another one but for their numbers. All clients of a process say the same.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    said: HashMap<String, Duration>,
}

impl Repeats {
    /// True if nothing like this was said lately.
    pub(super) fn is_new(&mut self, now: Duration, line: &str) -> bool {
        let kind: String = line.chars().filter(|c| !c.is_ascii_digit()).collect();
        if self.said.len() >= KINDS_MAX {
            self.said.retain(|_, at| now.saturating_sub(*at) < QUIET);
        }
        match self.said.insert(kind, now) {
            Some(before) => now.saturating_sub(before) >= QUIET,
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "here:9092";

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_outage_is_two_lines_however_often_something_fails() {
        let mut outage = Outage::default();
        assert!(outage.suspect(s(10), "connection closed"), "somebody looks");
        assert!(!outage.suspect(s(11), "connection refused"), "somebody looks already");
        assert_eq!(
            outage.silent(s(12), AT).as_deref(),
            Some(
                "no broker of here:9092 answers for 2.0 s now (connection closed); nothing is lost: what is not committed is kept, \
                 and the work goes on once one answers"
            )
        );
        for second in 13..70 {
            assert!(!outage.suspect(s(second), "connection refused"));
            assert_eq!(outage.silent(s(second), AT), None);
        }
        assert_eq!(outage.answered(s(70), AT).as_deref(), Some("a broker of here:9092 answers again, after 60.0 s"));
        assert_eq!(outage.answered(s(71), AT), None);
    }

    #[test]
    fn a_connection_that_breaks_while_a_broker_answers_is_not_worth_a_line() {
        let mut outage = Outage::default();
        assert!(outage.suspect(s(10), "connection closed"));
        assert_eq!(outage.answered(s(11), AT), None);
        assert!(!outage.suspect(s(12), "connection closed"), "it was just found to be there");
        assert!(outage.suspect(s(16), "connection closed"));
    }

    #[test]
    fn a_second_outage_is_told_like_the_first() {
        let mut outage = Outage::default();
        for start in [100, 200] {
            assert!(outage.suspect(s(start), "closed"));
            assert!(outage.silent(s(start + 2), AT).is_some());
            assert!(outage.answered(s(start + 30), AT).unwrap().ends_with("after 30.0 s"));
        }
    }

    #[test]
    fn a_line_that_only_counts_on_is_said_once_and_again_after_a_while_without_it() {
        let mut repeats = Repeats::default();
        assert!(repeats.is_new(s(0), "timed out after 6001 ms"));
        for second in 1..300 {
            assert!(!repeats.is_new(s(second), &format!("timed out after {} ms", 6000 + second)));
        }
        assert!(repeats.is_new(s(299), "disconnected"), "another line");
        assert!(repeats.is_new(s(360), "timed out after 9 ms"));
    }

    #[test]
    fn lines_that_never_repeat_do_not_fill_the_memory() {
        let mut repeats = Repeats::default();
        let word = |number: u64| (0..14).map(|bit| if number >> bit & 1 == 1 { 'x' } else { 'y' }).collect::<String>();
        for number in 0..10_000 {
            assert!(repeats.is_new(s(number), &word(number)));
        }
        assert!(repeats.said.len() <= KINDS_MAX, "{}", repeats.said.len());
    }
}
