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

/// How far something with an end is: `[######--------------] 32 %`.
pub(crate) fn bar(have: u64, need: u64) -> String {
    const WIDTH: u128 = 20;
    let (have, need) = (u128::from(have.min(need)), u128::from(need.max(1)));
    let full = (have * WIDTH / need) as usize;
    format!("[{}{}] {:>3} %", "#".repeat(full), "-".repeat(WIDTH as usize - full), have * 100 / need)
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
    use super::{bar, grouped};

    #[test]
    fn a_bar_is_full_at_the_end_and_not_before() {
        assert_eq!(bar(0, 300), "[--------------------]   0 %");
        assert_eq!(bar(150, 300), "[##########----------]  50 %");
        assert_eq!(bar(299, 300), "[###################-]  99 %");
        assert_eq!(bar(300, 300), "[####################] 100 %");
        assert_eq!(bar(9, 3), bar(3, 3));
        assert_eq!(bar(0, 0), bar(0, 1));
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!([7, 999, 1_000, 12_345_678].map(grouped), ["7", "999", "1,000", "12,345,678"]);
    }
}
