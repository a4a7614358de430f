//! What was handed out of one partition, and how much of it is finished.

use std::collections::VecDeque;

use flow_core::Offset;

/// Offsets rise, and have gaps: of what was not handed out (markers, aborted records, compacted ones) nothing is unfinished.
pub(super) struct Ledger {
    committed: Offset,
    /// Behind the longest run of finished records.
    finished: Offset,
    /// What is not in that run, in order, and whether it is finished.
    open: VecDeque<(Offset, bool)>,
}

impl Ledger {
    pub(super) fn new(from: Offset) -> Self {
        Ledger { committed: from, finished: from, open: VecDeque::new() }
    }

    pub(super) fn hand_out(&mut self, offset: Offset) {
        self.open.push_back((offset, false));
    }

    /// False if it was not handed out, or is finished already.
    pub(super) fn finish(&mut self, offset: Offset) -> bool {
        let Ok(at) = self.open.binary_search_by_key(&offset, |(offset, _)| *offset) else { return false };
        let first_time = !std::mem::replace(&mut self.open[at].1, true);
        while let Some((offset, true)) = self.open.front() {
            self.finished = Offset(offset.0 + 1);
            self.open.pop_front();
        }
        first_time
    }

    /// The offset to commit, if it is not committed already.
    pub(super) fn to_commit(&self) -> Option<Offset> {
        (self.finished > self.committed).then_some(self.finished)
    }

    pub(super) fn committed(&mut self, offset: Offset) {
        self.committed = offset;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_never_passes_a_record_that_is_not_finished() {
        let mut ledger = Ledger::new(Offset(10));
        // 11 to 13 are no records.
        [10, 14, 15, 20].into_iter().for_each(|offset| ledger.hand_out(Offset(offset)));
        assert_eq!(ledger.to_commit(), None);
        assert!(ledger.finish(Offset(20)) && ledger.finish(Offset(14)));
        assert_eq!(ledger.to_commit(), None, "10 is open");
        assert!(ledger.finish(Offset(10)));
        assert_eq!(ledger.to_commit(), Some(Offset(15)), "14 was finished before");
        ledger.committed(Offset(15));
        assert_eq!(ledger.to_commit(), None);
        assert!(ledger.finish(Offset(15)));
        assert_eq!(ledger.to_commit(), Some(Offset(21)));
    }

    #[test]
    fn what_was_not_handed_out_or_is_finished_cannot_be_finished() {
        let mut ledger = Ledger::new(Offset(0));
        ledger.hand_out(Offset(0));
        ledger.hand_out(Offset(1));
        assert!(!ledger.finish(Offset(7)));
        assert!(ledger.finish(Offset(1)) && !ledger.finish(Offset(1)));
        assert!(ledger.finish(Offset(0)) && !ledger.finish(Offset(0)));
        assert_eq!(ledger.to_commit(), Some(Offset(2)));
    }
}
