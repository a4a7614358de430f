//! Shows that a run goes on: one line that changes on a terminal, a line every few seconds elsewhere. Always on standard error.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use crate::now;

/// The progress of a run.
pub(crate) struct Progress {
    terminal: bool,
    last: Instant,
    written: bool,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        Progress { terminal: stderr().is_terminal(), last: now(), written: false }
    }

    /// Shows `line` if it is time to.
    pub(crate) fn show(&mut self, line: impl FnOnce() -> String) {
        let every = if self.terminal { Duration::from_millis(200) } else { Duration::from_secs(3) };
        if self.last.elapsed() < every {
            return;
        }
        self.last = now();
        let (before, after) = if self.terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        // Nobody is there to be told that standard error is gone.
        let _ = write!(stderr(), "{before}{}{after}", line());
        let _ = stderr().flush();
        self.written = self.terminal;
    }

    /// Writes a line that stays.
    pub(crate) fn say(&mut self, line: &str) {
        self.clear();
        let _ = writeln!(stderr(), "{line}");
    }

    /// Takes the changing line away.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.written) {
            let _ = write!(stderr(), "\r\x1b[K");
            let _ = stderr().flush();
        }
    }
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!([7, 999, 1_000, 12_345_678].map(grouped), ["7", "999", "1,000", "12,345,678"]);
    }
}
