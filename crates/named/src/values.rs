//! Values of options, as they are written on the command line.

use std::str::FromStr;
use std::time::Duration;

use cleavedb::layout::{GroupLayout, Partition, SurvivorRoute, ValueLayout};
#[cfg(feature = "experiments")]
use cleavedb::tuning::VictimPolicy;
use cleavedb::{Options, ValueCompression};
use cleavedb_units as units;

/// The policy of that name. The paper of HashKV does not say among how many groups its
/// greedy-random draws: `greedy-random:D` sets it, otherwise it is 4.
#[cfg(feature = "experiments")]
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

pub(super) fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("\"{text}\" is not a valid number"))
}

/// A size in bytes.
pub fn size(text: &str) -> Result<usize, String> {
    units::parse(text)?.try_into().map_err(|_| format!("\"{text}\" is too large"))
}

/// A time to live as it is written: `30s`, `12h`, `1day 6h`.
pub fn ttl(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write it as in 90s, 15m, 12h or 7days"))
}

pub(super) fn truth(text: &str) -> Result<bool, String> {
    one_of(text, &[("true", true), ("false", false)])
}

pub(super) fn one_of<T: Copy>(text: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| format!("there is no \"{text}\""))
}

/// Reads how values outside the index are compressed.
pub fn value_compression(text: &str) -> Result<ValueCompression, String> {
    let why = || "there are none, lz4, zstd and zstd-dictionary".to_owned();
    one_of(text, &ValueCompression::ALL).map_err(|_| why())
}

/// The layout of the options, to be changed.
pub(super) fn layout(options: &mut Options) -> &mut ValueLayout {
    let usual = options.layout();
    options.layout.insert(usual)
}

/// The groups of a layout, which must have some.
pub(super) fn groups(options: &mut Options) -> Result<&mut GroupLayout, String> {
    let groups = layout(options).groups.as_mut();
    groups.ok_or_else(|| "the layout has no groups; layout.groups makes some".to_owned())
}

pub(super) fn partition(text: &str) -> Result<Option<Partition>, String> {
    match text.split_once(':') {
        #[cfg(feature = "experiments")]
        Some(("prefix", bytes)) => Ok(Some(Partition::Prefix(number(bytes)?))),
        _ => one_of(
            text,
            &[("none", None), ("hash", Some(Partition::Hash)), ("range", Some(Partition::Range))],
        ),
    }
}

/// Groups with this partition: other options of existing groups are kept.
pub(super) fn grouped(layout: &ValueLayout, partition: Partition) -> GroupLayout {
    let before = layout.groups.unwrap_or(GroupLayout {
        partition,
        survivors: SurvivorRoute::Group,
        hot: false,
    });
    GroupLayout { partition, ..before }
}
