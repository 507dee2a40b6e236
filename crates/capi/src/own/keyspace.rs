//! Reads and writes of a keyspace.

use std::ffi::{c_char, c_int};

use cleavedb::{Bytes, Keyspace, Operand, Result};
use cleavedb_named as named;

use super::db::{refused, with};
use super::errors::ErrorOut;
use super::terms::{HeldValue, durability, held, terms};
use crate::border::needed;
use crate::databases::HeldDb;
use crate::handles::{Handle, export};
use crate::slices::{Array, Chars, Malloced, OutPlace};

/// The keyspace of a handle.
pub(super) fn of(keyspace: &Handle<Keyspace>) -> Result<&Keyspace> {
    needed(keyspace.get(), "cleavedb_keyspace")
}

/// The durability of this number, or else that of the database.
pub(super) fn durability_in(keyspace: &Keyspace, number: c_int) -> Result<cleavedb::Durability> {
    Ok(durability(number)?.unwrap_or_else(|| keyspace.database().options().durability))
}

/// Copies a value into a buffer: 1, or 0 without a value.
pub(super) fn fill(
    value: Option<Bytes>,
    buffer: &OutPlace<c_char>,
    room: usize,
    len: &OutPlace<usize>,
) -> c_int {
    len.set(value.as_ref().map_or(0, Bytes::len));
    value.map_or(0, |value| {
        buffer.fill(&value, room);
        1
    })
}

export! {
    fn cleavedb_keyspace_open(db: Handle<HeldDb>, name: Chars, text: Chars; error: ErrorOut)
        -> Handle<Keyspace> {
        let (name, words) = (name.utf8()?, named::words(text.utf8()?.unwrap_or_default()));
        let options = named::keyspace::options(words).map_err(refused)?;
        let keyspace = with(&db, |db| match name {
            Some(name) => db.keyspace_with(name, options),
            None => Ok(db.default_keyspace().clone()),
        })?;
        Ok(Handle::new(keyspace))
    }

    fn cleavedb_keyspace_free(keyspace: Handle<Keyspace>) {
        drop(keyspace.take());
    }

    fn cleavedb_keyspace_drop(db: Handle<HeldDb>, name: Chars; error: ErrorOut) -> c_int {
        let name = needed(name.utf8()?, "name of the keyspace")?;
        with(&db, |db| db.drop_keyspace(name)).map(|()| 0)
    }

    fn cleavedb_keyspace_names(db: Handle<HeldDb>; error: ErrorOut) -> Malloced {
        let all = with(&db, |db| db.keyspaces())?;
        let names: String = all.iter().map(|it| format!("{}\n", it.name())).collect();
        Ok(Malloced::text(&names))
    }

    fn cleavedb_get(keyspace: Handle<Keyspace>, key: Chars, key_len: usize; error: ErrorOut)
        -> HeldValue {
        of(&keyspace)?.get(key.bytes(key_len)?).map(held)
    }

    fn cleavedb_get_into(keyspace: Handle<Keyspace>, key: Chars, key_len: usize,
        buffer: OutPlace<c_char>, room: usize, len: OutPlace<usize>; error: ErrorOut) -> c_int {
        let value = of(&keyspace)?.get(key.bytes(key_len)?)?;
        Ok(fill(value, &buffer, room, &len))
    }

    fn cleavedb_get_many(keyspace: Handle<Keyspace>, count: usize, keys: Array<Chars>,
        lens: Array<usize>, values: OutPlace<HeldValue>; error: ErrorOut) -> c_int {
        let (keys, lens) = (keys.elements(count)?, lens.elements(count)?);
        (0..count).for_each(|at| values.set_at(at, Handle::null()));
        let keys: Vec<&[u8]> =
            keys.iter().zip(lens).map(|(key, len)| key.bytes(*len)).collect::<Result<_>>()?;
        // All of them before the first is handed out: a failure leaves nothing to be freed.
        let found: Vec<_> = of(&keyspace)?.multi_get(&keys).into_iter().collect::<Result<_>>()?;
        for (at, value) in found.into_iter().enumerate() {
            values.set_at(at, held(value));
        }
        Ok(0)
    }

    fn cleavedb_contains(keyspace: Handle<Keyspace>, key: Chars, key_len: usize; error: ErrorOut)
        -> c_int {
        of(&keyspace)?.contains_key(key.bytes(key_len)?).map(c_int::from)
    }

    fn cleavedb_put(keyspace: Handle<Keyspace>, key: Chars, key_len: usize, value: Chars,
        value_len: usize, durability: c_int; error: ErrorOut) -> c_int {
        let (key, value) = (key.bytes(key_len)?, value.bytes(value_len)?);
        of(&keyspace)?.put_with(key, value, terms(0, durability)?).map(|()| 0)
    }

    fn cleavedb_put_for(keyspace: Handle<Keyspace>, key: Chars, key_len: usize, value: Chars,
        value_len: usize, ttl_millis: u64, durability: c_int; error: ErrorOut) -> c_int {
        let (key, value) = (key.bytes(key_len)?, value.bytes(value_len)?);
        of(&keyspace)?.put_with(key, value, terms(ttl_millis, durability)?).map(|()| 0)
    }

    fn cleavedb_delete(keyspace: Handle<Keyspace>, key: Chars, key_len: usize, durability: c_int;
        error: ErrorOut) -> c_int {
        let keyspace = of(&keyspace)?;
        let durability = durability_in(keyspace, durability)?;
        keyspace.delete_with(key.bytes(key_len)?, durability).map(|()| 0)
    }

    fn cleavedb_delete_range(keyspace: Handle<Keyspace>, from: Chars, from_len: usize, to: Chars,
        to_len: usize, durability: c_int; error: ErrorOut) -> c_int {
        let keyspace = of(&keyspace)?;
        let range = (from.some_bytes(from_len)?, to.some_bytes(to_len)?);
        let durability = durability_in(keyspace, durability)?;
        keyspace.delete_range_with(range, durability).map(|()| 0)
    }

    fn cleavedb_merge(keyspace: Handle<Keyspace>, key: Chars, key_len: usize, operator: Chars,
        operand: Chars, operand_len: usize, durability: c_int; error: ErrorOut) -> c_int {
        let keyspace = of(&keyspace)?;
        let operator = needed(operator.utf8()?, "operator")?;
        let operand = Operand::new(operator, operand.bytes(operand_len)?);
        let durability = durability_in(keyspace, durability)?;
        keyspace.merge_with(key.bytes(key_len)?, &operand, durability).map(|()| 0)
    }

    fn cleavedb_add(keyspace: Handle<Keyspace>, key: Chars, key_len: usize, number: i64,
        durability: c_int; error: ErrorOut) -> c_int {
        let keyspace = of(&keyspace)?;
        let durability = durability_in(keyspace, durability)?;
        keyspace.merge_with(key.bytes(key_len)?, &Operand::add(number), durability).map(|()| 0)
    }
}
