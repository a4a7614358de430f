//! What this process has used, as the system counts it.

use std::fs;
use std::time::Duration;

/// User and system time of all threads of this process. `None` on systems without `/proc`.
pub fn cpu_time() -> Option<Duration> {
    cpu_time_of("self")
}

/// The same of another process, by its number.
pub fn cpu_time_of(process: &str) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The program's name stands in parentheses and may hold anything; fields are counted from behind it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    // Linux reports in hundredths of a second on every architecture.
    Some(Duration::from_millis(ticks * 10))
}

/// The most memory that this process had resident so far, in KiB. `None` on systems without `/proc`.
pub fn peak_rss_kib() -> Option<u64> {
    status("self", "VmHWM:")
}

/// The memory that this process has resident now, in KiB. `None` on systems without `/proc`.
pub fn rss_kib() -> Option<u64> {
    rss_kib_of("self")
}

/// The same of another process, by its number.
pub fn rss_kib_of(process: &str) -> Option<u64> {
    status(process, "VmRSS:")
}

fn status(process: &str, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_system_says_what_we_used() {
        assert!(cpu_time().is_some());
        // The kernel sums both up from counters of threads that lag behind, so neither is compared with the other.
        assert!(peak_rss_kib().unwrap() > 100);
        assert!(rss_kib().unwrap() > 100);
    }
}
