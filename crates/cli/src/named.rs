//! Engine options by their names in the library: each can be set from the command line.

use std::str::FromStr;

use cleavedb::{
    Background, Compression, Durability, GroupLayout, LivenessRule, LogRole, MinSeparated, Options,
    Partition, Preset, Relocation, SurvivorRoute, ValueCompression, ValueLayout, VictimPolicy,
};
use cleavedb_units as units;

use crate::{expiry, level0, space_limit};

/// A valid option and its value.
#[derive(Clone, Debug)]
pub struct NamedOption {
    name: &'static str,
    value: String,
}

type Set = fn(&mut Options, &str) -> Result<(), String>;

/// Each option: its name, its values, and how it is set. The layout comes first, since others
/// depend on it.
const OPTIONS: [(&str, &str, Set); 50] = [
    ("layout.log", "write-ahead or value-store", |o, v| {
        o.layout.log = one_of(
            v,
            &[("write-ahead", LogRole::WriteAhead), ("value-store", LogRole::ValueStore)],
        )?;
        Ok(())
    }),
    ("layout.groups", "none, hash, range or prefix:BYTES", |o, v| {
        o.layout.groups = partition(v)?.map(|partition| grouped(&o.layout, partition));
        Ok(())
    }),
    ("layout.liveness", "records or index", |o, v| {
        let rules = [("records", LivenessRule::Records), ("index", LivenessRule::Index)];
        groups(o)?.liveness = one_of(v, &rules)?;
        Ok(())
    }),
    ("layout.relocation", "write-back or soft", |o, v| {
        let ways = [("write-back", Relocation::WriteBack), ("soft", Relocation::Soft)];
        groups(o)?.relocation = one_of(v, &ways)?;
        Ok(())
    }),
    ("layout.survivors", "group or tagged", |o, v| {
        let routes = [("group", SurvivorRoute::Group), ("tagged", SurvivorRoute::Tagged)];
        groups(o)?.survivors = one_of(v, &routes)?;
        Ok(())
    }),
    ("layout.hot", "true or false", |o, v| put(&mut groups(o)?.hot, truth(v))),
    ("min_separated", "a length in bytes, stored or never", |o, v| {
        o.min_separated = match v {
            "never" => MinSeparated::Never,
            "stored" => MinSeparated::Stored(o.min_separated.least().unwrap_or_default()),
            bytes => MinSeparated::AtLeast(size(bytes)?),
        };
        Ok(())
    }),
    ("durability", "buffered, os or sync", |o, v| {
        o.durability = one_of(
            v,
            &[
                ("buffered", Durability::Buffered),
                ("os", Durability::Os),
                ("sync", Durability::Sync),
            ],
        )?;
        Ok(())
    }),
    ("create_if_missing", "true or false", |o, v| put(&mut o.create_if_missing, truth(v))),
    ("error_if_exists", "true or false", |o, v| put(&mut o.error_if_exists, truth(v))),
    ("accept_lost_window", "true or false", |o, v| put(&mut o.accept_lost_window, truth(v))),
    ("memory_bytes", BYTES, |o, v| put(&mut o.memory_bytes, size(v))),
    ("long_value_bytes", BYTES, |o, v| put(&mut o.long_value_bytes, size(v).map(Some))),
    ("blob_bytes", BYTES, |o, v| put(&mut o.blob_bytes, units::parse(v))),
    ("memtable_bytes", BYTES, |o, v| put(&mut o.memtable_bytes, size(v).map(Some))),
    ("memtables_max", "a number", |o, v| put(&mut o.memtables_max, number(v))),
    ("memtable_log_bytes", BYTES, |o, v| put(&mut o.memtable_log_bytes, units::parse(v))),
    ("log_file_bytes", BYTES, |o, v| put(&mut o.log_file_bytes, units::parse(v))),
    ("segment_bytes", BYTES, |o, v| put(&mut o.segment_bytes, units::parse(v))),
    ("window_bytes", BYTES, |o, v| put(&mut o.window_bytes, size(v).map(Some))),
    ("cache_bytes", BYTES, |o, v| put(&mut o.cache_bytes, size(v).map(Some))),
    ("expired_within", "a duration, as 12h", |o, v| put(&mut o.expired_within, expiry::ttl(v))),
    ("record_cache_bytes", BYTES, |o, v| put(&mut o.record_cache_bytes, size(v))),
    ("read_ahead_bytes", BYTES, |o, v| put(&mut o.read_ahead_bytes, size(v))),
    ("block_bytes", BYTES, |o, v| put(&mut o.block_bytes, size(v))),
    ("filter_bits", "bits for each key", |o, v| put(&mut o.filter_bits, number(v))),
    ("compression", "none, lz4 or zstd", |o, v| {
        let kinds =
            [("none", Compression::None), ("lz4", Compression::Lz4), ("zstd", Compression::Zstd)];
        put(&mut o.compression, one_of(v, &kinds))
    }),
    ("value_compression", "none, lz4, zstd or zstd-dictionary", |o, v| {
        put(&mut o.value_compression, value_compression(v))
    }),
    ("table_bytes", BYTES, |o, v| put(&mut o.table_bytes, units::parse(v))),
    ("level0", "whole, partitions:N or hyperleveldb", |o, v| put(&mut o.level0, level0::parse(v))),
    ("level0_bytes", BYTES, |o, v| put(&mut o.level0_bytes, units::parse(v))),
    ("level1_bytes", BYTES, |o, v| put(&mut o.level1_bytes, units::parse(v))),
    ("space_amplification", "a ratio", |o, v| put(&mut o.space_amplification, number(v))),
    ("space_floor", BYTES, |o, v| put(&mut o.space_floor, units::parse(v))),
    ("space_limit", "a size in bytes or none", |o, v| {
        put(&mut o.space_limit, space_limit::parse(v).map(Some))
    }),
    ("change_retention_bytes", BYTES, |o, v| {
        put(&mut o.change_retention_bytes, units::parse(v).map(Some))
    }),
    ("groups.capacity_bytes", BYTES, |o, v| put(&mut o.groups.capacity_bytes, units::parse(v))),
    ("groups.one_at_first", "true or false", |o, v| put(&mut o.groups.one_at_first, truth(v))),
    ("groups.main_segment_bytes", BYTES, |o, v| {
        put(&mut o.groups.main_segment_bytes, units::parse(v))
    }),
    ("groups.log_segment_bytes", BYTES, |o, v| {
        put(&mut o.groups.log_segment_bytes, units::parse(v))
    }),
    ("groups.reserved_space", "a ratio", |o, v| put(&mut o.groups.reserved_space, number(v))),
    ("groups.victim", "greedy, cost-benefit, greedy-random[:D] or random", |o, v| {
        let why = || "there are greedy, cost-benefit, greedy-random[:D] and random".to_owned();
        put(&mut o.groups.victim, victim_policy(v).ok_or_else(why))
    }),
    ("groups.key_block_record_bytes", BYTES, |o, v| {
        put(&mut o.groups.key_block_record_bytes, units::parse(v))
    }),
    ("groups.cold_log_counts", "true or false", |o, v| {
        put(&mut o.groups.cold_log_counts, truth(v))
    }),
    ("groups.hot_bytes", BYTES, |o, v| put(&mut o.groups.hot_bytes, units::parse(v))),
    ("groups.hot_segment_bytes", BYTES, |o, v| {
        put(&mut o.groups.hot_segment_bytes, units::parse(v))
    }),
    ("groups.heat_limit", "1 to 15", |o, v| put(&mut o.groups.heat_limit, number(v).map(Some))),
    ("background_bytes_per_second", BYTES, |o, v| {
        put(&mut o.background_bytes_per_second, units::parse(v).map(Some))
    }),
    ("latency_sampling", "a number of operations", |o, v| put(&mut o.latency_sampling, number(v))),
    ("background", "a number of threads", |o, v| {
        put(&mut o.background, number(v).map(Background::Threads))
    }),
];

