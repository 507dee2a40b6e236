//! StoreAtRest: while nothing is written, what is dead gives way to less than writers are allowed.
//!
//! Dead values, and versions that level 0 hides, are spare space that makes writing cheap. A store
//! that is written no more has no use for it: so once threads without work have looked twice and
//! found nothing written between, its goals shrink, and ordinary jobs bring it there, slowly, until
//! the next writes (decision 0069).

use cleavedb_base::sync::atomic::{AtomicU64, Ordering};

/// Bytes that may be written while a store is at rest.
const LITTLE: u64 = 1 << 20;

/// Most bytes of value files for a live byte at rest.
pub(crate) const AMPLIFICATION: f64 = 1.15;

/// Part of the dead bytes that are always tolerated which is tolerated at rest, as a divisor.
pub(crate) const FLOOR_PART: u64 = 8;

/// Part of the index that level 0 may be at rest, as a divisor.
pub(crate) const LEVEL0_PART: u64 = 4;

/// When the store was seen at rest, in bytes written by then, counted from 1; 0 for never.
#[derive(Debug, Default)]
pub(crate) struct StoreAtRest {
    seen: AtomicU64,
    begun: AtomicU64,
}

impl StoreAtRest {
    /// Looks at the store once more, of which `written` bytes were written; returns whether it
    /// begins to rest: if nothing was since the last look, which another thread may have taken just
    /// before.
    pub(crate) fn look(&self, written: u64) -> bool {
        let unchanged = self.seen.swap(written + 1, Ordering::Relaxed) == written + 1;
        let begins = unchanged && written > 0 && !self.lasts(written);
        if begins {
            self.begun.store(written + 1, Ordering::Relaxed);
        }
        begins
    }

    /// Ends the rest: a caller waits for the jobs that are due without it.
    pub(crate) fn end(&self) {
        self.begun.store(0, Ordering::Relaxed);
    }

    /// Whether the store, of which `written` bytes were written, is at rest. A number that was read
    /// before the rest began is one of the rest.
    pub(crate) fn lasts(&self, written: u64) -> bool {
        let begun = self.begun.load(Ordering::Relaxed);
        begun > 0 && written + 1 < begun + LITTLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_rests_until_it_is_written() {
        let rest = StoreAtRest::default();
        assert!(!rest.look(0) && !rest.look(0), "nothing was written in this session");
        assert!(!rest.look(500) && !rest.lasts(500), "it may have been written just now");
        assert!(rest.look(500) && rest.lasts(500) && !rest.look(500));
        assert!(rest.lasts(500 + LITTLE / 2) && !rest.lasts(500 + LITTLE));
        assert!(rest.lasts(400), "a number that was read before is no write");
        assert!(!rest.look(500 + LITTLE) && rest.look(500 + LITTLE));
        rest.end();
        assert!(!rest.lasts(500 + LITTLE) && rest.look(500 + LITTLE), "it may begin again");
    }
}
