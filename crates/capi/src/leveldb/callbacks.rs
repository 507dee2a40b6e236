//! Comparators and filter policies: callbacks of the caller.

use std::ffi::{c_char, c_int};

use cleavedb::{Error, ErrorKind, Result};

use crate::handles::{CallerState, Handle, export};
use crate::slices::{Array, Chars, OutPlace};

type Compare = extern "C" fn(CallerState, *const u8, usize, *const u8, usize) -> c_int;
type Name = extern "C" fn(CallerState) -> Chars;
type Destroy = extern "C" fn(CallerState);
type CreateFilter =
    extern "C" fn(CallerState, Array<Chars>, Array<usize>, c_int, OutPlace<usize>) -> *mut c_char;
type MayMatch = extern "C" fn(CallerState, Chars, usize, Chars, usize) -> u8;

/// The name of the comparator that LevelDB uses by default.
const BYTEWISE: &[u8] = b"leveldb.BytewiseComparator";

/// Pairs of keys that a comparator is tried with.
const PAIRS: usize = 4096;

/// Length of the longest key among them, and room for a comparator that reads on behind a key.
const TRIED_LEN: usize = 12;
const TRIED_ROOM: usize = 64;

/// A comparator of the caller.
pub(super) struct Comparator {
    state: CallerState,
    destroy: Option<Destroy>,
    compare: Option<Compare>,
    name: Option<Name>,
}

impl Comparator {
    /// Fails if keys are not to be ordered as their bytes are.
    pub(super) fn check(&self) -> Result<()> {
        let given = self.name.map(|name| name(self.state));
        let name = given.as_ref().and_then(Chars::text).map(|name| name.to_bytes());
        let orders = |compare: Compare| orders_bytes(|a, b| self.compared(compare, a, b));
        if name == Some(BYTEWISE) || self.compare.is_some_and(orders) {
            return Ok(());
        }
        let name = name.unwrap_or(b"without a name").escape_ascii();
        let what = format!(
            "the comparator {name} does not order keys as their bytes do, which is the only order \
             there is; encode what keys consist of by cleavedb_encode_u64 and its like"
        );
        Err(Error::new(ErrorKind::InvalidOptions, what))
    }

    fn compared(&self, compare: Compare, a: &[u8], b: &[u8]) -> c_int {
        let padded = |key: &[u8]| {
            let mut room = [0; TRIED_ROOM];
            room[..key.len()].copy_from_slice(key);
            room
        };
        let (one, other) = (padded(a), padded(b));
        compare(self.state, one.as_ptr(), a.len(), other.as_ptr(), b.len())
    }
}

/// Whether `compare` orders the pairs as bytes are ordered: empty keys, equal ones, those that
/// begin with the other one, and any bytes.
fn orders_bytes(compare: impl Fn(&[u8], &[u8]) -> c_int) -> bool {
    let mut drawn = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |below: usize| {
        drawn ^= drawn << 13;
        drawn ^= drawn >> 7;
        drawn ^= drawn << 17;
        (drawn >> 16) as usize % below
    };
    (0..PAIRS).all(|_| {
        let mut key = |len| -> Vec<u8> {
            let few = draw(2) == 0;
            let one = |_| if few { [0, b'1', b'a', 0x80, 0xff][draw(5)] } else { draw(256) as u8 };
            (0..len).map(one).collect()
        };
        let (shared, begun) = (key(TRIED_LEN / 2), key(TRIED_LEN / 2));
        let common = draw(shared.len() + 1);
        let (a, b) = (draw(shared.len() + 1), draw(shared.len() + 1));
        let end = |from: &[u8], len: usize| [&shared[..common], &from[..len]].concat();
        let (a, b) = (end(&begun, a), end(&shared, b));
        compare(&a, &b).cmp(&0) == a.cmp(&b)
    })
}

/// Filters of tables: how large they are. What else a policy of the caller says is not asked.
pub(super) struct FilterPolicy {
    pub(super) bits: Option<usize>,
    state: CallerState,
    destroy: Option<Destroy>,
}

export! {
    fn leveldb_comparator_create(state: CallerState, destroy: Option<Destroy>,
        compare: Option<Compare>, name: Option<Name>) -> Handle<Comparator> {
        Handle::new(Comparator { state, destroy, compare, name })
    }

    fn leveldb_comparator_destroy(comparator: Handle<Comparator>) {
        if let Some(it) = comparator.take() && let Some(destroy) = it.destroy {
            destroy(it.state);
        }
    }

    fn leveldb_filterpolicy_create(state: CallerState, destroy: Option<Destroy>,
        _create: Option<CreateFilter>, _may_match: Option<MayMatch>, _name: Option<Name>)
        -> Handle<FilterPolicy> {
        Handle::new(FilterPolicy { bits: None, state, destroy })
    }

    fn leveldb_filterpolicy_create_bloom(bits: c_int) -> Handle<FilterPolicy> {
        let state = CallerState(std::ptr::null_mut());
        Handle::new(FilterPolicy { bits: usize::try_from(bits).ok(), state, destroy: None })
    }

    fn leveldb_filterpolicy_destroy(policy: Handle<FilterPolicy>) {
        if let Some(it) = policy.take() && let Some(destroy) = it.destroy {
            destroy(it.state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_order_of_bytes_is_taken_for_it() {
        let order = |a: &[u8], b: &[u8]| a.cmp(b) as c_int;
        assert!(orders_bytes(order));
        assert!(orders_bytes(|a, b| 1000 * order(a, b)));
        assert!(!orders_bytes(|a, b| order(b, a)), "backward");
        assert!(!orders_bytes(|_, _| 0), "all alike");
        assert!(!orders_bytes(|a, b| order(&a.to_ascii_lowercase(), &b.to_ascii_lowercase())));
        let shorter_first = |a: &[u8], b: &[u8]| a.len().cmp(&b.len()).then(a.cmp(b)) as c_int;
        assert!(!orders_bytes(shorter_first));
        let signed = |a: &[u8], b: &[u8]| {
            a.iter().map(|byte| *byte as i8).cmp(b.iter().map(|byte| *byte as i8)) as c_int
        };
        assert!(!orders_bytes(signed));
        let first_four = |a: &[u8], b: &[u8]| order(&a[..a.len().min(4)], &b[..b.len().min(4)]);
        assert!(!orders_bytes(first_four));
    }
}
