//! `--verbose`: what the library and its client say, on standard error.

use std::io::Write;
use std::time::Instant;

use crate::now;

struct Lines {
    start: Instant,
}

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let (process, seconds) = (std::process::id(), self.start.elapsed().as_secs_f64());
        // In one piece: several processes write to the same terminal.
        let line = format!("[{process} {seconds:7.3}] {} {}: {}\n", record.level(), record.target(), record.args());
        // Nobody is there to be told that standard error is gone.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }

    fn flush(&self) {}
}

/// Shows what is logged from now on. A second call changes nothing.
pub(crate) fn show() {
    if log::set_logger(Box::leak(Box::new(Lines { start: now() }))).is_ok() {
        log::set_max_level(log::LevelFilter::Info);
    }
}
