//! Fills an empty hot store at an open: its segments are read in any order, and their records then
//! inserted shard by shard, those of the youngest segment first.
//!
//! So most keys are inserted once, and nothing is known of a key but its entry in the index. Only
//! where a segment has an older record of a key whose entry is there are their sequence numbers
//! compared. A shard is small enough for a processor's cache, and is made for the number of keys
//! that it will have.

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{Error, Location, Result, SeqNo, ValuePointer};

use crate::entry::PackedEntry;
use crate::index::{SHARDS, shard_of};
use crate::segment::{HotKey, HotSegment, SegmentRecord, holds};
use crate::slot::Slot;
use crate::store::HotStore;
use crate::table::{HotTable, tag};

/// Collects the records of a segment that is read, in any order.
pub struct FoundBuilder {
    place: Location,
    records: Vec<(SegmentRecord, SeqNo)>,
    stubs: Vec<(HotKey, SeqNo)>,
}

impl FoundBuilder {
    /// A segment at `place` with about `records` records.
    pub fn new(place: Location, records: usize) -> Self {
        let records = Vec::with_capacity(records.min(usize::from(u16::MAX)));
        Self { place, records, stubs: Vec::new() }
    }

    /// Whether it has a place for the record at `pointer`.
    pub fn holds(&self, pointer: ValuePointer) -> bool {
        holds(self.place, self.records.len(), pointer)
    }

    /// Adds the record of a version of `key` at `pointer`, which it must hold.
    pub fn add(&mut self, key: HotKey, pointer: ValuePointer, seq: SeqNo) {
        debug_assert!(self.holds(pointer));
        self.records.push((SegmentRecord::new(self.place, key, pointer), seq));
    }

    /// Adds a stub.
    pub fn add_stub(&mut self, key: HotKey, seq: SeqNo) {
        self.stubs.push((key, seq));
    }

    /// The segment.
    pub fn finish(self) -> FoundSegment {
        let Self { place, mut records, stubs } = self;
        records.sort_unstable_by_key(|(record, _)| record.order());
        let (records, seqs): (Vec<_>, Vec<_>) = records.into_iter().unzip();
        FoundSegment { segment: Arc::new(HotSegment::new(place, records.into())), seqs, stubs }
    }
}

/// A segment that was read.
pub struct FoundSegment {
    segment: Arc<HotSegment>,
    /// Sequence numbers of its records, in their order.
    seqs: Vec<SeqNo>,
    stubs: Vec<(HotKey, SeqNo)>,
}

impl FoundSegment {
    /// Number of its records.
    pub fn len(&self) -> usize {
        self.seqs.len()
    }

    /// Whether it has no record.
    pub fn is_empty(&self) -> bool {
        self.seqs.is_empty()
    }
}

/// Fills a store.
pub struct HotLoad<'s> {
    store: &'s HotStore,
    /// Youngest first: a segment's number is its position.
    found: Vec<FoundSegment>,
    /// Number of hot keys that is expected.
    keys: u64,
    heat: u8,
}

impl<'s> HotLoad<'s> {
    /// Will fill `store` with the records of `found`, youngest first, among which about `keys` are
    /// alive; each key gets this heat. No other thread uses the store meanwhile.
    pub fn new(store: &'s HotStore, found: Vec<FoundSegment>, keys: u64, heat: u8) -> Result<Self> {
        if found.len() > usize::from(u16::MAX) {
            return Err(Error::corruption("too many hot segments").with("segments", found.len()));
        }
        Ok(Self { store, found, keys, heat })
    }

    /// Fills part `part` of `parts` of the index; each must be filled once, by any thread.
    pub fn fill(&self, part: usize, parts: usize) {
        let shards = part * SHARDS / parts..(part + 1) * SHARDS / parts;
        let before = |it: &SegmentRecord| shard_of(it.hash()) < shards.start;
        let records = self.found.iter().map(|found| found.segment.records());
        let mut next: Vec<usize> = records.map(|it| it.partition_point(before)).collect();
        for shard in shards {
            self.store.set_shard(shard, self.table(shard, &mut next));
        }
    }

    /// Adds the segments, when all parts were filled.
    pub fn finish(self) {
        self.store.set_segments(self.found.into_iter().map(|found| found.segment));
    }

