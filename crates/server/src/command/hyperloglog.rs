//! Commands of HyperLogLogs: strings that tell about how many different elements were added.

mod registers;

use bytes::Bytes;

use self::registers::{DamagedSketch, Registers, Sketch};
use super::strings::put;
use crate::exec::{Answer, Halt, View};
use crate::resp::reply::Reply;

fn damaged(_: DamagedSketch) -> Halt {
    Halt::error("INVALIDOBJ Corrupted HLL object detected")
}

/// The HyperLogLog of a key, and the end of its life, if it is there.
fn find(key: &[u8], view: &View<'_>) -> Answer<Option<(Sketch, Option<u64>)>> {
    let Some((bytes, until)) = view.string(key)? else { return Ok(None) };
    let invalid = || Halt::error("WRONGTYPE Key is not a valid HyperLogLog string value.");
    Ok(Some((Sketch::of(Bytes::into(bytes)).ok_or_else(invalid)?, until)))
}

/// `PFADD key [element ...]`
pub fn pfadd<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let found = find(args[1], view)?;
    let mut has_changed = found.is_none();
    let (mut sketch, until) = found.unwrap_or_default();
    for element in &args[2..] {
        has_changed |= sketch.add(element).map_err(damaged)?;
    }
    if has_changed {
        sketch.forget_count();
        put(args[1], sketch.into_bytes(), until, "pfadd", view);
    }
    Ok(Reply::Integer(has_changed.into()))
}

/// The greatest of each register of some keys, and whether one of them has all written out.
fn greatest(keys: &[&[u8]], view: &View<'_>) -> Answer<(Registers, bool)> {
    view.take_time(keys.len() * registers::REGISTERS)?;
    let (mut greatest, mut is_dense) = (Registers::default(), false);
    for key in keys {
        if let Some((sketch, _)) = find(key, view)? {
            greatest.merge(&sketch.registers().map_err(damaged)?);
            is_dense |= sketch.is_dense();
        }
    }
    Ok((greatest, is_dense))
}

/// `PFCOUNT key [key ...]`: the number of one key is kept in its value, as Redis does.
pub fn pfcount<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let [_, key] = args else {
        let (greatest, _) = greatest(&args[1..], view)?;
        return Ok(Reply::Integer(greatest.count().cast_signed()));
    };
    let Some((mut sketch, until)) = find(key, view)? else { return Ok(Reply::Integer(0)) };
    let count = match sketch.kept_count() {
        Some(count) => count,
        None => {
            let count = sketch.registers().map_err(damaged)?.count();
            sketch.keep_count(count);
            view.put(key, sketch.into_bytes(), until);
            count
        }
    };
    Ok(Reply::Integer(count.cast_signed()))
}

/// `PFMERGE key [key ...]`
pub fn pfmerge<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let (greatest, is_dense) = greatest(&args[1..], view)?;
    let (mut sketch, until) = find(args[1], view)?.unwrap_or_default();
    if is_dense {
        sketch.make_dense().map_err(damaged)?;
    }
    for (index, value) in greatest.values().filter(|(_, value)| *value > 0) {
        sketch.raise(index, value).map_err(damaged)?;
    }
    sketch.forget_count();
    put(args[1], sketch.into_bytes(), until, "pfadd", view);
    Ok(Reply::OK)
}
