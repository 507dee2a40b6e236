//! Reads of keys that merges have changed: gathers the operands and what they change.

use std::borrow::Cow;
use std::cell::RefCell;

use bytes::Bytes;
use cleavedb_base::{Lasting, Result};

use crate::engine::Engine;
use crate::reads::search::{Found, Look, RecordRef, SearchKey, looking};
use crate::settings::merge::ChainLength;
use crate::store::snapshot::ReadPoint;
use crate::store::state::ReadState;

/// A key with operands that nothing was made of: their operator may not be known.
#[derive(PartialEq, Eq)]
pub(crate) struct Unmerged {
    /// The value below the operands, if there is one.
    pub(crate) below: Option<Lasting<Bytes>>,
    /// Oldest first, as they are stored.
    pub(crate) operands: Vec<Vec<u8>>,
}

/// The versions of a key from the newest one on: operands, and what lies below them.
struct Versions<'s> {
    /// Newest first.
    operands: Vec<Cow<'s, [u8]>>,
    below: Found,
}

impl<'s> Versions<'s> {
    /// The versions that `look` sees; `None` if it must look again.
    fn of(look: &'s Look<'_>, key: SearchKey<'_>) -> Result<Option<Self>> {
        let mut operands = Vec::new();
        let below = look.visit(key, |hit| {
            if hit.kind.hides_older() {
                return Some(hit);
            }
            operands.push(hit.into_stored());
            None
        })?;
        Ok(below.map(|below| Self { operands, below }))
    }

    fn length(&self) -> ChainLength {
        let mut length = ChainLength::default();
        self.operands.iter().for_each(|operand| length.add(operand));
        length
    }
}

/// The value of a key whose newest version is an operand, at or below `snapshot` if there is one.
#[cold]
pub(super) fn get_merged(
    engine: &Engine,
    key: SearchKey<'_>,
    snapshot: Option<ReadPoint>,
) -> Result<Option<Lasting<Bytes>>> {
    make(engine, key, snapshot, |value, operands| {
        engine.merges.operators().value(key.encoded, value, operands).map(Some)
    })
}

/// The value of a key below the first operand that cannot be applied.
#[cold]
pub(super) fn get_below_failed(
    engine: &Engine,
    key: SearchKey<'_>,
) -> Result<Option<Lasting<Bytes>>> {
    make(engine, key, None, |value, operands| {
        engine.merges.operators().value_below(key.encoded, value, operands)
    })
}

/// The value of a key below its operands, and these, oldest first, as they are stored.
#[cold]
pub(crate) fn get_unmerged(
    engine: &Engine,
    encoded_key: &[u8],
    snapshot: ReadPoint,
) -> Result<Unmerged> {
    let (key, stored) = (SearchKey::new(encoded_key), RefCell::default());
    let below = make(engine, key, Some(snapshot), |value, operands| {
        stored.replace(operands.iter().rev().map(|operand| operand.to_vec()).collect());
        Ok(value.map(<[u8]>::to_vec))
    })?;
    Ok(Unmerged { below, operands: stored.into_inner() })
}

/// What `apply` makes of the value of a key before its operands and of these, newest first.
fn make(
    engine: &Engine,
    key: SearchKey<'_>,
    snapshot: Option<ReadPoint>,
    apply: impl Fn(Option<&[u8]>, &[Cow<'_, [u8]>]) -> Result<Option<Vec<u8>>>,
) -> Result<Option<Lasting<Bytes>>> {
    looking(engine, snapshot, |look| {
        let Some(versions) = Versions::of(look, key)? else { return Ok(None) };
        let length = versions.length();
        let value = match versions.below {
            Found::Absent | Found::NeedsOlder => None,
            Found::Value(value) => Some(value),
            Found::Record(record) => {
                let RecordRef { pointer, seq } = record.value;
                let read = |state: &ReadState| state.segments.read(pointer, key.encoded, seq);
                let value = look.value(key, record.value, |value| value, read)?;
                let Some(value) = value else { return Ok(None) };
                Some(record.map(|_| value))
            }
        };
        if length.operands == 0 {
            return Ok(Some(value));
        }
        let below = value.as_ref().map(|below| &*below.value);
        let made = apply(below, &versions.operands)?;
        let Some(made) = made else { return Ok(Some(None)) };
        if snapshot.is_none() && length.outweighs(made.len()) {
            engine.merges.long_chains.add(key.encoded);
        }
        Ok(Some(Some(value.unwrap_or(Lasting::for_good(Bytes::new())).map(|_| made.into()))))
    })
}

/// The operands of a tree key at `snapshot`, and the length of the value below them, nearly.
pub(crate) fn chain(
    engine: &Engine,
    encoded_key: &[u8],
    snapshot: ReadPoint,
) -> Result<(ChainLength, Lasting<usize>)> {
    let key = SearchKey::new(encoded_key);
    looking(engine, Some(snapshot), |look| {
        let Some(versions) = Versions::of(look, key)? else { return Ok(None) };
        let length = versions.length();
        let below = match versions.below {
            Found::Value(value) => value.map(|value| value.len()),
            Found::Record(record) => record.map(|record| record.pointer.len as usize),
            Found::Absent | Found::NeedsOlder => Lasting::for_good(0),
        };
        Ok(Some((length, below)))
    })
}
