//! What happened, in order: a hash of every line, to compare two runs bit for bit, and the last lines, to read.

use std::collections::VecDeque;

/// FNV-1a over all lines, and as many of the last ones as asked for.
pub(crate) struct Trace {
    hash: u64,
    count: u64,
    keep: usize,
    lines: VecDeque<String>,
}

impl Trace {
    pub(crate) fn new(keep: usize) -> Self {
        Trace { hash: 0xcbf2_9ce4_8422_2325, count: 0, keep, lines: VecDeque::new() }
    }

    pub(crate) fn push(&mut self, line: String) {
        for byte in line.bytes().chain([b'\n']) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self.count += 1;
        if self.keep == 0 {
            return;
        }
        if self.lines.len() == self.keep {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_covers_lines_that_are_no_longer_kept() {
        let (mut a, mut b) = (Trace::new(1), Trace::new(1));
        a.push("one".into());
        b.push("two".into());
        a.push("same".into());
        b.push("same".into());
        assert_eq!(a.lines(), b.lines());
        assert_ne!(a.hash(), b.hash());
        assert_eq!(a.count(), 2);
    }
}
