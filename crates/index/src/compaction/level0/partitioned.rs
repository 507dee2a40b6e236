//! Level 0 in partitions (OHDB, section III.A): each bucket is compacted by itself.
//!
//! A bucket leaves when it has twice its share of the size, or too many slices; slices merge only
//! where they are close to that number. When level 0 is full the largest bucket leaves, so buckets
//! that fill at the same rate leave in turn, each twice as large as the average: level 1 is
//! rewritten half as often as if all left at once.

use std::sync::Arc;

use super::split_keys::{KeySample, split_keys};
use super::{Component, Policy, TableEnds};
use crate::buckets::Bucket;
use crate::compaction::picker::Picker;
use crate::compaction::{Compaction, CompactionOptions};
use crate::table_handle::TableHandle;
use crate::version::Version;

/// A flush of at least this part of level 0, 1/32, has tables of full length. Short tables of the
/// first flush would form buckets, and level 0 would merge each of them in place before it leaves:
/// a load was a quarter slower.
const LONG_FLUSH: u64 = 32;

pub(super) struct Partitioned;

impl Policy for Partitioned {
    fn fullness(&self, picker: &Picker<'_>) -> f64 {
        let buckets = picker.version.buckets().iter();
        buckets.map(|bucket| fullness_of(picker, bucket)).fold(as_one(picker), f64::max)
    }

    fn merging(&self, picker: &Picker<'_>) -> Option<Compaction> {
        let buckets = picker.version.buckets().iter();
        // A bucket that fills by bytes leaves before a merge has paid off.
        let bytes_max = picker.options.bucket_bytes() / 2;
        let crowded = buckets.filter(|bucket| {
            let (bytes, slices) = fullnesses(picker, bucket);
            bytes < slices && slices < 1.0
        });
        crowded.map(|bucket| &bucket.slices).find_map(|s| super::merge_slices(picker, s, bytes_max))
    }

    /// The candidates in buckets that should leave; all of them, if level 0 as a whole is too full.
    fn leaving<'a>(
        &self,
        picker: &'a Picker<'_>,
        candidates: &[&'a Arc<TableHandle>],
    ) -> Vec<Component<'a>> {
        let buckets = picker.version.buckets();
        let due = |part: &Component<'_>| {
            let smallest = &part.upper[0].meta().smallest;
            let at = buckets.partition_point(|bucket| bucket.largest < *smallest);
            buckets.get(at).is_some_and(|bucket| fullness_of(picker, bucket) >= 1.0)
        };
        let mut parts = super::components(candidates, &[]);
        if as_one(picker) < 1.0 || parts.iter().any(due) {
            parts.retain(due);
        }
        for part in &mut parts {
            let largest = part.upper.iter().map(|table| &table.meta().largest).max();
            let smallest = &part.upper[0].meta().smallest;
            let level1 = picker.version.level(1);
            let below = largest.map(|largest| level1.overlapping(smallest, largest));
            part.lower = below.into_iter().flatten().collect();
        }
        parts
    }

    fn table_ends(
        &self,
        version: &Version,
        options: &CompactionOptions,
        sample: &mut dyn FnMut() -> KeySample,
    ) -> TableEnds {
        let sample = sample();
        let is_long = sample.bytes() >= options.l0_bytes / LONG_FLUSH;
        let bytes = if is_long { options.table_bytes } else { options.table_end() };
        TableEnds { bytes, keys: split_keys(version, options, &sample) }
    }

    fn output_split_keys(&self, version: &Version) -> Vec<Box<[u8]>> {
        version.buckets().iter().map(|bucket| bucket.smallest.clone()).collect()
    }
}

/// How full level 0 is without regard to buckets. A table of a cut run is a part of it; one that is
/// not worth a file is a run that was too small to be cut: short sessions leave one each.
fn as_one(picker: &Picker<'_>) -> f64 {
    let CompactionOptions { level0, l0_runs_max, .. } = *picker.options;
    let (partitions, least) = (level0.partitions(), picker.options.table_bytes_min());
    let tables = picker.version.runs().iter().flat_map(|run| run.set.tables());
    let parts = tables.map(|table| if table.meta().size < least { partitions } else { 1 });
    super::fullness_by(picker, parts.sum(), partitions * l0_runs_max)
}

fn fullness_of(picker: &Picker<'_>, bucket: &Bucket) -> f64 {
    let (bytes, slices) = fullnesses(picker, bucket);
    bytes.max(slices)
}

/// How full a bucket is by its bytes, and by its slices.
fn fullnesses(picker: &Picker<'_>, bucket: &Bucket) -> (f64, f64) {
    let bytes = bucket.bytes() as f64 / picker.options.bucket_bytes() as f64;
    (bytes, bucket.slices.len() as f64 / picker.options.l0_runs_max as f64)
}
