//! The timers of one store: one deadline per entry and declared timer, and two heaps that find what is due.
//!
//! Setting a pending timer again must cost nanoseconds, so the heaps are lazy. A heap holds one place per timer at most that
//! counts (`queued`), at or before its real deadline. Moving a deadline later only moves the deadline: when the place comes up it
//! is put back where it belongs. Cancelling leaves the place where it is. Only moving a deadline before its place makes a second
//! place, and the first one counts no more.
//!
//! Timers fire in the order of deadline, key bytes and declaration, which a restart does not change; so what is due at one deadline
//! is handed out together, and the store, which knows the keys, sorts it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::flow::{Clock, Timer};

/// The deadline of a timer that is not pending.
pub(crate) const NEVER: i64 = i64::MAX;

/// A timer that is due.
#[derive(Clone, Copy)]
pub(crate) struct Due {
    pub(crate) at: u32,
    pub(crate) timer: u32,
    pub(crate) deadline: i64,
    generation: u32,
}

/// A place in a heap: deadline, then which timer of which life of a slot.
type Place = Reverse<(i64, u32, u32)>;

#[derive(Default)]
struct Heap {
    places: BinaryHeap<Place>,
    /// How many places count no more.
    stale: usize,
}

pub(crate) struct Timers {
    declared: &'static [Timer],
    /// Per slot and timer: when it is due.
    deadlines: Vec<i64>,
    /// Per slot and timer: its place in the heap that counts.
    queued: Vec<i64>,
    /// Per slot: which life of the slot this is. A place of an earlier life counts no more.
    generations: Vec<u32>,
    event: Heap,
    wall: Heap,
    /// What deadlines were before, while a record may have to be undone.
    journal: Vec<(u32, i64)>,
    pub(crate) journaled: bool,
}

impl Timers {
    pub(crate) fn new(declared: &'static [Timer]) -> Self {
        Timers {
            declared,
            deadlines: Vec::new(),
            queued: Vec::new(),
            generations: Vec::new(),
            event: Heap::default(),
            wall: Heap::default(),
            journal: Vec::new(),
            journaled: false,
        }
    }

