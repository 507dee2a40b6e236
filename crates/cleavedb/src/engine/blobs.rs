//! Blobs: which of them are held, and the compactions that let those go that a newer version of
//! their key hides. To its callers each has a *lone* file, which nothing moves.
//!
//! A blob goes when a compaction drops its entry, and few other writes may lead to none there for
//! long. So a commit counts what it hides of blobs, which makes the flush of its MemTable due
//! sooner, and the edit of a flush says which blobs it hides. Once they take more than the space
//! goal tolerates as garbage, and no other compaction is due, the key of the longest one is
//! compacted. The key stands in the blob's file.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use cleavedb_base::checksum::hash64;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};
use cleavedb_base::{FileNumber, SeqNo};
use cleavedb_index::compaction::range::{RangeGoal, RangeStep, pick_range};
use cleavedb_index::compaction::{CompactionOptions, Constraints};
use cleavedb_index::{Entry, Version};
use cleavedb_storage::FileKind;
use cleavedb_values::victim::SpaceGoal;
use cleavedb_values::{SegmentSet, ValueFileMeta, ValueFiles};

use super::Engine;
use crate::control::metrics::Metrics;
use crate::operations::ops::Ops;
use crate::settings::options::Options;
use crate::store::blobs::file_of;
use crate::store::manifest::LiveFiles;
use crate::store::state::MemSlot;

/// The lone files that entries in tables own and that nothing hides yet, by the hashes of their
/// tree keys, with their lengths.
#[derive(Default)]
pub(crate) struct LoneByKey(HashMap<u64, Vec<(FileNumber, u64)>>);

impl LoneByKey {
    pub(crate) fn of(files: &ValueFiles) -> Self {
        let mut keys: HashMap<_, Vec<_>> = HashMap::new();
        for (number, facts) in files.blobs().filter(|(_, it)| it.live > 0 && !it.is_hidden()) {
            keys.entry(facts.base).or_default().push((number, facts.len.unwrap_or_default()));
        }
        Self(keys)
    }

    /// Files that a newer version of the key of this hash hides, but for the file `own`, which it
    /// names itself.
    #[inline]
    fn hidden_by(
        &self,
        hash: u64,
        own: Option<FileNumber>,
    ) -> impl Iterator<Item = (FileNumber, u64)> {
        let found = self.0.get(&hash).into_iter().flatten().copied();
        found.filter(move |(number, _)| own != Some(*number))
    }

    /// Files that a flush of `entry` hides. An operand hides none.
    #[inline]
    pub(crate) fn hidden_by_entry(&self, entry: &Entry<'_>) -> Vec<FileNumber> {
        if self.0.is_empty() || !entry.kind.hides_older() {
            return Vec::new();
        }
        let own = file_of(entry.kind, entry.value);
        self.hidden_by(hash64(entry.key, 0), own).map(|(number, _)| number).collect()
    }
}

/// A hidden blob whose key is known.
struct Stale {
    file: FileNumber,
    key: Vec<u8>,
    /// Sequence number up to which tables may have its entry.
    upto: SeqNo,
}

/// The lone files of an open database, as far as their entries are in tables, or nowhere yet.
#[derive(Default)]
pub(crate) struct LoneFiles {
    /// Files that are being committed: no entry names them yet. A leaf lock.
    pub(crate) new: Mutex<BTreeSet<FileNumber>>,
    any: AtomicBool,
    keys: Mutex<Arc<LoneByKey>>,
    state: Mutex<Cleaning>,
}

#[derive(Default)]
struct Cleaning {
    /// The sequence numbers as of which those were hidden that this session has hidden.
    since: BTreeMap<FileNumber, SeqNo>,
    /// The one whose key is to be compacted.
    next: Option<Stale>,
    /// Tables that were written on behalf of it.
    clean: BTreeSet<FileNumber>,
    /// Blobs for which there was nothing left to compact.
    done: BTreeSet<FileNumber>,
}

impl LoneFiles {
    /// Notes which of them tables own now. A flush up to `seq` has hidden some of them.
    pub(crate) fn flushed(&self, files: &ValueFiles, hidden: &[FileNumber], seq: SeqNo) {
        let keys = LoneByKey::of(files);
        self.any.store(!keys.0.is_empty(), Ordering::Relaxed);
        *self.keys.lock() = Arc::new(keys);
        self.state.lock().since.extend(hidden.iter().map(|number| (*number, seq)));
    }

