//! The model: the content as an ordered map, with a hash that is updated with every change, as of a
//! time: values that have expired are not in it.
//!
//! The hash is a sum over the pairs, so that an update costs no more than that of the map, and the
//! state after each of a thousand writes can be recognised later without keeping a thousand maps.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleavedb::Operand;
use cleavedb_base::checksum::hash64;

use crate::merges;
use crate::op::Write;

/// A value that a caller sets, and when it expires, in milliseconds.
type Expiring = (Arc<[u8]>, Option<u64>);

/// An ordered map and the hash of its content.
#[derive(Clone, Debug, Default)]
pub struct State {
    map: BTreeMap<Vec<u8>, Expiring>,
    hash: u64,
    /// The time of writes, in milliseconds.
    now: u64,
}

/// Two states are equal if their contents are.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.map == other.map
    }
}

impl Eq for State {}

/// Hash of one pair: a term of the sum.
pub fn pair_hash(key: &[u8], value: &[u8]) -> u64 {
    hash64(key, hash64(value, 0x7a11))
}

impl State {
    /// Puts or, without a value, removes a key.
    pub fn set(&mut self, key: &[u8], value: Option<&Arc<[u8]>>) {
        self.set_living(key, value.map(|value| (value.clone(), None)));
    }

    /// Puts or, without a value, removes a key, with a value that may expire.
    pub fn set_living(&mut self, key: &[u8], value: Option<Expiring>) {
        let hash = |(value, expiry): &Expiring| match expiry {
            None => pair_hash(key, value),
            Some(expiry) => hash64(&expiry.to_le_bytes(), pair_hash(key, value)),
        };
        let old = match value {
            Some(living) => {
                self.hash = self.hash.wrapping_add(hash(&living));
                self.map.insert(key.to_vec(), living)
            }
            None => self.map.remove(key),
        };
        if let Some(old) = old {
            self.hash = self.hash.wrapping_sub(hash(&old));
        }
    }

    /// Lets time pass until `now`, in milliseconds: what has expired by then goes.
    pub fn pass_until(&mut self, now: u64) {
        self.now = now;
        let is_over = |(_, expiry): &Expiring| expiry.is_some_and(|expiry| expiry <= now);
        let over = self.map.iter().filter(|(_, value)| is_over(value));
        let over: Vec<_> = over.map(|(key, _)| key.clone()).collect();
        over.iter().for_each(|key| self.set(key, None));
    }

    /// Changes a value by an operand; it keeps its expiry.
    fn merge(&mut self, key: &[u8], operand: &Operand) {
        let value = merges::apply(self.get(key), operand);
        let expiry = self.expiry(key);
        self.set_living(key, Some((value.into(), expiry)));
    }

    /// Applies the writes of one batch, in order.
    pub fn apply(&mut self, batch: &[Write]) {
        for write in batch {
            match (&write.upto, &write.operand) {
                (Some(upto), _) => self.delete_range(&write.key, upto),
                (None, Some(operand)) => self.merge(&write.key, operand),
                (None, None) => {
                    let expiry = write.ttl.map(|ttl| self.now + ttl);
                    let value = write.value.clone().filter(|_| write.ttl != Some(0));
                    self.set_living(&write.key, value.map(|value| (value, expiry)));
                }
            }
        }
    }

    /// Removes the keys from `from` to `to`, excluded.
    pub fn delete_range(&mut self, from: &[u8], to: &[u8]) {
        let within = |key: &&Vec<u8>| from <= &key[..] && &key[..] < to;
        let keys: Vec<_> = self.map.keys().filter(within).cloned().collect();
        keys.iter().for_each(|key| self.set(key, None));
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.map.get(key).map(|(value, _)| &**value)
    }

    /// When a key goes that is there, in milliseconds; `None` if it stays.
    pub fn expiry(&self, key: &[u8]) -> Option<u64> {
        self.map.get(key)?.1
    }

    /// The time of writes, in milliseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// All pairs, in key order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> {
        self.map.iter().map(|(key, (value, _))| (&key[..], &value[..]))
    }

    /// Pairs from `from` (inclusive) to `to` (exclusive).
    pub fn range(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Vec<(&[u8], &[u8])> {
        self.iter()
            .filter(|(key, _)| from.is_none_or(|from| from <= *key))
            .filter(|(key, _)| to.is_none_or(|to| *key < to))
            .collect()
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// The hash of the content; equal states have equal hashes.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

impl FromIterator<(Vec<u8>, Arc<[u8]>)> for State {
    fn from_iter<I: IntoIterator<Item = (Vec<u8>, Arc<[u8]>)>>(pairs: I) -> Self {
        let mut state = Self::default();
        pairs.into_iter().for_each(|(key, value)| state.set(&key, Some(&value)));
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_follows_the_content_and_not_the_way_there() {
        let value = |text: &str| Arc::from(text.as_bytes());
        let mut a = State::default();
        a.set(b"x", Some(&value("1")));
        a.set(b"y", Some(&value("2")));
        a.set(b"x", Some(&value("3")));
        let mut b = State::default();
        b.set(b"x", Some(&value("3")));
        b.set(b"z", Some(&value("4")));
        assert_ne!(a.hash(), b.hash());
        b.set(b"z", None);
        b.set(b"y", Some(&value("2")));
        assert_eq!(a, b);
        b.set(b"y", None);
        b.set(b"x", None);
        assert_eq!(b, State::default());
    }
}
