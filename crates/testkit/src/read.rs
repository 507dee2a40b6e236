//! Reads ranges in every order, and whole stores, with errors as text.

use cleavedb::{Bytes, Error, Item, Keyspace, Range};

use crate::op::{Scan, short};
use crate::setup::millis;
use crate::state::State;

/// Why a check failed.
pub type Failure = String;

/// A result of checking.
pub type Checked<T = ()> = std::result::Result<T, Failure>;

/// Reads a range in the order that `scan` says; the items come back in key order.
pub fn collect(mut range: Range, scan: Scan) -> Checked<Vec<Item>> {
    let (mut front, mut back) = (Vec::new(), Vec::new());
    let mut turn = 0;
    loop {
        let from_back = match scan {
            Scan::Forward => false,
            Scan::Backward => true,
            Scan::Both(bits) => bits >> (turn % 64) & 1 == 1,
        };
        turn += 1;
        let item = if from_back { range.next_back() } else { range.next() };
        match item {
            None => break,
            Some(Err(e)) => return Err(format!("{scan:?} failed: {e}")),
            Some(Ok(item)) if from_back => back.push(item),
            Some(Ok(item)) => front.push(item),
        }
    }
    if range.next().is_some() || range.next_back().is_some() {
        return Err(format!("{scan:?} returned items after its end"));
    }
    front.extend(back.into_iter().rev());
    Ok(front)
}

/// Compares the items of a range with the expected ones.
pub fn compare(what: &str, got: &[Item], expected: &[(&[u8], &[u8])]) -> Checked {
    for (i, (item, (key, value))) in got.iter().zip(expected).enumerate() {
        if item.key != *key || item.value != *value {
            return Err(format!(
                "{what}: item {i} is {} ({} bytes), expected {} ({} bytes)",
                short(&item.key),
                item.value.len(),
                short(key),
                value.len()
            ));
        }
    }
    if got.len() != expected.len() {
        return Err(format!("{what}: {} items, expected {}", got.len(), expected.len()));
    }
    Ok(())
}

/// Compares one value.
pub fn compare_value(
    what: &str,
    key: &[u8],
    got: Option<&Bytes>,
    expected: Option<&[u8]>,
) -> Checked {
    if got.map(|value| &value[..]) == expected {
        return Ok(());
    }
    let len =
        |value: Option<&[u8]>| value.map_or("nothing".into(), |v| format!("{} bytes", v.len()));
    let (got, expected) = (len(got.map(|value| &value[..])), len(expected));
    Err(format!("{what} of {} gave {got}, expected {expected}", short(key)))
}

/// Everything in a keyspace, front to back.
pub fn everything(keyspace: &Keyspace) -> Checked<State> {
    let failed = |e: Error| format!("a scan failed: {e}");
    let (mut cursor, mut state) = (keyspace.cursor(..), State::default());
    while cursor.next().map_err(failed)? {
        let (item, expiry) = (cursor.item().map_err(failed)?, millis(cursor.expiry()));
        if let Some(Item { key, value }) = item {
            state.set_living(&key, Some((value[..].into(), expiry)));
        }
    }
    Ok(state)
}