/// Number of options of the layout.
const OF_LAYOUT: usize = 5;

const BYTES: &str = "a size in bytes";

/// Reads `NAME=VALUE`; a hyphen in the name stands for an underscore.
pub fn parse(text: &str) -> Result<NamedOption, String> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let spelled = name.replace('-', "_");
    let known = OPTIONS.iter().find(|(known, _, _)| *known == spelled);
    let (name, takes, set) = known.ok_or_else(list)?;
    // On a layout for which all options are valid.
    let tried = set(&mut Options::preset(Preset::HashKv), value);
    tried.map_err(|why| format!("{why}; {name} takes {takes}"))?;
    Ok(NamedOption { name, value: value.to_owned() })
}

/// All options, a line each.
fn list() -> String {
    let lines = OPTIONS.iter().map(|(name, takes, _)| format!("  {name:28} {takes}"));
    format!("the options are\n{}", lines.collect::<Vec<_>>().join("\n"))
}

/// Sets options, those of the layout first; the separation follows from the layout unless it is
/// set.
pub fn set(options: &mut Options, named: &[NamedOption]) -> Result<(), String> {
    for (at, (name, takes, set)) in OPTIONS.iter().enumerate() {
        if at == OF_LAYOUT {
            let layout = options.layout;
            *options = options.clone().with_layout(layout);
        }
        for option in named.iter().filter(|option| option.name == *name) {
            set(options, &option.value).map_err(|why| {
                format!("--with {name}={}: {why}; it takes {takes}", option.value)
            })?;
        }
    }
    Ok(())
}

