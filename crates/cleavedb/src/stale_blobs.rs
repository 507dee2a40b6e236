//! Blobs that a newer version of their key hides, and the compactions that let them go.
//!
//! A blob goes when a compaction drops its entry, and few other writes may lead to none there for
//! long. So a flush remembers the keys of blobs that it hides; the manifest has the hash of each.
//! Once they take more than the space goal tolerates as garbage, and no other compaction is due,
//! the key of the longest one is compacted. A reopen forgets them: then they wait for others.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use cleavedb_base::checksum::hash64;
use cleavedb_base::sync::Mutex;
use cleavedb_base::{FileNumber, SeqNo};
use cleavedb_index::Version;
use cleavedb_index::compaction::range::{RangeGoal, RangeStep, pick_range};
use cleavedb_index::compaction::{Compaction, CompactionOptions, Constraints};
use cleavedb_values::victim::SpaceGoal;

use crate::manifest::LiveFiles;
use crate::options::Options;

/// The blobs that entries in tables own: their lengths by the hashes of their tree keys.
pub(crate) struct BlobKeys(HashMap<u64, u64>);

impl BlobKeys {
    pub(crate) fn of(live: &LiveFiles) -> Self {
        let owned = live.value_files.blobs().filter(|(_, facts)| facts.live > 0);
        Self(owned.map(|(_, facts)| (facts.base, facts.len.unwrap_or_default())).collect())
    }

    /// Length of the blob that tables may have of a key; `None` if they have none.
    #[inline]
    pub(crate) fn find(&self, encoded_key: &[u8]) -> Option<u64> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&hash64(encoded_key, 0)).copied()
    }
}

/// A blob that is hidden.
struct Stale {
    bytes: u64,
    /// Sequence number up to which tables may have its entry.
    upto: SeqNo,
}

/// The blobs that are known to be hidden, by tree key.
#[derive(Default)]
pub(crate) struct StaleBlobs(Mutex<State>);

#[derive(Default)]
struct State {
    keys: BTreeMap<Vec<u8>, Stale>,
    bytes: u64,
    /// Tables that were written on their behalf.
    clean: BTreeSet<FileNumber>,
}

impl StaleBlobs {
    /// Adds the keys of hidden blobs with their lengths, of which tables have entries up to `upto`.
    pub(crate) fn add(&self, keys: Vec<(Vec<u8>, u64)>, upto: SeqNo) {
        let mut state = self.0.lock();
        for (key, bytes) in keys {
            state.bytes += bytes;
            if let Some(before) = state.keys.insert(key, Stale { bytes, upto }) {
                state.bytes -= before.bytes;
            }
        }
    }

    /// Whether they take more than is tolerated among `live` files.
    pub(crate) fn are_due(&self, live: impl FnOnce() -> LiveFiles, options: &Options) -> bool {
        let bytes = self.0.lock().bytes;
        if bytes == 0 {
            return false;
        }
        let live = live();
        let owned = live.owned() + live.value_files.blob_bytes().saturating_sub(bytes);
        let (floor, beside) = (options.space_floor, live.version.largest_level_bytes());
        let goal = SpaceGoal { amplification: options.space_amplification, floor, beside };
        bytes > goal.allowed(owned) - owned
    }

    /// The next compaction for the longest of them. Those for which there is none to do any more
    /// are forgotten.
    pub(crate) fn pick(
        &self,
        version: &Version,
        options: &CompactionOptions,
        constraints: &Constraints,
    ) -> Option<Compaction> {
        let mut state = self.0.lock();
        loop {
            let longest = state.keys.iter().max_by_key(|(_, stale)| stale.bytes);
            let Some((key, stale)) = longest else {
                state.clean.clear();
                return None;
            };
            let (key, behind) = (key.clone(), [&key[..], b"\0"].concat());
            let goal =
                RangeGoal { lower: &key, upper: &behind, upto: stale.upto, clean: &state.clean };
            match pick_range(version, options, constraints, &goal) {
                RangeStep::Compact(compaction) => return Some(compaction),
                RangeStep::Waits => return None,
                RangeStep::Damaged(_) | RangeStep::Done => {
                    let done = state.keys.remove(&key).map_or(0, |stale| stale.bytes);
                    state.bytes -= done;
                }
            }
        }
    }

    /// Called with the tables that such a compaction has written.
    pub(crate) fn written(&self, tables: &[FileNumber]) {
        self.0.lock().clean.extend(tables);
    }
}
