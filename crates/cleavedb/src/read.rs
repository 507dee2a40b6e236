//! Point reads: where a key's newest visible version is, and its value.

use std::sync::Arc;

use bytes::Bytes;
use cleavedb_base::checksum::hash64;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{EntryKind, Result, SeqNo, TreeKey, ValuePointer};

use crate::batch::{DEFAULT_KEYSPACE, check_key};
use crate::engine::Engine;
use crate::state::ReadState;

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

/// The newest version of a key at or below `seq` in one picture.
#[inline]
pub(crate) fn find(state: &ReadState, tree_key: &[u8], hash: u64, seq: SeqNo) -> Result<Answer> {
    for slot in &state.memtables {
        if let Some(hit) = slot.table.get(tree_key, hash, seq) {
            return Answer::of(hit.kind, hit.seq, hit.value, || Bytes::copy_from_slice(hit.value));
        }
    }
    match state.version.get(tree_key, hash, seq)? {
        Some(found) => Answer::of(found.kind, found.seq, &found.value, || found.value.clone()),
        None => Ok(Answer::Absent),
    }
}

impl Engine {
    /// The newest version of `key` at or below `snapshot`, or of all that is visible.
    pub(crate) fn get(&self, key: &[u8], snapshot: Option<SeqNo>) -> Result<Option<Bytes>> {
        check_key(key)?;
        let tree_key = TreeKey::new(DEFAULT_KEYSPACE, key);
        let tree_key = tree_key.as_bytes();
        let hash = hash64(tree_key, 0);
        loop {
            let (state, visible) =
                self.state.look(|| snapshot.unwrap_or_else(|| self.commit.visible()));
            let (pointer, seq) = match find(&state, tree_key, hash, visible)? {
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
            let value = state.segments.read(pointer, tree_key, seq);
            if planted(Bug::CorruptIsAbsent) && value.is_err() {
                return Ok(None);
            }
            return value.map(Some);
        }
    }

    /// The values of `keys` at `snapshot`, which somebody holds, in their order. Values that lie
    /// outside the index are fetched side by side.
    pub(crate) fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        snapshot: SeqNo,
    ) -> Vec<Result<Option<Bytes>>> {
        // Taken behind the snapshot, so it knows every file that the snapshot's entries name.
        let state = self.state.load_full();
        let find_one = |key: &[u8]| {
            check_key(key)?;
            let tree_key = TreeKey::new(DEFAULT_KEYSPACE, key);
            let hash = hash64(tree_key.as_bytes(), 0);
            let answer = find(&state, tree_key.as_bytes(), hash, snapshot)?;
            if let Answer::Record(pointer, _) = answer {
                state.segments.will_need(pointer);
            }
            Ok((tree_key, answer))
        };
        let found: Vec<Result<_>> = keys.iter().map(|key| find_one(key.as_ref())).collect();
        let value_of = |(tree_key, answer): (TreeKey, Answer)| match answer {
            Answer::Absent => Ok(None),
            Answer::Inline(value) => Ok(Some(value)),
            Answer::Record(pointer, seq) => {
                state.segments.read(pointer, tree_key.as_bytes(), seq).map(Some)
            }
        };
        found.into_iter().map(|found| found.and_then(value_of)).collect()
    }
}