    pub(crate) fn declared(&self) -> &'static [Timer] {
        self.declared
    }

    /// Which of the declared timers this is.
    #[inline]
    pub(crate) fn index_of(&self, timer: Timer) -> Option<usize> {
        self.declared.iter().position(|declared| *declared == timer)
    }

    /// Room for one more slot.
    pub(crate) fn add_slot(&mut self) {
        if !self.declared.is_empty() {
            let len = self.deadlines.len() + self.declared.len();
            self.deadlines.resize(len, NEVER);
            self.queued.resize(len, NEVER);
            self.generations.push(0);
        }
    }

    /// The slot's life ends; its next one starts without timers.
    pub(crate) fn free_slot(&mut self, at: u32) {
        if self.declared.is_empty() {
            return;
        }
        for timer in 0..self.declared.len() {
            let index = self.index(at, timer);
            self.deadlines[index] = NEVER;
            if std::mem::replace(&mut self.queued[index], NEVER) != NEVER {
                self.heap(timer).stale += 1;
            }
        }
        self.generations[at as usize] = self.generations[at as usize].wrapping_add(1);
        self.sweep();
    }

    #[inline]
    fn index(&self, at: u32, timer: usize) -> usize {
        at as usize * self.declared.len() + timer
    }

    #[inline]
    fn heap(&mut self, timer: usize) -> &mut Heap {
        match self.declared[timer].clock() {
            Clock::Event => &mut self.event,
            Clock::Wall => &mut self.wall,
        }
    }

    /// When a timer is due; [`NEVER`] if it is not pending.
    #[inline]
    pub(crate) fn deadline(&self, at: u32, timer: usize) -> i64 {
        self.deadlines[self.index(at, timer)]
    }

    /// Sets, moves or (with [`NEVER`]) cancels a timer.
    #[inline]
    pub(crate) fn set(&mut self, at: u32, timer: usize, deadline: i64) {
        let index = self.index(at, timer);
        let before = std::mem::replace(&mut self.deadlines[index], deadline);
        if self.journaled && before != deadline {
            self.journal.push((index as u32, before));
        }
        if deadline < self.queued[index] {
            self.place(at, timer, index, deadline);
        }
    }

    fn place(&mut self, at: u32, timer: usize, index: usize, deadline: i64) {
        let generation = self.generations[at as usize];
        let superseded = std::mem::replace(&mut self.queued[index], deadline) != NEVER;
        let heap = self.heap(timer);
        heap.places.push(Reverse((deadline, index as u32, generation)));
        if superseded {
            heap.stale += 1;
            self.sweep();
        }
    }

    /// Cancels all timers of a slot: its state is gone.
    #[inline]
    pub(crate) fn cancel_all(&mut self, at: u32) {
        for timer in 0..self.declared.len() {
            if self.deadline(at, timer) != NEVER {
                self.set(at, timer, NEVER);
            }
        }
    }

    /// True if something may be due; a cheap look before [`Timers::due`].
    #[inline]
    pub(crate) fn may_be_due(&self, clock: Clock, now: i64) -> bool {
        let heap = match clock {
            Clock::Event => &self.event,
            Clock::Wall => &self.wall,
        };
        heap.places.peek().is_some_and(|Reverse((deadline, ..))| *deadline <= now)
    }

    /// No timer of the wall clock is due before this.
    pub(crate) fn next_wall(&self) -> Option<i64> {
        self.wall.places.peek().map(|Reverse((deadline, ..))| *deadline)
    }

    /// Appends all timers that are due at the earliest deadline not after `now`, in no order. They stay pending until
    /// [`Timers::still_due`] and [`Timers::set`].
    pub(crate) fn due(&mut self, clock: Clock, now: i64, ready: &mut Vec<Due>) {
        while self.may_be_due(clock, now) {
            let heap = if clock == Clock::Event { &mut self.event } else { &mut self.wall };
            let Some(&Reverse((place, index, generation))) = heap.places.peek() else { return };
            if ready.first().is_some_and(|first| first.deadline < place) {
                return;
            }
            heap.places.pop();
            let (at, timer) = (index / self.declared.len() as u32, index as usize % self.declared.len());
            if self.generations[at as usize] != generation || self.queued[index as usize] != place {
                heap.stale = heap.stale.saturating_sub(1);
                continue;
            }
            let deadline = self.deadlines[index as usize];
            self.queued[index as usize] = NEVER;
            if deadline == place {
                ready.push(Due { at, timer: timer as u32, deadline, generation });
            } else if deadline != NEVER {
                self.place(at, timer, index as usize, deadline);
            }
        }
    }

    /// False if an earlier handler cancelled or moved the timer, or ended its key's life.
    #[inline]
    pub(crate) fn still_due(&self, due: &Due) -> bool {
        self.generations[due.at as usize] == due.generation && self.deadline(due.at, due.timer as usize) == due.deadline
    }

    pub(crate) fn journal_len(&self) -> usize {
        self.journal.len()
    }

    /// Puts deadlines back to what they were when the journal had this length.
    pub(crate) fn rollback(&mut self, to: usize) {
        let journaled = std::mem::replace(&mut self.journaled, false);
        while self.journal.len() > to {
            if let Some((index, before)) = self.journal.pop() {
                let declared = self.declared.len() as u32;
                self.set(index / declared, (index % declared) as usize, before);
            }
        }
        self.journaled = journaled;
    }

    pub(crate) fn forget_journal(&mut self) {
        self.journal.clear();
    }

    /// Rebuilds a heap once most of its places count no more, so that short lives of keys cannot fill it.
    fn sweep(&mut self) {
        let (queued, generations, declared) = (&self.queued, &self.generations, self.declared.len() as u32);
        for heap in [&mut self.event, &mut self.wall] {
            if heap.stale > 64 && heap.stale > heap.places.len() / 2 {
                heap.places.retain(|Reverse((place, index, generation))| {
                    queued[*index as usize] == *place && generations[(*index / declared) as usize] == *generation
                });
                heap.stale = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMERS: &[Timer] = &[Timer::event_time("a"), Timer::wall_clock("b")];

    fn timers(slots: u32) -> Timers {
        let mut timers = Timers::new(TIMERS);
        (0..slots).for_each(|_| timers.add_slot());
        timers
    }

    fn due(timers: &mut Timers, now: i64) -> Vec<(u32, i64)> {
        let mut all = Vec::new();
        loop {
            let mut ready = Vec::new();
            timers.due(Clock::Event, now, &mut ready);
            if ready.is_empty() {
                return all;
            }
            for due in ready {
                assert!(timers.still_due(&due));
                timers.set(due.at, due.timer as usize, NEVER);
                all.push((due.at, due.deadline));
            }
        }
    }

    #[test]
    fn a_timer_that_is_moved_later_fires_once_and_at_its_last_deadline() {
        let mut timers = timers(2);
        for deadline in [10, 20, 30] {
            timers.set(0, 0, deadline);
        }
        timers.set(1, 0, 25);
        assert_eq!(timers.event.places.len(), 2);
        assert_eq!(due(&mut timers, 24), []);
        assert_eq!(due(&mut timers, 100), [(1, 25), (0, 30)]);
        assert_eq!(due(&mut timers, 100), []);
    }

    #[test]
    fn a_timer_that_is_moved_earlier_fires_once() {
        let mut timers = timers(1);
        timers.set(0, 0, 10);
        timers.set(0, 0, 5);
        assert_eq!(due(&mut timers, 100), [(0, 5)]);
        timers.set(0, 0, 10);
        assert_eq!(due(&mut timers, 100), [(0, 10)]);
    }

    #[test]
    fn setting_and_cancelling_for_ever_does_not_grow_the_heap() {
        let mut timers = timers(1);
        for round in 0..10_000 {
            timers.set(0, 0, 1_000_000 + round);
            timers.set(0, 0, NEVER);
        }
        assert_eq!(timers.event.places.len(), 1);
        for round in 0..10_000 {
            timers.set(0, 0, 1_000_000 - round);
            timers.free_slot(0);
        }
        assert!(timers.event.places.len() < 200, "{}", timers.event.places.len());
        assert_eq!(due(&mut timers, i64::MAX - 1), []);
    }

    #[test]
    fn a_slot_that_is_used_again_does_not_hear_the_timers_of_its_last_life() {
        let mut timers = timers(1);
        timers.set(0, 0, 10);
        timers.free_slot(0);
        timers.set(0, 0, 17);
        assert_eq!(due(&mut timers, 16), []);
        assert_eq!(due(&mut timers, 20), [(0, 17)]);
    }

    #[test]
    fn rolling_back_puts_deadlines_back_and_keeps_them_firing() {
        let mut timers = timers(1);
        timers.set(0, 0, 10);
        timers.journaled = true;
        let mark = timers.journal_len();
        assert_eq!(due(&mut timers, 15), [(0, 10)]);
        timers.set(0, 0, 40);
        timers.set(0, 1, 7);
        timers.rollback(mark);
        assert_eq!(timers.deadline(0, 0), 10);
        assert_eq!(timers.deadline(0, 1), NEVER);
        assert_eq!(due(&mut timers, 15), [(0, 10)]);
    }
}
