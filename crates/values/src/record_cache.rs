//! RecordCache: separated values that were read lately, found by key and sequence number.
//!
//! A sequence number is never used twice (invariant 5), so an entry is right for as long as it
//! exists: a newer version has another number, and a record that a collection moves keeps its own.
//! Nothing is invalidated, and nothing cools when records move (decision 0033).
//!
//! Invariants: all entries together stay within the budget; only verified records come in; eviction
//! depends on the calls alone (invariant 14).

use std::hash::BuildHasherDefault;
use std::sync::Arc;

use bytes::Bytes;
use cleavedb_base::SeqNo;
use cleavedb_base::look_ups::LookUps;
use cleavedb_base::number_hasher::NumberHasher;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::real::{AtomicU64, Ordering};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use crate::owned_record::OwnedRecord;

/// Part of the cache that one record may take, as a divisor: a few long ones must not evict all
/// others.
const RECORD_PART: u64 = 64;

/// Least capacity of a shard, in bytes, and most shards. A shard of the largest number still holds
/// two of the longest records.
const SHARD_BYTES_MIN: u64 = 1 << 20;
const SHARDS_MAX: u64 = RECORD_PART / 2;

/// The cache's own memory for each record, in bytes: slot with key, links and handle (72), hash
/// table (12), count of the readers (32), and what the allocator adds.
const OVERHEAD: u64 = 160;

/// Bytes of the cache for which it remembers half of an evicted key, and the part of the cache that
/// these take, as a divisor: a slot and its share of the hash table for every 2 KiB.
const PER_KEY: u64 = 1024;
const EVICTED_PART: u64 = 24;

/// What names a version of a key: its number, and a hash of keyspace and key. The record itself
/// tells whether it is that of the key.
type Version = (SeqNo, u64);

#[derive(Clone)]
struct RecordBytes;

impl Weighter<Version, OwnedRecord> for RecordBytes {
    fn weight(&self, _: &Version, record: &OwnedRecord) -> u64 {
        record.len() as u64 + OVERHEAD
    }
}

type Records = Cache<Version, OwnedRecord, RecordBytes, BuildHasherDefault<NumberHasher>>;

/// Counters and memory of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordCacheStats {
    /// Look-ups that found their record; those of scans are not counted.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
    /// Records in the cache.
    pub records: u64,
    /// Memory of the records, in bytes.
    pub bytes: u64,
}

/// The memory of a cache of records, or of the caches of several databases that share it.
pub struct RecordMemory {
    records: Records,
    longest: usize,
    /// Caches that have shared it so far.
    shared: AtomicU64,
}

impl RecordMemory {
    /// Memory of `budget` bytes in all.
    pub fn new(budget: u64) -> Self {
        // The greatest power of two that leaves every shard its least capacity.
        let shards = 1 << (budget / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX).ilog2();
        let options = OptionsBuilder::new()
            .shards(shards as usize)
            .weight_capacity((budget - budget / EVICTED_PART) / shards * shards)
            .estimated_items_capacity((budget / PER_KEY) as usize)
            .ghost_allocation(0.5)
            .build()
            .expect("capacity and number of items are set");
        let (hasher, lifecycle) = (BuildHasherDefault::default(), DefaultLifecycle::default());
        let records = Records::with_options(options, RecordBytes, hasher, lifecycle);
        let longest = (budget / RECORD_PART) as usize;
        Self { records, longest, shared: AtomicU64::new(0) }
    }

    /// Memory of cached records, in bytes.
    pub fn used(&self) -> u64 {
        self.records.weight()
    }
}

/// Cache of whole records of one database.
pub struct RecordCache {
    memory: Arc<RecordMemory>,
    /// Turns hashes of keys into those of this cache, one to one: equal keys of two databases that
    /// share the memory never have equal hashes, and of different keys the record tells. 0 in
    /// memory of its own.
    salt: u64,
    look_ups: LookUps,
}

impl RecordCache {
    /// A cache that takes `budget` bytes in all.
    pub fn new(budget: u64) -> Self {
        let memory = Arc::new(RecordMemory::new(budget));
        Self { memory, salt: 0, look_ups: LookUps::default() }
    }

    /// A cache in the memory that others have, too: it finds only what it has cached itself.
    pub fn sharing(memory: &Arc<RecordMemory>) -> Self {
        let number = memory.shared.fetch_add(1, Ordering::Relaxed) + 1;
        // An odd factor keeps them different.
        let salt = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let salt = if planted(Bug::CachedWithoutDatabase) { 0 } else { salt };
        Self { memory: Arc::clone(memory), salt, look_ups: LookUps::default() }
    }

    /// The value of (`encoded_key`, `seq`), where `hash` is the hash of the key, if it is cached.
    #[inline]
    pub fn get(&self, encoded_key: &[u8], hash: u64, seq: SeqNo) -> Option<Bytes> {
        let found = self.memory.records.get(&version(hash ^ self.salt, seq));
        let found = found.filter(|record| record.is_of(encoded_key));
        self.look_ups.count(hash, found.is_some());
        found.map(OwnedRecord::into_value)
    }

    /// As [`RecordCache::get`], but it changes nothing: neither the counters, nor what is evicted
    /// next.
    #[inline]
    pub fn peek(&self, encoded_key: &[u8], hash: u64, seq: SeqNo) -> Option<Bytes> {
        let found = self.memory.records.peek(&version(hash ^ self.salt, seq));
        found.filter(|record| record.is_of(encoded_key)).map(OwnedRecord::into_value)
    }

