//! Point reads: where a key's newest visible version is, and its value.

use std::sync::Arc;

use bytes::Bytes;
use cleavedb_base::checksum::hash64;
use cleavedb_base::limits::KEY_LEN_MAX;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::atomic::Ordering;
use cleavedb_base::{EntryKind, Result, SeqNo, TreeKey, ValuePointer};
use cleavedb_index::{Found, Version};
use cleavedb_values::groups::MapReader;

use crate::batch::DEFAULT_KEYSPACE;
use crate::dead::MANY;
use crate::engine::Engine;
use crate::jobs::Jobs;
use crate::state::{MemSlot, ReadState};

/// What the index says of a key.
pub(crate) enum Answer {
    Absent,
    Inline(Bytes),
    /// The value lies in the record here, which has this sequence number.
    Record(ValuePointer, SeqNo),
}

impl Answer {
    #[inline]
    fn of(kind: EntryKind, seq: SeqNo, value: &[u8], inline: impl Fn() -> Bytes) -> Result<Self> {
        Ok(match kind {
            EntryKind::Delete => Self::Absent,
            EntryKind::Inline => Self::Inline(inline()),
            EntryKind::Pointer => Self::Record(ValuePointer::decode(value)?, seq),
        })
    }
}

/// The newest version of a key at or below `seq` in one picture. `seeks`: who compacts tables that
/// cost too many seeks, where somebody does.
#[inline]
pub(crate) fn find(
    state: &ReadState,
    tree_key: &[u8],
    hash: u64,
    seq: SeqNo,
    seeks: Option<&Jobs>,
) -> Result<Answer> {
    match find_in_memory(state, tree_key, hash, seq) {
        Some(answer) => answer,
        None => find_in_tables(&state.version, tree_key, hash, seq, seeks),
    }
}

/// What the MemTables know of the key, if they know anything.
#[inline]
fn find_in_memory(
    state: &ReadState,
    tree_key: &[u8],
    hash: u64,
    seq: SeqNo,
) -> Option<Result<Answer>> {
    let hit = state.memtables.iter().find_map(|slot| slot.table.get(tree_key, hash, seq))?;
    Some(Answer::of(hit.kind, hit.seq, hit.value, || Bytes::copy_from_slice(hit.value)))
}

#[inline]
fn find_in_tables(
    version: &Version,
    tree_key: &[u8],
    hash: u64,
    seq: SeqNo,
    seeks: Option<&Jobs>,
) -> Result<Answer> {
    let found = match seeks {
        None => version.get(tree_key, hash, seq)?,
        Some(jobs) => get_charging(version, tree_key, hash, seq, jobs)?,
    };
    match found {
        Some(found) => Answer::of(found.kind, found.seq, &found.value, || found.value.clone()),
        None => Ok(Answer::Absent),
    }
}

/// As [`Version::get`], where a table that costs too many seeks is compacted: wakes who does. On
/// its own, so that reads of other databases do not carry its code.
#[inline(never)]
fn get_charging(
    version: &Version,
    tree_key: &[u8],
    hash: u64,
    seq: SeqNo,
    jobs: &Jobs,
) -> Result<Option<Found>> {
    let (found, spent) = version.get_charging(tree_key, hash, seq)?;
    if spent {
        jobs.kick();
    }
    Ok(found)
}

impl Engine {
    /// Who compacts tables that cost too many seeks, where somebody does.
    #[inline]
    fn seeks(&self) -> Option<&Jobs> {
        self.options.level0.compacts_on_seeks().then_some(&self.jobs)
    }

