//! Publishes parallel commits in commit order.
//!
//! Commits take tickets in commit order under the append lock, store their records and entries in
//! parallel, and complete in any order. The publisher makes a ticket visible once it and every
//! ticket before it are complete: then all log bytes below it are stored and all entries below it
//! can be found. The commit that completes last publishes for all waiting ones.

use cleavedb_base::SeqNo;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use cleavedb_base::sync::{Condvar, Mutex, hint, thread};

/// Most commits in flight at once; further ones wait for the oldest. A power of two; under a
/// checker so small that slots are reused.
const IN_FLIGHT_MAX: u64 = if cfg!(feature = "test-checked") { 2 } else { 256 };

/// Number of checks of a waiting commit before it yields its processor, and then before it sleeps.
/// The commit that it waits for takes well under a microsecond, unless its thread was preempted. In
/// loom it never sleeps: loom treats sequentially consistent accesses, on which falling asleep
/// relies, as weaker ones. In shuttle it sleeps at once.
const SPINS: u32 = if cfg!(feature = "test-checked") { 0 } else { 100 };
const YIELDS: u32 = if cfg!(feature = "test-loom") {
    u32::MAX
} else if cfg!(feature = "test-shuttle") {
    0
} else {
    50
};

/// One commit in flight. On a cache line of its own, since neighbours are written by different
/// threads.
#[derive(Default)]
#[repr(align(64))]
struct InFlight {
    /// Ticket + 1 once complete.
    complete: AtomicU64,
    last_seq: AtomicU64,
    filled: AtomicU64,
}

/// Publishes commits in the order of their tickets.
pub(crate) struct Publisher {
    in_flight: Box<[InFlight]>,
    /// Next ticket to publish.
    head: Mutex<u64>,
    /// Copy of `head` that is read without the lock.
    published: AtomicU64,
    visible: AtomicU64,
    sleepers: AtomicUsize,
    sleep: Mutex<()>,
    wake: Condvar,
}

impl Publisher {
    /// A publisher with everything up to `visible` visible.
    pub(crate) fn new(visible: SeqNo) -> Self {
        Self {
            in_flight: (0..IN_FLIGHT_MAX).map(|_| InFlight::default()).collect(),
            head: Mutex::new(0),
            published: AtomicU64::new(0),
            visible: AtomicU64::new(visible),
            sleepers: AtomicUsize::new(0),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Greatest visible sequence number.
    #[inline]
    pub(crate) fn visible(&self) -> SeqNo {
        self.visible.load(Ordering::Acquire)
    }

    /// Makes everything up to `seq` visible, where there are no tickets.
    pub(crate) fn follow(&self, seq: SeqNo) {
        self.visible.fetch_max(seq, Ordering::Release);
    }

    /// Waits until `ticket` may be in flight. The caller holds the append lock.
    #[inline]
    pub(crate) fn admit(&self, ticket: u64) {
        while ticket - self.published.load(Ordering::Acquire) >= IN_FLIGHT_MAX {
            thread::yield_now();
        }
    }

    /// Completes `ticket`, whose last sequence number is `last_seq` and whose log bytes end at
    /// `filled`; `publish` is called with the greatest end that became complete, and the greatest
    /// sequence number.
    #[inline]
    pub(crate) fn complete(
        &self,
        ticket: u64,
        last_seq: SeqNo,
        filled: u64,
        publish: impl Fn(u64, SeqNo),
    ) {
        let own = &self.in_flight[(ticket % IN_FLIGHT_MAX) as usize];
        own.last_seq.store(last_seq, Ordering::Relaxed);
        own.filled.store(filled, Ordering::Relaxed);
        own.complete.store(ticket + 1, Ordering::Release);
        if planted(Bug::PublishedOutOfOrder) {
            publish(filled, last_seq);
            self.visible.store(last_seq, Ordering::Release);
        }
        let mut head = self.head.lock();
        let mut newest = None;
        loop {
            let next = &self.in_flight[(*head % IN_FLIGHT_MAX) as usize];
            if next.complete.load(Ordering::Acquire) != *head + 1 {
                break;
            }
            newest =
                Some((next.last_seq.load(Ordering::Relaxed), next.filled.load(Ordering::Relaxed)));
            *head += 1;
        }
        if let Some((seq, filled)) = newest {
            // Bytes first: a reader that sees an entry may read its record.
            publish(filled, seq);
            let publishing =
                if planted(Bug::VisibleUnordered) { Ordering::Relaxed } else { Ordering::Release };
            self.visible.store(seq, publishing);
            self.published.store(*head, Ordering::SeqCst);
        }
        drop(head);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // Waits for a thread that has decided to sleep but does not sleep yet.
            if !planted(Bug::SleeperMissed) {
                drop(self.sleep.lock());
            }
            self.wake.notify_all();
        }
    }

    /// Waits until every ticket up to `ticket` is published.
    #[inline]
    pub(crate) fn wait(&self, ticket: u64) {
        if self.published.load(Ordering::Acquire) > ticket {
            return;
        }
        self.wait_slowly(ticket);
    }

    #[cold]
    fn wait_slowly(&self, ticket: u64) {
        let published = || self.published.load(Ordering::SeqCst) > ticket;
        for _ in 0..SPINS {
            if published() {
                return;
            }
            hint::spin_loop();
        }
        for _ in 0..YIELDS {
            if published() {
                return;
            }
            thread::yield_now();
        }
        let mut sleep = self.sleep.lock();
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !published() {
            self.wake.wait(&mut sleep);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_ticket_is_visible_only_after_all_before_it() {
        let publisher = Publisher::new(10);
        let filled = AtomicU64::new(0);
        let publish = |to, _| filled.store(to, Ordering::Relaxed);
        publisher.complete(1, 12, 200, publish);
        assert_eq!((publisher.visible(), filled.load(Ordering::Relaxed)), (10, 0));
        publisher.complete(0, 11, 100, publish);
        assert_eq!((publisher.visible(), filled.load(Ordering::Relaxed)), (12, 200));
        publisher.wait(1);
    }

    #[test]
    fn many_threads_publish_in_order() {
        let publisher = Publisher::new(0);
        let tickets = Mutex::new(0u64);
        let failed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let ticket = {
                            let mut next = tickets.lock();
                            publisher.admit(*next);
                            *next += 1;
                            *next - 1
                        };
                        publisher.complete(ticket, ticket + 1, ticket, |_, _| {});
                        publisher.wait(ticket);
                        if publisher.visible() < ticket + 1 {
                            failed.store(true, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert!(!failed.load(Ordering::Relaxed));
        assert_eq!(publisher.visible(), 80_000);
    }
}