/// The policy of that name. The paper of HashKV does not say among how many groups its
/// greedy-random draws: `greedy-random:D` sets it, otherwise it is 4.
pub fn victim_policy(name: &str) -> Option<VictimPolicy> {
    Some(match name.split_once(':').unwrap_or((name, "")) {
        ("greedy", "") => VictimPolicy::Greedy,
        ("cost-benefit", "") => VictimPolicy::CostBenefit,
        ("greedy-random", "") => VictimPolicy::GreedyRandom(4),
        ("greedy-random", among) => {
            VictimPolicy::GreedyRandom(among.parse().ok().filter(|among| *among > 0)?)
        }
        ("random", "") => VictimPolicy::Random,
        _ => return None,
    })
}

fn put<T>(field: &mut T, value: Result<T, String>) -> Result<(), String> {
    *field = value?;
    Ok(())
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("\"{text}\" is not a valid number"))
}

fn size(text: &str) -> Result<usize, String> {
    units::parse(text)?.try_into().map_err(|_| format!("\"{text}\" is too large"))
}

fn truth(text: &str) -> Result<bool, String> {
    one_of(text, &[("true", true), ("false", false)])
}

fn one_of<T: Copy>(text: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| format!("there is no \"{text}\""))
}

/// Reads how values outside the index are compressed.
pub fn value_compression(text: &str) -> Result<ValueCompression, String> {
    let why = || "there are none, lz4, zstd and zstd-dictionary".to_owned();
    one_of(text, &ValueCompression::ALL).map_err(|_| why())
}

/// The groups of a layout, which must have some.
fn groups(options: &mut Options) -> Result<&mut GroupLayout, String> {
    let groups = options.layout.groups.as_mut();
    groups.ok_or_else(|| "the layout has no groups; layout.groups makes some".to_owned())
}

fn partition(text: &str) -> Result<Option<Partition>, String> {
    match text.split_once(':') {
        Some(("prefix", bytes)) => Ok(Some(Partition::Prefix(number(bytes)?))),
        _ => one_of(
            text,
            &[("none", None), ("hash", Some(Partition::Hash)), ("range", Some(Partition::Range))],
        ),
    }
}

/// Groups with this partition: other options of existing groups are kept.
fn grouped(layout: &ValueLayout, partition: Partition) -> GroupLayout {
    let before = layout.groups.unwrap_or(GroupLayout {
        partition,
        liveness: LivenessRule::Index,
        relocation: Relocation::WriteBack,
        survivors: SurvivorRoute::Group,
        hot: false,
    });
    GroupLayout { partition, ..before }
}

#[cfg(test)]
mod tests {
    use super::{OPTIONS, list, parse, set};
    use cleavedb::{Options, Preset};

    /// Valid values of each option.
    const VALUES: [&str; 16] = [
        "sync",
        "true",
        "64MiB",
        "2",
        "1.5",
        "lz4",
        "whole",
        "none",
        "greedy",
        "hash",
        "value-store",
        "index",
        "soft",
        "tagged",
        "12h",
        "9",
    ];

    #[test]
    fn every_option_takes_some_value_and_refuses_others() {
        for (name, takes, _) in &OPTIONS {
            let takes_it = |value: &&str| {
                let named = parse(&format!("{name}={value}"));
                named.is_ok_and(|named| {
                    set(&mut Options::preset(Preset::HashKv), &[named]).unwrap();
                    true
                })
            };
            let taken = VALUES.iter().filter(|value| takes_it(value)).count();
            assert!((1..VALUES.len()).contains(&taken), "{name} takes {takes}");
            assert!(list().contains(name) && parse(name).unwrap_err().contains(takes));
        }
        assert!(parse("cache=1").unwrap_err().contains("cache_bytes"));
        let hyphens = parse("record-cache-bytes=1MiB").unwrap();
        let mut options = Options::default();
        set(&mut options, &[hyphens]).unwrap();
        assert_eq!(options.record_cache_bytes, 1 << 20);
    }

    /// Every field of the options has a name, and no other names exist.
    #[test]
    fn every_field_has_a_name() {
        let options = format!("{:#?}", Options::preset(Preset::HashKv));
        let fields = options.lines().filter_map(|line| line.trim().split_once(": "));
        let elsewhere = [
            "preset",
            "layout",
            "groups",
            "partition",
            "volumes",
            "time",
            "filter",
            "merge_operators",
            "listeners",
            "resources",
        ];
        for (field, _) in fields.filter(|(field, _)| !elsewhere.contains(field)) {
            let named = |name: &str| name.rsplit('.').next() == Some(field);
            assert!(OPTIONS.iter().any(|(name, _, _)| named(name)), "{field}");
        }
    }
}