    /// Whether tables own some that nothing hides.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Bytes of those in tables that the commit of `ops` hides.
    #[cold]
    pub(crate) fn hidden_bytes(&self, ops: Ops<'_>) -> u64 {
        let (keys, mut hidden) = (self.keys.lock().clone(), 0);
        // The closure has no failure to hand on.
        let _ = ops.each(|op| {
            let kind = op.header.kind.as_entry();
            if kind.hides_older() {
                let own = op.header.kind.is_blob().then(|| file_of(kind, &op.value)).flatten();
                hidden += keys.hidden_by(op.hash, own).map(|(_, bytes)| bytes).sum::<u64>();
            }
            Ok(())
        });
        hidden
    }

    /// Whether hidden ones take more than is tolerated among `live` files.
    pub(crate) fn are_due(&self, live: &LiveFiles, options: &Options) -> bool {
        let state = self.state.lock();
        let hidden = live.value_files.hidden_blobs().filter(|(it, _)| !state.done.contains(it));
        let bytes: u64 = hidden.map(|(_, bytes)| bytes).sum();
        if bytes == 0 {
            return false;
        }
        let owned = live.owned() + live.value_files.blob_bytes().saturating_sub(bytes);
        let (floor, beside) = (options.tuning.space_floor, live.version.largest_level_bytes());
        let goal = SpaceGoal { amplification: options.space_amplification, floor, beside };
        bytes > goal.allowed(owned) - owned
    }

    /// Chooses the longest of them whose newer version every reader sees, as `seen_by_all` says,
    /// and reads its key. Returns whether there is one.
    pub(crate) fn choose(
        &self,
        live: &LiveFiles,
        segments: &SegmentSet,
        seen_by_all: SeqNo,
    ) -> bool {
        let mut state = self.state.lock();
        let is_there = |number| live.value_files.get(number).is_some();
        if state.next.as_ref().is_some_and(|next| is_there(next.file)) {
            return true;
        }
        state.since.retain(|number, _| is_there(*number));
        state.clean.clear();
        state.next = None;
        let is_seen = |number| state.since.get(&number).is_none_or(|since| *since <= seen_by_all);
        let hidden = live.value_files.hidden_blobs();
        let hidden = hidden.filter(|(number, _)| !state.done.contains(number) && is_seen(*number));
        let mut hidden: Vec<_> = hidden.map(|(file, bytes)| (bytes, file)).collect();
        hidden.sort_unstable();
        while let Some((bytes, file)) = hidden.pop() {
            let key = segments.get(file).and_then(|segment| segment.blob_key(bytes).ok());
            if let Some(key) = key {
                let key = key.as_bytes().to_vec();
                state.next = Some(Stale { file, key, upto: live.flushed });
                return true;
            }
            // One that is damaged waits for other compactions.
            state.done.insert(file);
        }
        false
    }

    /// The next compaction for the chosen one. If there is none to do any more, another one is to
    /// be chosen.
    pub(crate) fn pick(
        &self,
        version: &Version,
        options: &CompactionOptions,
        constraints: &Constraints,
    ) -> RangeStep {
        let mut state = self.state.lock();
        let Some(Stale { file, key, upto }) = &state.next else { return RangeStep::Done };
        let (file, behind) = (*file, [key, &b"\0"[..]].concat());
        let goal = RangeGoal { lower: key, upper: &behind, upto: *upto, clean: &state.clean };
        let step = pick_range(version, options, constraints, &goal);
        if matches!(step, RangeStep::Damaged(_) | RangeStep::Done) {
            state.next = None;
            state.done.insert(file);
        }
        step
    }

    /// Called with the tables that such a compaction has written.
    pub(crate) fn written(&self, tables: &[FileNumber]) {
        self.state.lock().clean.extend(tables);
    }
}

impl Engine {
    /// Whether a commit under way or a MemTable needs this file, a lone one of which no table
    /// knows.
    pub(crate) fn is_held(&self, file: FileNumber) -> bool {
        let is_in = |slot: &Arc<MemSlot>| slot.lone.has(file);
        (self.jobs.lone_files.new.lock().contains(&file)
            || self.state.load().memtables.iter().any(is_in))
            && !planted(Bug::BlobReleasedEarly)
    }

    /// Length of a lone file whose value is that of its key, as far as tables or, until its flush,
    /// MemTables know. What entries own of it is its end; without that it is not read.
    pub(crate) fn lone_len(&self, file: FileNumber, facts: &ValueFileMeta) -> Option<u64> {
        let is_alive = || facts.live > 0 && !facts.is_hidden() || self.is_held(file);
        (facts.kind == FileKind::Blob && is_alive()).then_some(facts.len.unwrap_or_default())
    }

    /// What metrics tell of lone files.
    pub(crate) fn lone_metrics(&self, live: &LiveFiles) -> Metrics {
        Metrics {
            blob_written: self.counters.blob_written.get(),
            blob_file_bytes: live.value_files.blob_bytes(),
            ..Metrics::default()
        }
    }
}