    /// Caches the record of a key with this hash and of this number, unless it is too long.
    #[inline]
    pub fn insert(&self, hash: u64, seq: SeqNo, record: &OwnedRecord) {
        if record.len() <= self.memory.longest {
            self.memory.records.insert(version(hash ^ self.salt, seq), record.clone());
        }
    }

    /// Counters, and memory now: all of it, if others share it.
    pub fn stats(&self) -> RecordCacheStats {
        RecordCacheStats {
            hits: self.look_ups.hits(),
            misses: self.look_ups.misses(),
            records: self.memory.records.len() as u64,
            bytes: self.memory.records.weight(),
        }
    }
}

#[inline]
fn version(hash: u64, seq: SeqNo) -> Version {
    let seq = if planted(Bug::CachedWithoutSeq) { 0 } else { seq };
    (seq, hash)
}

#[cfg(test)]
mod tests {
    use cleavedb_base::checksum::hash64;
    use cleavedb_base::record::{Header, RecordKind};
    use cleavedb_base::{EncodedKey, KeyspaceId};

    use super::*;

    const SPACE: KeyspaceId = KeyspaceId(0);

    fn record(key: &[u8], seq: SeqNo, value: &[u8]) -> OwnedRecord {
        let header = Header::new(RecordKind::Separated, SPACE, seq, key, value);
        // The header of a verified record is not read again.
        let bytes = [&[0; 24], key, value].concat();
        OwnedRecord::new(bytes.into(), &header)
    }

    fn insert(cache: &RecordCache, key: &[u8], seq: SeqNo, value: &[u8]) {
        cache.insert(hash(key), seq, &record(key, seq, value));
    }

    fn hash(key: &[u8]) -> u64 {
        hash64(EncodedKey::new(SPACE, key).as_bytes(), 0)
    }

    fn get(cache: &RecordCache, key: &[u8], seq: SeqNo) -> Option<Bytes> {
        cache.get(EncodedKey::new(SPACE, key).as_bytes(), hash(key), seq)
    }

    #[test]
    fn a_version_is_found_by_its_key_and_its_number_alone() {
        let cache = RecordCache::new(1 << 20);
        insert(&cache, b"key", 7, b"seventh");
        insert(&cache, b"key", 9, b"ninth");
        assert_eq!(get(&cache, b"key", 7).as_deref(), Some(&b"seventh"[..]));
        assert_eq!(get(&cache, b"key", 9).as_deref(), Some(&b"ninth"[..]));
        assert!(get(&cache, b"key", 8).is_none() && get(&cache, b"kez", 7).is_none());
        let elsewhere = EncodedKey::new(KeyspaceId(1), b"key");
        assert!(cache.get(elsewhere.as_bytes(), hash(b"key"), 7).is_none(), "a hash met by chance");
        let stats = cache.stats();
        assert_eq!((stats.hits, stats.misses, stats.records), (2, 3, 2));
    }

    #[test]
    fn caches_that_share_memory_find_their_own_records_only() {
        let memory = Arc::new(RecordMemory::new(1 << 20));
        let (one, two) = (RecordCache::sharing(&memory), RecordCache::sharing(&memory));
        insert(&one, b"key", 7, b"of one");
        assert!(get(&two, b"key", 7).is_none());
        insert(&two, b"key", 7, b"of two");
        assert_eq!(get(&one, b"key", 7).as_deref(), Some(&b"of one"[..]));
        assert_eq!(get(&two, b"key", 7).as_deref(), Some(&b"of two"[..]));
        assert_eq!((one.stats().bytes, two.stats().misses), (memory.used(), 1));
    }

    #[test]
    fn ten_times_its_size_stays_within_the_budget_and_fills_it() {
        for budget in [1 << 10, 64 << 10, 1 << 20, 33 << 20] {
            for len in [0, 100, 1000, 4000] {
                let cache = RecordCache::new(budget);
                let value = vec![7; len];
                let inserted = 10 * budget / (len as u64 + OVERHEAD);
                for seq in 0..inserted {
                    insert(&cache, &seq.to_be_bytes(), seq, &value);
                    if seq % 1024 == 0 {
                        assert!(cache.stats().bytes <= budget);
                    }
                }
                let (bytes, used) = (cache.stats().bytes, cache.memory.records.memory_used());
                assert!(bytes <= budget, "{bytes} of {budget}");
                let fits = len as u64 + 32 <= budget / RECORD_PART;
                assert_eq!(bytes > budget / 2, fits, "{bytes} of {budget}, values of {len}");
                // Header, key, value, the count of readers, and the allocator's own for both.
                let records = cache.stats().records * (24 + 8 + len as u64 + 32 + 16);
                let all = records + (used.entries + used.map) as u64;
                assert!(all <= budget, "{all} of {budget}, values of {len}");
            }
        }
    }

    #[test]
    fn a_peek_counts_nothing_and_keeps_nothing_warm() {
        // Others come and are got again: of two that were there before, the one that is got stays.
        let cache = RecordCache::new(64 << 10);
        let value = [7; 500];
        insert(&cache, b"got", 1, &value);
        insert(&cache, b"peeked", 2, &value);
        for seq in 10..2000 {
            get(&cache, b"got", 1);
            let key = EncodedKey::new(SPACE, b"peeked");
            cache.peek(key.as_bytes(), hash(b"peeked"), 2);
            insert(&cache, &u64::to_be_bytes(seq), seq, &value);
            get(&cache, &u64::to_be_bytes(seq), seq);
        }
        assert_eq!(cache.stats().hits + cache.stats().misses, 2 * 1990);
        assert!(get(&cache, b"got", 1).is_some() && get(&cache, b"peeked", 2).is_none());
    }
}
