//! How a hot store follows what is accessed: heat cools, HeatLimit follows the room, and the store
//! turns itself off and on.

use std::mem;

use cleavedb_base::sync::atomic::Ordering;

use super::{Fill, HotStore, sum};
use crate::evacuation::{self, LIMIT_MIN_OF_WRITES, LIMIT_OFF};
use crate::worth::{Use, Worth};

/// Reads of one counter after which heat is cooled and the store judged, if no flush does so: as
/// often as there are that many reads of all.
pub(super) const ADAPTED: u64 = 1 << 16;

/// What is judged from time to time.
pub(super) struct Judged {
    worth: Worth,
    /// As the last flush has left it.
    fill: Fill,
    /// Reads and all accesses until then.
    reads: u64,
    accesses: u64,
    /// See [`HotStore::reads_lately`].
    reads_share: u64,
}

impl Judged {
    pub(super) fn new(half_life: u64) -> Self {
        let (worth, fill) = (Worth::new(half_life), Fill::default());
        Self { worth, fill, reads: 0, accesses: 0, reads_share: 0 }
    }
}

impl HotStore {
    /// Whether keys may be hot: see [`Worth`] and [`HotStore::pause`].
    pub fn is_on(&self) -> bool {
        self.limit() != LIMIT_OFF && !self.paused.load(Ordering::Relaxed)
    }

    /// While `paused`, no key becomes hot, and evacuations demote all: for a caller that needs
    /// every key in its place in the index.
    pub fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::Relaxed);
    }

    /// Halves all heat if a half-life of accesses has passed, and adapts HeatLimit.
    pub fn adapt(&self, fill: Fill) {
        let mut judged = self.judged.lock();
        judged.fill = fill;
        self.capacity.store(fill.capacity, Ordering::Relaxed);
        let pays = self.cool_and_judge(&mut judged);
        let (filled, reads) = (self.filled(fill), self.reads_lately(&mut judged));
        self.set_limit(pays, |limit| evacuation::next_limit(limit, filled, reads));
    }

    /// Hundredths of the store that live records fill, in bytes or in keys.
    fn filled(&self, fill: Fill) -> u64 {
        let keys = self.len() as u64 * 100 / self.keys_max;
        keys.max(fill.live.saturating_mul(100) / fill.capacity.max(1))
    }

    /// Reads in a hundred of the accesses since the last call, or before if there were none.
    fn reads_lately(&self, judged: &mut Judged) -> u64 {
        let reads = sum(&self.reads);
        let accesses = reads + self.writes.load(Ordering::Relaxed);
        let new_reads = reads - mem::replace(&mut judged.reads, reads);
        let new = accesses - mem::replace(&mut judged.accesses, accesses);
        judged.reads_share = (100 * new_reads).checked_div(new).unwrap_or(judged.reads_share);
        judged.reads_share
    }

    /// Adapts as [`Self::adapt`] does, but that HeatLimit does not rise, since reads alone fill no
    /// room: where there are no flushes, heat must cool, and a store that is off be tried again.
    #[cold]
    pub(super) fn adapt_to_reads(&self) {
        if let Some(mut judged) = self.judged.try_lock() {
            let pays = self.cool_and_judge(&mut judged);
            let (filled, reads) = (self.filled(judged.fill), self.reads_lately(&mut judged));
            let next = |limit| evacuation::next_limit(limit, filled, reads);
            self.set_limit(pays, |limit| next(limit).min(limit));
        }
    }

    /// Halves all heat if a half-life of accesses has passed. Returns whether the store pays.
    fn cool_and_judge(&self, judged: &mut Judged) -> bool {
        let accesses = sum(&self.reads) + self.writes.load(Ordering::Relaxed);
        if accesses.saturating_sub(self.halved.load(Ordering::Relaxed)) >= self.half_life {
            self.halved.store(accesses, Ordering::Relaxed);
            self.index.halve();
            self.sketch.halve();
        }
        let hits = sum(&self.hits) + self.write_hits.load(Ordering::Relaxed);
        let fill = judged.fill;
        judged.worth.judge(Use { accesses, hits, hot: fill.live, live: fill.all_live })
    }

    /// Turns the store on or off, or changes HeatLimit to the `next` one; a fixed one stays.
    fn set_limit(&self, pays: bool, next: impl FnOnce(u8) -> u8) {
        let limit = match (pays, self.limit()) {
            _ if self.fixed_limit.is_some() => return,
            (false, _) => LIMIT_OFF,
            (true, LIMIT_OFF) => LIMIT_MIN_OF_WRITES,
            (true, limit) => next(limit),
        };
        self.limit.store(limit, Ordering::Relaxed);
    }
}
