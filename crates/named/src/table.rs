//! The options of the engine, a row each.

use cleavedb::layout::{LogRole, SurvivorRoute};
use cleavedb::{Background, Compression, Durability, Options};
use cleavedb_units as units;

#[cfg(feature = "experiments")]
use super::values::victim_policy;
use super::values::{
    grouped, groups, layout, number, one_of, partition, size, truth, ttl, value_compression,
};
use crate::{level0, space_limit};

pub(super) type Set = fn(&mut Options, &str) -> Result<(), String>;

/// Each option: its name, its values, its default, what it is, and how it is set. The layout comes
/// first, since others depend on it.
pub(super) const OPTIONS: &[(&str, &str, &str, &str, Set)] = &[
    (
        "layout.log",
        "write-ahead or value-store",
        "of the preset",
        "Where the log keeps values: until a flush moves them, or for good",
        |o, v| {
            layout(o).log = one_of(
                v,
                &[("write-ahead", LogRole::WriteAhead), ("value-store", LogRole::ValueStore)],
            )?;
            Ok(())
        },
    ),
    (
        "layout.groups",
        "none, hash or range",
        "of the preset",
        "By what values that leave the log are grouped",
        |o, v| {
            let usual = o.layout();
            layout(o).groups = partition(v)?.map(|partition| grouped(&usual, partition));
            Ok(())
        },
    ),
    (
        "layout.survivors",
        "group or tagged",
        "of the preset",
        "Where a collection puts values that are not updated",
        |o, v| {
            let routes = [("group", SurvivorRoute::Group), ("tagged", SurvivorRoute::Tagged)];
            groups(o)?.survivors = one_of(v, &routes)?;
            Ok(())
        },
    ),
    (
        "layout.hot",
        "true or false",
        "of the preset",
        "Whether values of hot keys lie in hot segments",
        |o, v| put(&mut groups(o)?.hot, truth(v)),
    ),
    (
        "min_separated",
        "a length in bytes or stored",
        "as stored",
        "Length from which on a value leaves the index",
        |o, v| {
            o.min_separated = match v {
                "stored" => None,
                bytes => Some(size(bytes)?),
            };
            Ok(())
        },
    ),
    (
        "durability",
        "buffered, os or sync",
        "sync",
        "What a write survives if it does not say so itself",
        |o, v| {
            o.durability = one_of(
                v,
                &[
                    ("buffered", Durability::Buffered),
                    ("os", Durability::Os),
                    ("sync", Durability::Sync),
                ],
            )?;
            Ok(())
        },
    ),
    (
        "create_if_missing",
        "true or false",
        "true",
        "Whether an open makes a database where none is",
        |o, v| put(&mut o.create_if_missing, truth(v)),
    ),
    (
        "error_if_exists",
        "true or false",
        "false",
        "Whether an open fails where a database is",
        |o, v| put(&mut o.error_if_exists, truth(v)),
    ),
    (
        "accept_lost_window",
        "true or false",
        "false",
        "Open although the file `window` is lost, and give up its writes",
        |o, v| put(&mut o.accept_lost_window, truth(v)),
    ),
    (
        "memory_bytes",
        BYTES,
        "at most 768MiB",
        "Most memory of the database; sizes that are not set follow from it",
        |o, v| put(&mut o.memory_bytes, size(v)),
    ),
    (
        "long_value_bytes",
        BYTES,
        "from memory_bytes",
        "Length from which on no preset keeps a value in the index",
        |o, v| put(&mut o.tuning.long_value_bytes, size(v).map(Some)),
    ),
    (
        "blob_bytes",
        BYTES,
        "4MiB",
        "Length from which on a value from a file or a pipe has its own file",
        |o, v| put(&mut o.tuning.blob_bytes, units::parse(v)),
    ),
    ("memtable_bytes", BYTES, "from memory_bytes", "Memory of one MemTable", |o, v| {
        put(&mut o.tuning.memtable_bytes, size(v).map(Some))
    }),
    (
        "memtables_max",
        "a number",
        "of the preset",
        "Full MemTables that may wait for their flush",
        |o, v| put(&mut o.tuning.memtables_max, number(v).map(Some)),
    ),
    ("memtable_log_bytes", BYTES, "256MiB", "Most log that one MemTable may cover", |o, v| {
        put(&mut o.tuning.memtable_log_bytes, units::parse(v))
    }),
    ("log_file_bytes", BYTES, "64MiB", "Length at which a log file ends", |o, v| {
        put(&mut o.tuning.log_file_bytes, units::parse(v))
    }),
    (
        "segment_bytes",
        BYTES,
        "64MiB",
        "Length at which a segment of collected values ends",
        |o, v| put(&mut o.tuning.segment_bytes, units::parse(v)),
    ),
    (
        "window_bytes",
        BYTES,
        "from memory_bytes",
        "Length to which the window of the log may grow",
        |o, v| put(&mut o.tuning.window_bytes, size(v).map(Some)),
    ),
    ("cache_bytes", BYTES, "from memory_bytes", "Memory for blocks of tables", |o, v| {
        put(&mut o.tuning.cache_bytes, size(v).map(Some))
    }),
    (
        "expired_within",
        "a duration, as 12h",
        "24h",
        "How long values that have expired may take space",
        |o, v| put(&mut o.expired_within, ttl(v)),
    ),
    ("record_cache_bytes", BYTES, "0", "Memory for values that were read lately", |o, v| {
        put(&mut o.record_cache_bytes, size(v))
    }),
    (
        "read_ahead_bytes",
        BYTES,
        "512KiB",
        "Most bytes of a table that are read ahead of a scan",
        |o, v| put(&mut o.tuning.read_ahead_bytes, size(v)),
    ),
    ("block_bytes", BYTES, "4096", "Length of a block of a table before compression", |o, v| {
        put(&mut o.tuning.block_bytes, size(v))
    }),
    ("filter_bits", "bits for each key", "10", "Bits of a filter for each key", |o, v| {
        put(&mut o.tuning.filter_bits, number(v))
    }),
    (
        "compression",
        "none, lz4 or zstd",
        "none",
        "Compression of blocks of tables, with the values in them",
        |o, v| {
            let kinds = [
                ("none", Compression::None),
                ("lz4", Compression::Lz4),
                ("zstd", Compression::Zstd),
            ];
            put(&mut o.compression, one_of(v, &kinds))
        },
    ),
    (
        "value_compression",
        "none, lz4, zstd or zstd-dictionary",
        "none",
        "Compression of values outside the index, of min_separated bytes and more",
        |o, v| put(&mut o.value_compression, value_compression(v)),
    ),
    ("table_bytes", BYTES, "32MiB", "Length at which a table ends", |o, v| {
        put(&mut o.tuning.table_bytes, units::parse(v))
    }),
    (
        "level0",
        "whole, partitions or partitions:N",
        "of the preset",
        "How level 0 of the index is kept",
        |o, v| put(&mut o.tuning.level0, level0::parse(v).map(Some)),
    ),
    (
        "level0_bytes",
        BYTES,
        "of the preset",
        "Bytes of level 0 above which it is compacted",
        |o, v| put(&mut o.tuning.level0_bytes, units::parse(v).map(Some)),
    ),
    (
        "level1_bytes",
        BYTES,
        "of the preset",
        "Bytes of level 1; each deeper level holds ten times more",
        |o, v| put(&mut o.tuning.level1_bytes, units::parse(v).map(Some)),
    ),
    (
        "space_amplification",
        "a ratio",
        "1.3",
        "Bytes of value files for a live byte, above which they are collected",
        |o, v| put(&mut o.space_amplification, number(v)),
    ),
    ("space_floor", BYTES, "64MiB", "Bytes of dead values that are always tolerated", |o, v| {
        put(&mut o.tuning.space_floor, units::parse(v))
    }),
    (
        "space_limit",
        "a size in bytes or none",
        "as stored",
        "Most bytes of all files together",
        |o, v| put(&mut o.space_limit, space_limit::parse(v).map(Some)),
    ),
    (
        "change_retention_bytes",
        BYTES,
        "as stored",
        "Bytes of the log that are kept for `changes`",
        |o, v| put(&mut o.change_retention_bytes, units::parse(v).map(Some)),
    ),
    (
        "groups.capacity_bytes",
        BYTES,
        "8GiB",
        "Bytes of values that the groups are made for",
        |o, v| put(&mut o.tuning.groups.capacity_bytes, units::parse(v)),
    ),
    #[cfg(feature = "experiments")]
    (
        "groups.experiments.one_at_first",
        "true or false",
        "false",
        "Whether groups by ranges begin as one, as in HoaKV",
        |o, v| put(&mut o.tuning.groups.experiments.one_at_first, truth(v)),
    ),
    ("groups.main_segment_bytes", BYTES, "64MiB", "Length of a main segment of a group", |o, v| {
        put(&mut o.tuning.groups.main_segment_bytes, units::parse(v))
    }),
    (
        "groups.log_segment_bytes",
        BYTES,
        "1MiB",
        "Length of a log segment, where groups share some",
        |o, v| put(&mut o.tuning.groups.log_segment_bytes, units::parse(v)),
    ),
    (
        "groups.reserved_space",
        "a ratio",
        "0.3",
        "Space for log segments, as a part of all main segments",
        |o, v| put(&mut o.tuning.groups.reserved_space, number(v)),
    ),
    #[cfg(feature = "experiments")]
    (
        "groups.experiments.victim",
        "greedy, cost-benefit, greedy-random[:D], random",
        "greedy",
        "Which group is collected first",
        |o, v| {
            let why = || "there are greedy, cost-benefit, greedy-random[:D] and random".to_owned();
            put(&mut o.tuning.groups.experiments.victim, victim_policy(v).ok_or_else(why))
        },
    ),
    (
        "groups.key_block_record_bytes",
        BYTES,
        "12KiB",
        "Mean length of records from which on their keys are listed",
        |o, v| put(&mut o.tuning.groups.key_block_record_bytes, units::parse(v)),
    ),
    #[cfg(feature = "experiments")]
    (
        "groups.experiments.cold_log_counts",
        "true or false",
        "true",
        "Whether the cold log counts in the space goal",
        |o, v| put(&mut o.tuning.groups.experiments.cold_log_counts, truth(v)),
    ),
    ("hot_bytes", BYTES, "256MiB", "Most bytes of hot segments", |o, v| {
        put(&mut o.hot_bytes, units::parse(v))
    }),
    (
        "groups.hot_segment_bytes",
        BYTES,
        "2MiB",
        "Most bytes of the records of a hot segment",
        |o, v| put(&mut o.tuning.groups.hot_segment_bytes, units::parse(v)),
    ),
    (
        "groups.heat_limit",
        "1 to 15",
        "by room",
        "Accesses from which on a key becomes hot",
        |o, v| put(&mut o.tuning.groups.heat_limit, number(v).map(Some)),
    ),
    (
        "background_bytes_per_second",
        BYTES,
        "no limit",
        "Most bytes that compactions and collections write in a second",
        |o, v| put(&mut o.background_bytes_per_second, units::parse(v).map(Some)),
    ),
    (
        "latency_sampling",
        "a number of operations",
        "0",
        "Of how many operations one is timed; 0 for none",
        |o, v| put(&mut o.latency_sampling, number(v)),
    ),
    (
        "background",
        "a number of threads",
        "2",
        "Threads for compactions and collections",
        |o, v| put(&mut o.background, number(v).map(Background::Threads)),
    ),
];

const BYTES: &str = "a size in bytes";

fn put<T>(field: &mut T, value: Result<T, String>) -> Result<(), String> {
    *field = value?;
    Ok(())
}
