//! How long a task will take, as far as can be told before it was measured.
//!
//! Only for people who wait: rates are those that engines reached on two processors with data twice
//! the memory, and nothing that is measured depends on them.

use std::time::Duration;

use clap::Parser;

use crate::cli::BenchArgs;
use crate::config::Config;
use crate::error::Result;
use crate::suite::List;
use crate::workload::{Action, Workload, select};

/// Engines that insert much more slowly than the others in random order, and how many a second.
const SLOW: &[(&str, f64)] =
    &[("lmdb", 15e3), ("redb", 8e3), ("badger", 12e3), ("badger-separated", 12e3)];
/// Inserts or updates a second of the others, settled.
const WRITES: f64 = 150e3;
/// Bytes of them a second.
const WRITTEN: f64 = 100e6;
/// Reads, and records of scans, a second.
const READS: f64 = 10e3;
const SCANNED: f64 = 80e3;
/// Bytes of the check at the end, a second.
const CHECKED: f64 = 250e6;
/// Seconds of a feature.
const FEATURE: f64 = 6.0;
/// Seconds to start, and for background work after writes that end by time.
const START: f64 = 2.0;
const SETTLING: f64 = 4.0;

/// The arguments of a list.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    bench: BenchArgs,
}

/// What `list` will take on `engine` with workloads of `duration`, if they end by time. Arguments
/// that cannot be understood take no time.
pub fn expected(list: &List, duration: Option<Duration>, engine: &str) -> Duration {
    seconds(list, duration, engine).map_or(Duration::ZERO, Duration::from_secs_f64)
}

fn seconds(list: &List, duration: Option<Duration>, engine: &str) -> Result<f64> {
    let words = ["bench".to_owned()].into_iter().chain(list.arguments.iter().cloned());
    let Ok(Line { bench }) = Line::try_parse_from(words) else { return Ok(0.0) };
    if bench.feature.is_some() {
        return Ok(FEATURE);
    }
    let config = Config { duration, ..bench.config()? };
    let workloads = select(&bench.workload)?;
    let phases: f64 = workloads.iter().map(|workload| phase(workload, &config, engine)).sum();
    Ok(START + phases + (config.records * config.record_bytes()) as f64 / CHECKED)
}

fn phase(workload: &Workload, config: &Config, engine: &str) -> f64 {
    let workload = &config.adjusted(workload);
    let slow = SLOW.iter().find(|(name, _)| *name == engine);
    let writes = slow.map_or(WRITES, |(_, rate)| *rate).min(WRITTEN / config.record_bytes() as f64);
    let seconds = |action: Action| match action {
        Action::Read => 1.0 / READS,
        Action::Scan => workload.scan.typical() / SCANNED,
        Action::ReadModifyWrite => 1.0 / READS + 1.0 / writes,
        _ => 1.0 / writes,
    };
    let shares = workload.mix.iter().map(|(action, share)| f64::from(*share) * seconds(*action));
    let one: f64 = shares.sum::<f64>() / 100.0;
    let warm_up = config.warm_up_of(workload) as f64 * one;
    let longest = config.warm_up_time().map_or(f64::MAX, |limit| limit.as_secs_f64());
    let warm_up = warm_up.min(longest);
    match config.duration_of(workload) {
        Some(duration) if workload.writes() => warm_up + duration.as_secs_f64() + SETTLING,
        Some(duration) => warm_up + duration.as_secs_f64(),
        None => warm_up + config.operations_of(workload) as f64 * one,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::expected;
    use crate::suite::Suite;

    #[test]
    fn the_slowest_engine_has_the_time_for_whole_phases_of_hashkv() {
        let updates = Suite::named("updates").unwrap();
        let slowest = expected(updates.list("hashkv").unwrap(), updates.each, "lmdb");
        assert!(slowest > Duration::from_secs(240), "four passes: {slowest:?}");
        assert!(slowest * 3 / 2 < updates.timeout, "{slowest:?}");
    }

    #[test]
    fn slow_engines_and_more_data_take_longer() {
        let full = Suite::named("full").unwrap();
        let basic = full.list("basic-1KiB").unwrap();
        let of = |engine| expected(basic, full.each, engine);
        assert!(of("redb") > of("lmdb") && of("lmdb") > of("rocksdb"));
        assert!(of("rocksdb") > Duration::from_secs(40), "four workloads by time, and a load");
        let counted = expected(basic, None, "rocksdb");
        assert!(counted > of("rocksdb"), "{counted:?}");
    }
}
