//! Reads of keys that merges have changed: gathers the operands and what they change.

use std::sync::Arc;

use bytes::Bytes;
use cleavedb_base::sync::swap::Guard;
use cleavedb_base::{EntryKind, Expiry, Result, SeqNo};
use cleavedb_hot::HotStore;
use cleavedb_index::MemHit;
use cleavedb_index::operands::OPERANDS_MAX;
use cleavedb_values::groups::KeyDirectoryReader;

use super::{Answer, Heats, Hot, cached, check_changes, find_hot, is_deleted};
use crate::engine::Engine;
use crate::snapshot::ReadPoint;
use crate::state::ReadState;

/// Bytes of operands that a reader should not meet at each read.
const OPERAND_BYTES_MAX: usize = 1024;

/// The versions of a key from the newest one on: operands, and what lies below them.
struct Versions {
    /// Newest first.
    operands: Vec<Bytes>,
    below: Answer,
}

/// The value of a key whose newest version is an operand, at or below `snapshot` if there is one.
#[cold]
pub(super) fn get(
    engine: &Engine,
    encoded_key: &[u8],
    hash: u64,
    snapshot: Option<ReadPoint>,
) -> Result<Option<(Bytes, Expiry)>> {
    loop {
        let (state, Versions { operands, below }) = gather(engine, (encoded_key, hash), snapshot)?;
        let (value, expiry) = match below {
            Answer::Absent | Answer::Operand | Answer::Hot => (None, Expiry::NEVER),
            Answer::Inline(value, expiry) => (Some(value), expiry),
            Answer::Record(pointer, seq, expiry) => {
                let value = match cached(engine, encoded_key, hash, seq) {
                    Some(value) => value,
                    // See `get_encoded`.
                    None if state.segments.get(pointer.file).is_none()
                        && !Arc::ptr_eq(&state, &engine.state.load()) =>
                    {
                        continue;
                    }
                    None => {
                        let mut maps = KeyDirectoryReader::default();
                        let pointer = state.resolve(pointer, encoded_key, seq, &mut maps)?;
                        state.segments.read(pointer, encoded_key, seq)?
                    }
                };
                (Some(value), expiry)
            }
        };
        if operands.is_empty() {
            return Ok(value.map(|value| (value, expiry)));
        }
        let long = operands.len() > OPERANDS_MAX
            || operands.iter().map(Bytes::len).sum::<usize>() > OPERAND_BYTES_MAX;
        // What a value that expires becomes without its operands is not known yet.
        if long && snapshot.is_none() && expiry.is_never() {
            engine.merges.long_chains.add(encoded_key);
        }
        let operators = engine.merges.operators();
        let made = operators.value(encoded_key, value.as_deref(), &operands)?;
        return Ok(Some((made.into(), Expiry::NEVER)));
    }
}

/// Whether operands change no value that expires.
pub(super) fn stays(
    engine: &Engine,
    encoded_key: &[u8],
    hash: u64,
    snapshot: ReadPoint,
) -> Result<bool> {
    let (_, Versions { below, .. }) = gather(engine, (encoded_key, hash), Some(snapshot))?;
    Ok(match below {
        Answer::Inline(_, expiry) | Answer::Record(_, _, expiry) => expiry.is_never(),
        Answer::Absent | Answer::Operand | Answer::Hot => true,
    })
}

/// The versions of a key at or below `snapshot`, or as of now, and the read state that has them.
fn gather(
    engine: &Engine,
    key: (&[u8], u64),
    snapshot: Option<ReadPoint>,
) -> Result<(Guard<Arc<ReadState>>, Versions)> {
    loop {
        let changes = engine.hot.as_deref().map(HotStore::changes);
        let (state, visible) =
            engine.state.look(|| snapshot.map_or_else(|| engine.commit.visible(), |at| at.seq));
        let now = snapshot.map_or_else(|| engine.time.millis(), |at| at.time);
        let found = versions(engine, &state, key, (visible, now), snapshot.is_none())?;
        if !matches!(found.below, Answer::Hot) {
            return Ok((state, found));
        }
        // A flush is changing what is hot.
        check_changes(engine, &state, changes)?;
    }
}

/// The versions of a key at or below `visible`, down to the first that is no operand. `is_latest`
/// says that nothing newer is visible. If a flush is changing what is hot, what lies below is
/// [`Answer::Hot`], and the caller tries again.
fn versions(
    engine: &Engine,
    state: &ReadState,
    (encoded_key, hash): (&[u8], u64),
    (visible, now): (SeqNo, u64),
    is_latest: bool,
) -> Result<Versions> {
    let mut operands = Vec::new();
    // What a version is, or none if it is an operand.
    let mut take = |kind, seq, value: &[u8], keep: &dyn Fn() -> Bytes| -> Result<Option<Answer>> {
        if is_deleted(&state.tombstones, encoded_key, seq, visible) {
            return Ok(Some(Answer::Absent));
        }
        if kind != EntryKind::Operand {
            return Answer::of((kind, seq, value), keep, || now).map(Some);
        }
        operands.push(keep());
        Ok(None)
    };
    let mut young: Vec<MemHit<'_>> = Vec::new();
    for slot in &state.memtables {
        slot.table.versions_of(encoded_key, hash, visible, &mut young);
    }
    let mut below = None;
    for hit in young {
        below = take(hit.kind, hit.seq, hit.value, &|| Bytes::copy_from_slice(hit.value))?;
        if below.is_some() {
            break;
        }
    }
    if below.is_none() {
        below = match find_hot(engine, state, encoded_key, Heats::No)? {
            Hot::Version(seq, value) if seq <= visible => {
                take(EntryKind::Inline, seq, &value, &|| value.clone())?
            }
            // Its flush has published it since the sequence number was loaded.
            Hot::Version(..) if is_latest => Some(Answer::Hot),
            Hot::Moving => Some(Answer::Hot),
            Hot::Version(..) | Hot::None => None,
        };
    }
    if below.is_none() {
        let known = state.version.versions_of(u64::MAX, encoded_key, hash, visible)?;
        for found in known {
            below = take(found.kind, found.seq, &found.value, &|| found.value.clone())?;
            if below.is_some() {
                break;
            }
        }
    }
    Ok(Versions { operands, below: below.unwrap_or(Answer::Absent) })
}