    /// The newest version of `key` at or below `snapshot`, or of all that is visible.
    pub(crate) fn get(&self, key: &[u8], snapshot: Option<SeqNo>) -> Result<Option<Bytes>> {
        // Nothing was ever stored under it.
        if key.len() > KEY_LEN_MAX {
            return Ok(None);
        }
        let tree_key = TreeKey::new(DEFAULT_KEYSPACE, key);
        let tree_key = tree_key.as_bytes();
        let hash = hash64(tree_key, 0);
        loop {
            let (state, visible) =
                self.state.look(|| snapshot.unwrap_or_else(|| self.commit.visible()));
            let found = find(&state, tree_key, hash, visible, self.seeks())?;
            let (pointer, seq) = match found {
                Answer::Absent => return Ok(None),
                Answer::Inline(value) => return Ok(Some(value)),
                Answer::Record(pointer, seq) => (pointer, seq),
            };
            // The MemTable is shared by all pictures since it was begun, so its youngest entries
            // may point into a log file that this picture does not know yet.
            let unknown = state.segments.get(pointer.file).is_none();
            if unknown && !Arc::ptr_eq(&state, &self.state.load()) {
                continue;
            }
            if planted(Bug::StaleIsAbsent) && !state.segments.is_there(pointer) {
                return Ok(None);
            }
            let mut maps = MapReader::default();
            let value = state
                .resolve(pointer, tree_key, seq, &mut maps)
                .and_then(|pointer| state.segments.read(pointer, tree_key, seq));
            if planted(Bug::CorruptIsAbsent) && value.is_err() {
                return Ok(None);
            }
            return value.map(Some);
        }
    }

    /// The values of `keys` at `snapshot`, which somebody holds, in their order: first blocks of
    /// the index are fetched side by side, then values that lie outside it.
    pub(crate) fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        snapshot: SeqNo,
    ) -> Vec<Result<Option<Bytes>>> {
        // Taken behind the snapshot, so it knows every file that the snapshot's entries name.
        let state = self.state.load_full();
        let begin = |key: &K| {
            let key = key.as_ref();
            if key.len() > KEY_LEN_MAX {
                return Ok((TreeKey::new(DEFAULT_KEYSPACE, b""), 0, Some(Answer::Absent)));
            }
            let tree_key = TreeKey::new(DEFAULT_KEYSPACE, key);
            let hash = hash64(tree_key.as_bytes(), 0);
            let known = find_in_memory(&state, tree_key.as_bytes(), hash, snapshot).transpose()?;
            if known.is_none() && keys.len() > 1 {
                state.version.expect(tree_key.as_bytes(), hash, snapshot);
            }
            Ok((tree_key, hash, known))
        };
        let mut maps = MapReader::default();
        let mut find_one = |(tree_key, hash, known): (TreeKey, u64, Option<Answer>)| {
            let mut answer = match known {
                Some(answer) => answer,
                None => find_in_tables(
                    &state.version,
                    tree_key.as_bytes(),
                    hash,
                    snapshot,
                    self.seeks(),
                )?,
            };
            if let Answer::Record(pointer, seq) = &mut answer {
                *pointer = state.resolve(*pointer, tree_key.as_bytes(), *seq, &mut maps)?;
                state.segments.will_need(*pointer);
            }
            Ok((tree_key, answer))
        };
        let value_of = |(tree_key, answer): (TreeKey, Answer)| match answer {
            Answer::Absent => Ok(None),
            Answer::Inline(value) => Ok(Some(value)),
            Answer::Record(pointer, seq) => {
                state.segments.read(pointer, tree_key.as_bytes(), seq).map(Some)
            }
        };
        let begun: Vec<Result<_>> = keys.iter().map(begin).collect();
        let found: Vec<Result<_>> =
            begun.into_iter().map(|begun| begun.and_then(&mut find_one)).collect();
        found.into_iter().map(|found| found.and_then(value_of)).collect()
    }
}

impl Engine {
    /// A range has stepped over so many dead entries at once.
    #[inline]
    pub(crate) fn met_dead(&self, entries: u64) {
        if entries > 0 {
            self.counters.dead_read.add(entries);
            if entries > MANY {
                self.met_many_dead(entries);
            }
        }
    }

    #[cold]
    fn met_many_dead(&self, entries: u64) {
        self.dead_reads.pay(entries);
        self.rotate_deletes(MANY / 2);
        self.jobs.kick();
    }

    /// Has the MemTable flushed if it has so many deletes: what they hide stays until then. Returns
    /// whether it has.
    pub(crate) fn rotate_deletes(&self, least: u64) -> bool {
        let state = self.state.load();
        let many = |slot: &MemSlot| slot.deletes.load(Ordering::Relaxed) >= least;
        if state.waiting() > 0 || !many(state.youngest()) || self.check_open().is_err() {
            return false;
        }
        drop(state);
        let mut append = self.commit.append();
        // Another thread may have been first. Before the first write there is no log that could go
        // on behind the MemTable, and nobody who would flush it.
        let rotates = many(&append.memtable) && append.appender.is_begun();
        if rotates {
            self.rotate_memtable(&mut append);
        }
        rotates
    }
}
