//! Which options may stand together: every rule, with what to do where it is broken.

use cleavedb_base::limits::BLOCK;
use cleavedb_base::limits::VALUE_LEN_MAX;
use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_index::compaction::Level0;
use cleavedb_values::{GroupLayout, Partition, SurvivorRoute};

use super::memory::{MEMORY_MIN, PIECE};
use super::{Background, Options};
use crate::settings::group_options::{GroupOptions, LEN_MAX};
use crate::settings::volume;

/// Least limit on what jobs write, in bytes per second.
const PACE_MIN: u64 = 64 << 10;

/// Largest cache that is allowed, in bytes.
const CACHE_MAX: u64 = 1 << 40;

impl Options {
    /// Checks every option and every pair that must agree.
    pub fn validate(&self) -> Result<()> {
        let layout = self.layout();
        layout.validate()?;
        let rules = [
            (
                !matches!(self.level0(), Level0::Partitions(count) if !(2..=256).contains(&count)),
                "level0 must have 2 to 256 partitions; Level0::Whole has one",
            ),
            (
                self.space_amplification >= 1.05 && self.space_amplification.is_finite(),
                "space_amplification must be at least 1.05: below, collection copies without end",
            ),
            (
                self.resources.is_none()
                    || (self.tuning.cache_bytes.is_none() && self.record_cache_bytes == 0),
                "with resources the caches are shared; leave out cache_bytes and \
                 record_cache_bytes, and give their memory to Resources::new",
            ),
            (
                self.background_bytes_per_second.is_none_or(|rate| rate >= PACE_MIN),
                "background_bytes_per_second must be at least 64 KiB, or jobs would hardly end; \
                 leave it out for no limit",
            ),
            (
                !matches!(self.background, Background::Threads(n) if !(1..=256).contains(&n)),
                "background threads must be 1 to 256",
            ),
            (
                layout.separates() || self.min_separated.is_none(),
                "values in the index are not separated; use a preset whose layout separates them, \
                 or leave min_separated out",
            ),
            (
                layout.has_hot_store() || self.hot_bytes == Self::default().hot_bytes,
                "hot_bytes is for layouts with a hot store; leave it out",
            ),
            (
                (4 << 10..=128 << 30).contains(&self.hot_bytes),
                "hot_bytes must lie between 4 KiB and 128 GiB",
            ),
        ];
        // The memory first: sizes that are not set follow from it.
        let rules = self.least_memory().into_iter().chain(self.sizes()).chain(rules);
        let rules = rules.chain(self.memory_rules());
        let broken = rules
            .chain(rules_of_groups(&self.tuning.groups, layout.groups.as_ref()))
            .find(|(holds, _)| !holds);
        let others = || volume::fault(&self.volumes).or_else(|| self.merge_operators.fault());
        match broken.map(|(_, rule)| rule).or_else(others) {
            Some(rule) => Err(Error::new(ErrorKind::InvalidOptions, rule)),
            None => Ok(()),
        }
    }

    /// Bounds of sizes: below, nothing works; above, sums would overflow.
    fn sizes(&self) -> Vec<(bool, &'static str)> {
        vec![
            (
                (64 << 10..=LEN_MAX).contains(&(self.memtable() as u64)),
                "memtable_bytes must lie between 64 KiB and 64 GiB",
            ),
            (
                (1..=1024).contains(&self.memtables_max()),
                "memtables_max must lie between 1 and 1024",
            ),
            (
                self.tuning.window_bytes.is_none_or(|len| {
                    (64 << 10..=LEN_MAX).contains(&(len as u64)) && len.is_multiple_of(BLOCK)
                }),
                "window_bytes must lie between 64 KiB and 64 GiB and be a multiple of 4096",
            ),
            (
                (32 << 10..=LEN_MAX).contains(&self.tuning.log_file_bytes)
                    && (32 << 10..=LEN_MAX).contains(&self.tuning.segment_bytes),
                "log_file_bytes and segment_bytes must lie between 32 KiB and 64 GiB",
            ),
            (
                self.cache() as u64 <= CACHE_MAX && self.tuning.read_ahead_bytes <= 1 << 30,
                "cache_bytes must be at most 1 TiB, and read_ahead_bytes 1 GiB",
            ),
            (
                self.tuning.memtable_log_bytes >= 32 << 10,
                "memtable_log_bytes must be at least 32 KiB",
            ),
            (
                (256..=1 << 20).contains(&self.tuning.block_bytes),
                "block_bytes must lie between 256 bytes and 1 MiB",
            ),
            (self.tuning.filter_bits <= 64, "filter_bits must be at most 64"),
            (
                (4 << 10..=LEN_MAX).contains(&self.tuning.table_bytes),
                "table_bytes must lie between 4 KiB and 64 GiB",
            ),
            (
                [self.tuning.level0_bytes, self.tuning.level1_bytes]
                    .into_iter()
                    .flatten()
                    .all(|bytes| bytes >= 4 << 10),
                "level0_bytes and level1_bytes must be at least 4 KiB",
            ),
        ]
    }

