//! Reads of keys that merges have changed: gathers the operands and what they change.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use cleavedb_base::checksum::hash64;
use cleavedb_base::{EntryKind, Expiry, Result, SeqNo};
use cleavedb_hot::HotStore;

use super::{Answer, Heats, Hot, cached, check_changes, find_hot, is_deleted};
use crate::engine::Engine;
use crate::settings::merge::ChainLength;
use crate::store::snapshot::ReadPoint;
use crate::store::state::ReadState;

/// The versions of a key from the newest one on: operands, and what lies below them.
struct Versions<'s> {
    /// Newest first.
    operands: Vec<Cow<'s, [u8]>>,
    below: Answer,
}

impl Versions<'_> {
    fn length(&self) -> ChainLength {
        let mut length = ChainLength::default();
        self.operands.iter().for_each(|operand| length.add(operand));
        length
    }
}

/// The value of a key whose newest version is an operand, at or below `snapshot` if there is one.
#[cold]
pub(super) fn get(
    engine: &Engine,
    encoded_key: &[u8],
    hash: u64,
    snapshot: Option<ReadPoint>,
) -> Result<Option<(Bytes, Expiry)>> {
    make(engine, (encoded_key, hash), snapshot, |value, operands| {
        engine.merges.operators().value(encoded_key, value, operands).map(Some)
    })
}

/// The value of a key below the first operand that cannot be applied.
#[cold]
pub(super) fn get_below(engine: &Engine, encoded_key: &[u8]) -> Result<Option<(Bytes, Expiry)>> {
    make(engine, (encoded_key, hash64(encoded_key, 0)), None, |value, operands| {
        engine.merges.operators().value_below(encoded_key, value, operands)
    })
}

/// What `apply` makes of the value of a key before its operands and of these, newest first.
fn make(
    engine: &Engine,
    (encoded_key, hash): (&[u8], u64),
    snapshot: Option<ReadPoint>,
    apply: impl Fn(Option<&[u8]>, &[Cow<'_, [u8]>]) -> Result<Option<Vec<u8>>>,
) -> Result<Option<(Bytes, Expiry)>> {
    gather(engine, (encoded_key, hash), snapshot, |state, versions| {
        let length = versions.length();
        let (value, expiry) = match versions.below {
            Answer::Absent | Answer::Operand | Answer::Hot => (None, Expiry::NEVER),
            Answer::Inline(value, expiry) => (Some(value), expiry),
            Answer::Record(pointer, seq, expiry) => {
                let value = match cached(engine, encoded_key, hash, seq) {
                    Some(value) => value,
                    // See `read_with`.
                    None if state.segments.get(pointer.file).is_none()
                        && !Arc::ptr_eq(state, &engine.state.load()) =>
                    {
                        return Ok(None);
                    }
                    None => state.segments.read(pointer, encoded_key, seq)?,
                };
                (Some(value), expiry)
            }
        };
        if length.operands == 0 {
            return Ok(Some(value.map(|value| (value, expiry))));
        }
        let made = apply(value.as_deref(), &versions.operands)?;
        let Some(made) = made else { return Ok(Some(None)) };
        if snapshot.is_none() && length.outweighs(made.len()) {
            engine.merges.long_chains.add(encoded_key);
        }
        Ok(Some(Some((made.into(), expiry))))
    })
}

/// The operands of a tree key at `snapshot`, the length of the value below them, nearly, and when
/// that expires.
pub(crate) fn chain(
    engine: &Engine,
    encoded_key: &[u8],
    snapshot: ReadPoint,
) -> Result<(ChainLength, usize, Expiry)> {
    gather(engine, (encoded_key, hash64(encoded_key, 0)), Some(snapshot), |_, versions| {
        let length = versions.length();
        Ok(Some(match versions.below {
            Answer::Inline(value, expiry) => (length, value.len(), expiry),
            Answer::Record(pointer, _, expiry) => (length, pointer.len as usize, expiry),
            Answer::Absent | Answer::Operand | Answer::Hot => (length, 0, Expiry::NEVER),
        }))
    })
}

/// What `read` makes of the versions of a key at or below `snapshot`, or as of now, and of the read
/// state that has them. It returns nothing to have them gathered again.
fn gather<T>(
    engine: &Engine,
    key: (&[u8], u64),
    snapshot: Option<ReadPoint>,
    read: impl Fn(&Arc<ReadState>, Versions<'_>) -> Result<Option<T>>,
) -> Result<T> {
    loop {
        let changes = engine.hot.as_deref().map(HotStore::changes);
        let (state, visible) =
            engine.state.look(|| snapshot.map_or_else(|| engine.commit.visible(), |at| at.seq));
        let now = snapshot.map_or_else(|| engine.time.millis(), |at| at.time);
        let found = versions(engine, &state, key, (visible, now), snapshot.is_none())?;
        if matches!(found.below, Answer::Hot) {
            // A flush is changing what is hot.
            check_changes(engine, &state, changes)?;
        } else if let Some(made) = read(&state, found)? {
            return Ok(made);
        }
    }
}

/// The versions of a key at or below `visible`, down to the first that is no operand. `is_latest`
/// says that nothing newer is visible. If a flush is changing what is hot, what lies below is
/// [`Answer::Hot`], and the caller tries again.
fn versions<'s>(
    engine: &Engine,
    state: &'s ReadState,
    (encoded_key, hash): (&'s [u8], u64),
    (visible, now): (SeqNo, u64),
    is_latest: bool,
) -> Result<Versions<'s>> {
    let mut operands = Vec::new();
    // What a version is, or none if it is an operand.
    let value_of = |kind, seq, value: &[u8], keep: &dyn Fn() -> Bytes| -> Result<Option<Answer>> {
        if is_deleted(&state.tombstones, encoded_key, seq, visible) {
            return Ok(Some(Answer::Absent));
        }
        if kind != EntryKind::Operand {
            return Answer::of((kind, seq, value), keep, || now).map(Some);
        }
        Ok(None)
    };
    let memtables = state.memtables.iter();
    for hit in memtables.flat_map(|slot| slot.table.versions(encoded_key, hash, visible)) {
        let keep = || Bytes::copy_from_slice(hit.value);
        if let Some(below) = value_of(hit.kind, hit.seq, hit.value, &keep)? {
            return Ok(Versions { operands, below });
        }
        operands.push(Cow::Borrowed(hit.value));
    }
    let below = match find_hot(engine, state, encoded_key, Heats::No)? {
        Hot::Version(seq, value) if seq <= visible => {
            value_of(EntryKind::Inline, seq, &value, &|| value.clone())?
        }
        // A flush has published the version since the sequence number was loaded.
        Hot::Version(..) if is_latest => Some(Answer::Hot),
        Hot::Moving => Some(Answer::Hot),
        Hot::Version(..) | Hot::None => None,
    };
    if let Some(below) = below {
        return Ok(Versions { operands, below });
    }
    for found in state.version.versions_of(u64::MAX, encoded_key, hash, visible)? {
        let keep = || found.value.clone();
        if let Some(below) = value_of(found.kind, found.seq, &found.value, &keep)? {
            return Ok(Versions { operands, below });
        }
        operands.push(Cow::Owned(found.value.into()));
    }
    Ok(Versions { operands, below: Answer::Absent })
}
