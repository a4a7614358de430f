//! What a run came to, for people and for programs.

use serde::Serialize;

use crate::Verdict;
use crate::progress::grouped;
use crate::workers::Done;

/// The outcome of a run.
pub(crate) struct Outcome {
    pub(crate) example: &'static str,
    pub(crate) records: u64,
    pub(crate) outputs: u64,
    pub(crate) seconds: f64,
    pub(crate) done: Done,
    pub(crate) kills: usize,
    pub(crate) verdict: Verdict,
}

#[derive(Serialize)]
struct Line<'a> {
    example: &'a str,
    records: u64,
    outputs: u64,
    seconds: f64,
    records_per_second: u64,
    commits: u64,
    aborts: u64,
    timers: u64,
    kills: usize,
    missing: u64,
    extra: u64,
    reordered: u64,
    misplaced: u64,
    exact: bool,
}

impl Outcome {
    fn rate(&self) -> u64 {
        (self.records as f64 / self.seconds.max(0.001)) as u64
    }

    /// The summary that people read; `results` says what the results are.
    pub(crate) fn text(&self, results: &str) -> String {
        let Done { records: processed, commits, aborts, timers, .. } = self.done;
        let mut text = format!("{}\n", self.example);
        let mut row = |name: &str, what: String| text.push_str(&format!("  {name:<9} {what}\n"));
        row(
            "records",
            format!("{} in {:.2} s, {} a second", grouped(self.records), self.seconds, grouped(self.rate())),
        );
        if processed != self.records {
            row(
                "",
                format!(
                    "{} processed, with those of repartition topics and those that a crash repeated",
                    grouped(processed)
                ),
            );
        }
        let again = if aborts > 0 { format!(", {} aborted and sent again", grouped(aborts)) } else { String::new() };
        row("commits", format!("{}{again}", grouped(commits)));
        row("timers", format!("{} fired", grouped(timers)));
        row("results", format!("{} {results}", grouped(self.outputs)));
        if self.kills > 0 {
            row("killed", format!("{} of the processes, inside a transaction", self.kills));
        }
        row("check", self.verdict.to_string());
        text.truncate(text.trim_end().len());
        text
    }

    /// The one line that programs read.
    pub(crate) fn json(&self) -> String {
        let Verdict { missing, extra, reordered, misplaced, .. } = self.verdict;
        let line = Line {
            example: self.example,
            records: self.records,
            outputs: self.outputs,
            seconds: (self.seconds * 1_000.0).round() / 1_000.0,
            records_per_second: self.rate(),
            commits: self.done.commits,
            aborts: self.done.aborts,
            timers: self.done.timers,
            kills: self.kills,
            missing,
            extra,
            reordered,
            misplaced,
            exact: self.verdict.exact(),
        };
        serde_json::to_string(&line).expect("numbers and plain text")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_for_programs_says_whether_the_result_was_exact() {
        let done = Done { records: 10, commits: 2, timers: 3, ..Done::default() };
        let mut outcome = Outcome {
            example: "sessions",
            records: 10,
            outputs: 3,
            seconds: 0.5,
            done,
            kills: 0,
            verdict: Verdict::default(),
        };
        let line = r#"{"example":"sessions","records":10,"outputs":3,"seconds":0.5,"records_per_second":20,"commits":2,"aborts":0,"timers":3,"kills":0,"missing":0,"extra":0,"reordered":0,"misplaced":0,"exact":true}"#;
        assert_eq!(outcome.json(), line);
        outcome.verdict.missing = 1;
        assert!(outcome.json().ends_with(r#""missing":1,"extra":0,"reordered":0,"misplaced":0,"exact":false}"#));
    }
}