    /// How much memory there must be to divide.
    fn least_memory(&self) -> [(bool, &'static str); 2] {
        [
            (self.memory_bytes >= MEMORY_MIN, "memory_bytes must be at least 48 MiB"),
            (
                self.divided_memory() >= MEMORY_MIN,
                "record_cache_bytes must leave at least 48 MiB of memory_bytes to everything else; \
                 raise memory_bytes, or cache less",
            ),
        ]
    }

    /// How it may be divided.
    fn memory_rules(&self) -> [(bool, &'static str); 4] {
        [
            (self.tuning.blob_bytes <= VALUE_LEN_MAX as u64, "blob_bytes must be at most 1 GiB"),
            (
                self.hot_store_fits(),
                "hot_bytes is more than seven times memory_bytes; its index would take too much",
            ),
            (
                (1 << 10..=self.divided_memory() / PIECE).contains(&self.long_value()),
                "long_value_bytes must lie between 1 KiB and a 48th of what record_cache_bytes \
                 leaves of memory_bytes",
            ),
            (
                self.taken() <= self.divided_memory() / 4 * 3,
                "MemTables (memtables_max and one), cache_bytes and window_bytes take more than \
                 three quarters of what record_cache_bytes leaves of memory_bytes; raise it, or \
                 leave them to it",
            ),
        ]
    }
}

/// Each rule that must hold in a database that keeps values as `layout` says, and what to say
/// if it does not.
fn rules_of_groups(
    groups: &GroupOptions,
    layout: Option<&GroupLayout>,
) -> [(bool, &'static str); 9] {
    let default = GroupOptions::default();
    let is = |what: fn(&GroupLayout) -> bool| layout.is_none_or(what);
    [
        (
            layout.is_some() || *groups == default,
            "options of groups have no meaning in a layout without groups; leave them out",
        ),
        (
            is(GroupLayout::shares_segments)
                || (groups.log_segment_bytes, groups.reserved_space)
                    == (default.log_segment_bytes, default.reserved_space),
            "log_segment_bytes and reserved_space are for groups by hash, which share log \
             segments; leave them out",
        ),
        (
            is(|layout| layout.survivors == SurvivorRoute::Tagged)
                || groups.experiments().cold_log_counts,
            "cold_log_counts is for layouts with tagging, which have a log of cold values; \
             leave it out",
        ),
        (
            is(|layout| layout.hot)
                || (groups.hot_segment_bytes, groups.heat_limit)
                    == (default.hot_segment_bytes, default.heat_limit),
            "hot_segment_bytes and heat_limit are for layouts with a hot store; leave them out",
        ),
        (
            is(|layout| layout.partition == Partition::Range) || !groups.experiments().one_at_first,
            "one_at_first is for groups by ranges of keys, which split; leave it out",
        ),
        (
            (16 << 10..=2 << 20).contains(&groups.hot_segment_bytes)
                && groups.heat_limit.is_none_or(|limit| (1..=15).contains(&limit)),
            "hot_segment_bytes must lie between 16 KiB and 2 MiB, and heat_limit between 1 and 15",
        ),
        (
            (4 << 10..=LEN_MAX).contains(&groups.main_segment_bytes)
                && (4 << 10..=LEN_MAX).contains(&groups.log_segment_bytes),
            "main_segment_bytes and log_segment_bytes must lie between 4 KiB and 64 GiB",
        ),
        (
            groups.reserved_space >= 0.05 && groups.reserved_space.is_finite(),
            "reserved_space must be at least 0.05: below, collection copies without end",
        ),
        (
            groups.capacity_bytes / groups.main_segment_bytes.max(1) <= 1 << 16,
            "capacity_bytes must be at most 65536 main segments; more data makes more groups",
        ),
    ]
}