    /// The table of a shard, whose records begin in each segment at the number in `next`; it is set
    /// to those of the next shard.
    fn table(&self, shard: usize, next: &mut [usize]) -> HotTable {
        let mut table = HotTable::for_keys(self.keys as usize / SHARDS);
        for ((segment, found), next) in (0..).zip(&self.found).zip(next) {
            let rest = found.segment.records()[*next..].iter().zip(&found.seqs[*next..]);
            let within = rest.take_while(|(record, _)| shard_of(record.hash()) == shard);
            for (record, seq) in within {
                let slot = Slot { segment, record: *next as u16 };
                self.add(&mut table, record, slot, *seq);
                *next += 1;
            }
        }
        let stubs = (0..).zip(&self.found).flat_map(|(segment, found)| {
            found.stubs.iter().map(move |(key, seq)| (segment, *key, *seq))
        });
        for (segment, key, seq) in stubs.filter(|(_, key, _)| shard_of(key.hash) == shard) {
            let place = table.find(key.hash, |entry| self.record(entry.slot()).is_of(key));
            if let Some(place) = place {
                let slot = table.entry(place).slot();
                // Of equal sequence numbers the one in the younger segment counts.
                let known = (self.seq(slot), slot.segment);
                if known.0 < seq || (known.0 == seq && known.1 >= segment) {
                    table.remove(key.hash, place);
                }
            }
        }
        table
    }

    /// Adds a record, unless a younger version of its key is there.
    fn add(&self, table: &mut HotTable, record: &SegmentRecord, slot: Slot, seq: SeqNo) {
        let hash = record.hash();
        let known = table.find(hash, |entry| self.record(entry.slot()).is_alike(record));
        match known {
            Some(place) => {
                let known = table.entry(place);
                if self.seq(known.slot()) < seq || planted(Bug::OlderHotRevived) {
                    table.set(place, known.with_slot(slot));
                }
            }
            None => {
                let entry = PackedEntry::new(tag(hash), slot, self.heat);
                table.insert(hash, entry, &|slot| self.record(slot).hash());
            }
        }
    }

    /// A record that is in the table.
    fn record(&self, slot: Slot) -> &SegmentRecord {
        &self.found[usize::from(slot.segment)].segment.records()[usize::from(slot.record)]
    }

    fn seq(&self, slot: Slot) -> SeqNo {
        self.found[usize::from(slot.segment)].seqs[usize::from(slot.record)]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use cleavedb_base::FileNumber;

    use super::*;
    use crate::segment::SEGMENT_MAX;
    use crate::testing::drawn;

    const LEN: u32 = 1072;

    /// Segments of drawn keys, oldest first, with stubs in between, some of which are copies of old
    /// ones, behind the record of a version that is newer. Returns them, and what should be found.
    fn segments(seed: u64, store: &HotStore) -> (Vec<FoundSegment>, HashMap<u64, ValuePointer>) {
        let (mut found, mut newest) = (Vec::new(), HashMap::new());
        let mut seq = 100;
        for number in 0..20 {
            let place = Location { file: FileNumber(1), offset: number * SEGMENT_MAX };
            let mut builder = FoundBuilder::new(place, 0);
            for at in 0..1000 {
                seq += 1;
                let n = drawn(seed, seq) % 8000;
                let key = store.key(&n.to_le_bytes());
                let offset = place.offset + at * u64::from(LEN);
                let pointer = ValuePointer { file: place.file, offset, len: LEN };
                assert!(builder.holds(pointer));
                match n % 16 {
                    0 if seq.is_multiple_of(2) => {
                        builder.add_stub(key, seq);
                        newest.remove(&n);
                    }
                    1 => builder.add_stub(key, seq - 100),
                    _ => {
                        builder.add(key, pointer, seq);
                        newest.insert(n, (seq, pointer));
                    }
                }
            }
            found.push(builder.finish());
        }
        (found, newest.into_iter().map(|(n, (_, pointer))| (n, pointer)).collect())
    }

    #[test]
    fn the_newest_record_of_each_key_is_found_but_not_behind_a_younger_stub() {
        for seed in 0..4 {
            let store = HotStore::new(7, 32 << 20, None);
            let (mut found, newest) = segments(seed, &store);
            found.reverse();
            let keys = newest.len() as u64;
            let load = HotLoad::new(&store, found, keys, 5).unwrap();
            (0..3).for_each(|part| load.fill(part, 3));
            load.finish();
            for n in 0..8000u64 {
                let key = store.key(&n.to_le_bytes());
                assert_eq!(store.find(key), newest.get(&n).copied(), "seed {seed}: key {n}");
                assert!(!newest.contains_key(&n) || store.heat(key) == 5);
            }
            let stats = store.stats();
            assert_eq!((stats.keys, stats.segments), (keys, 20));
            // Shards are so short here that some must grow.
            assert!(stats.index_memory < keys * 11, "{} for {keys}", stats.index_memory);
        }
    }
}
