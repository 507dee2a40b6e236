//! Split keys: where a run of level 0 is cut into tables, so that level 0 divides into buckets.
//!
//! OHDB (section III.A) cuts by key prefix into 10 parts. Fixed prefixes leave most parts empty
//! when keys are skewed or share a long prefix, so here the parts follow the data:
//!
//! * A cut falls between two existing buckets: the part of a run for one of them does not reach
//!   into the other.
//! * Where level 0 has no bucket, but deeper levels have data, the run is cut into parts of similar
//!   size, at the bounds of tables of level 1 if one is near: such a part overlaps few of them.
//!   Where deeper levels have no data, cutting has no use: the tables will move down unchanged.
//! * Runs that were not cut, since there was nothing below, do not count.
//! * A small part joins its neighbour, and with it two buckets become one: bounds that are not
//!   worth a file disappear, and the next run finds new ones. Only beside a large part does a small
//!   one stay separate, so that a few stray keys do not extend a full bucket across a wide range.
//!
//! Bounds thus follow from the key ranges of tables; they are stored nowhere else, and change with
//! the data. Any set of cuts is correct.

use crate::buckets::Bucket;
use crate::compaction::CompactionOptions;
use crate::table_set::TableSet;
use crate::version::Version;

/// Most keys in the sample of a run: the size of its parts is known to 1 in 2000.
const SAMPLES_MAX: usize = 4096;

/// A sample of the keys of a run that is about to be written, with the bytes before each.
#[derive(Debug, Default)]
pub struct KeySample {
    keys: Vec<(Box<[u8]>, u64)>,
    /// One key in 2 to the power of this number is sampled.
    stride: u32,
    seen: u64,
    bytes: u64,
    last: Vec<u8>,
}

impl KeySample {
    /// Adds a key that is greater than the last one, with the bytes that its entry will take.
    pub fn add(&mut self, key: &[u8], bytes: u64) {
        if self.seen.trailing_zeros() >= self.stride {
            if self.keys.len() == SAMPLES_MAX {
                let mut keep = false;
                self.keys.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.stride += 1;
            }
            if self.seen.trailing_zeros() >= self.stride {
                self.keys.push((key.into(), self.bytes));
            }
        }
        self.seen += 1;
        self.bytes += bytes;
        self.last.clear();
        self.last.extend_from_slice(key);
    }

    /// Bytes of all keys.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes before `key`, to the precision of the sample.
    fn before(&self, key: &[u8]) -> u64 {
        let at = self.keys.partition_point(|(sampled, _)| &**sampled < key);
        self.keys.get(at).map_or(self.bytes, |(_, before)| *before)
    }

    /// The first sampled key that has at least `bytes` before it.
    fn at(&self, bytes: u64) -> Option<&[u8]> {
        let at = self.keys.partition_point(|(_, before)| *before < bytes);
        self.keys.get(at).map(|(key, _)| &**key)
    }
}

/// Keys between two bounds, beginning with one of them.
struct KeySpan {
    from: Box<[u8]>,
    bytes: u64,
}

/// The least key greater than `key`.
fn successor(key: &[u8]) -> Box<[u8]> {
    [key, &[0]].concat().into()
}

/// Where to cut a run of the keys of `sample`, which is about to enter level 0 of `version`: the
/// keys, ascending, before each of which a table ends. For a level 0 in partitions.
pub(super) fn split_keys(
    version: &Version,
    options: &CompactionOptions,
    sample: &KeySample,
) -> Vec<Box<[u8]>> {
    if sample.keys.is_empty() {
        return Vec::new();
    }
    let least = options.table_bytes_min().max(1);
    let share = (sample.bytes / options.level0.partitions() as u64).max(least);
    let buckets = cut_buckets(version, options);
    join(segments(version, &buckets, sample, share), share, least)
}

/// Divides the keys of `sample` into segments, each between `buckets` or in one.
fn segments(version: &Version, buckets: &[Bucket], sample: &KeySample, share: u64) -> Vec<KeySpan> {
    let (first, last) = (&*sample.keys[0].0, &*sample.last);
    let met = |bucket: &&Bucket| *first <= *bucket.largest && *bucket.smallest <= *last;
    let mut all = Vec::new();
    let mut from: Box<[u8]> = first.into();
    for bucket in buckets.iter().filter(met) {
        let (begin, end) = (bucket.smallest.clone(), successor(&bucket.largest));
        if from < begin {
            split(version, sample, &from, &begin, share, &mut all);
        }
        let begin = begin.max(from);
        let bytes = sample.before(&end) - sample.before(&begin);
        all.push(KeySpan { from: begin, bytes });
        from = end;
    }
    if *from <= *last {
        split(version, sample, &from, &successor(last), share, &mut all);
    }
    all
}

/// The buckets of level 0 without its runs that could have been cut, but were not, since nothing
/// was below. A new store has only such runs, and would never have others: in one bucket with them
/// no run is cut. They leave all at once, and those that were cut as if they were gone stay apart.
fn cut_buckets(version: &Version, options: &CompactionOptions) -> Vec<Bucket> {
    let partitions = options.level0.partitions() as u64;
    let worth = partitions.saturating_mul(options.table_bytes_min());
    let is_cut =
        |set: &TableSet| set.tables().len() as u64 >= partitions / 2 || set.bytes() < worth;
    let runs = version.runs().iter().enumerate().filter(|(_, run)| is_cut(&run.set));
    Bucket::of(runs.flat_map(|(number, run)| {
        run.set.tables().iter().map(move |table| (number, run.position, table))
    }))
}

/// Adds the keys from `from` to `to`, where level 0 has no bucket: in parts of similar size if that
/// is useful.
fn split(
    version: &Version,
    sample: &KeySample,
    from: &[u8],
    to: &[u8],
    share: u64,
    out: &mut Vec<KeySpan>,
) {
    let (start, end) = (sample.before(from), sample.before(to));
    let parts = (end - start + share / 2) / share;
    let below = version.tables().any(|(level, table)| {
        level > 0 && *table.meta().largest >= *from && *table.meta().smallest < *to
    });
    let mut bounds: Vec<Box<[u8]>> = vec![from.into()];
    for part in 1..if below { parts } else { 1 } {
        let goal = start + (end - start) * part / parts;
        let tables = version.level(1).within(Some(from), Some(to));
        let near = tables
            .iter()
            .map(|table| &*table.meta().smallest)
            .map(|key| (sample.before(key).abs_diff(goal), key))
            .min()
            .filter(|(distance, _)| *distance <= share / 4);
        let key = near.map(|(_, key)| key).or_else(|| sample.at(goal));
        bounds.extend(key.filter(|key| *key > &*bounds[bounds.len() - 1]).map(Box::from));
    }
    let before: Vec<u64> = bounds.iter().map(|key| sample.before(key)).chain([end]).collect();
    let bytes = before.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    out.extend(bounds.into_iter().zip(bytes).map(|(from, bytes)| KeySpan { from, bytes }));
}

/// Joins segments until each part is worth a file of its own; returns the beginnings of all parts
/// but the first.
fn join(segments: Vec<KeySpan>, share: u64, least: u64) -> Vec<Box<[u8]>> {
    let worth = |bytes, beside| bytes >= least && (bytes > share / 2 || beside >= share);
    let mut rest: u64 = segments.iter().map(|segment| segment.bytes).sum();
    let mut open = 0;
    let mut split_keys = Vec::new();
    for KeySpan { from, bytes } in segments {
        if worth(open, bytes) && worth(rest, open) {
            split_keys.push(from);
            open = 0;
        }
        open += bytes;
        rest -= bytes;
    }
    split_keys
}

#[cfg(test)]
mod tests;
