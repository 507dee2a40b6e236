//! Work, resources and problems of a database, in words.

use std::fmt::{self, Formatter};
use std::time::Duration;

use cleavedb::metrics::JobFailure;
use cleavedb::{Metrics, open_files};
use cleavedb_units::{self as units, bytes, counted};

use crate::space::cost;

/// Use of the machine now.
pub fn machine(metrics: &Metrics, f: &mut Formatter<'_>) -> fmt::Result {
    writeln!(
        f,
        "memory {} of at most {}: new entries {}, cache {}, records {}, window {}, filters of \
         groups {}, spare {}",
        bytes(used_memory(metrics)),
        bytes(metrics.memory_limit),
        bytes(metrics.memtable_memory),
        bytes(metrics.cache_memory),
        bytes(metrics.record_cache_memory),
        bytes(metrics.window_memory),
        bytes(metrics.group_filter_memory),
        bytes(metrics.spare_memory),
    )?;
    let (hits, misses) = (metrics.record_cache_hits, metrics.record_cache_misses);
    if hits + misses > 0 {
        writeln!(
            f,
            "record cache of {}, {}: {}, missed {}",
            counted(metrics.record_cache_entries, "record"),
            bytes(metrics.record_cache_memory),
            counted(hits, "hit"),
            units::thousands(misses as f64),
        )?;
    }
    let mapped = if metrics.window_is_mapped { "mapped" } else { "in memory" };
    let window = match metrics.window_memory {
        0 => "no log window before the first write".to_owned(),
        window => format!("log window {}, {mapped}, not locked", bytes(window)),
    };
    writeln!(
        f,
        "{window}; {} open for reading, of at most {}",
        counted(metrics.open_files as u64, "file"),
        units::thousands(open_files::max() as f64),
    )?;
    if metrics.dead_read > 0 {
        writeln!(f, "ranges skipped {}", counted(metrics.dead_read, "dead entry"))?;
    }
    Ok(())
}

fn used_memory(metrics: &Metrics) -> u64 {
    let kept = metrics.cache_memory + metrics.record_cache_memory + metrics.group_filter_memory;
    metrics.memtable_memory + kept + metrics.window_memory + metrics.spare_memory
}

/// What was done since this open, if anything was written.
pub fn session(metrics: &Metrics, f: &mut Formatter<'_>) -> fmt::Result {
    if metrics.writes == 0 {
        return Ok(());
    }
    writeln!(
        f,
        "  since this open: {} in {}, {} written; writers waited {}",
        counted(metrics.operations, "operation"),
        counted(metrics.writes, "write"),
        bytes(metrics.written()),
        counted(metrics.stalls.iter().map(|stall| stall.count).sum(), "time")
    )
}

/// How long its operations took, if that was measured.
pub fn latencies(metrics: &Metrics, f: &mut Formatter<'_>) -> fmt::Result {
    if metrics.latencies.is_empty() {
        return Ok(());
    }
    writeln!(f, "\nlatencies: microseconds that a part of the operations took at most")?;
    let titles = ["operation", "number", "half", "90%", "99%", "99.9%", "all"];
    let line = |f: &mut Formatter<'_>, cells: [&str; 7]| {
        let [name, number, times @ ..] = cells;
        write!(f, "  {name:<12} {number:>12}")?;
        times.into_iter().try_for_each(|time| write!(f, " {time:>10}"))?;
        writeln!(f)
    };
    line(f, titles)?;
    for of in &metrics.latencies {
        let count = units::thousands(of.count() as f64);
        let us = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e6);
        let [p50, p90, p99, p999] = [0.5, 0.9, 0.99, 0.999].map(|part| us(of.quantile(part)));
        line(f, [of.operation.name(), &count, &p50, &p90, &p99, &p999, &us(of.max())])?;
    }
    Ok(())
}

/// The problems of the database.
pub fn problems(metrics: &Metrics, f: &mut Formatter<'_>) -> fmt::Result {
    if let Some(cause) = &metrics.poisoned {
        writeln!(f, "\nPROBLEM: writes are refused: {cause}")?;
    }
    for JobFailure { job, error, tries, since } in &metrics.failures {
        let seconds = since.as_secs_f64();
        writeln!(f, "\nPROBLEM: {job} fails for {seconds:.0} s, {tries} times: {error}")?;
    }
    if let (Some(error), []) = (&metrics.background_error, &metrics.failures[..]) {
        writeln!(f, "\nPROBLEM in the background: {error}")?;
    }
    for name in &metrics.damaged {
        writeln!(f, "PROBLEM: damage in {name}; it can be read, but jobs skip it")?;
    }
    Ok(())
}

/// What was written for what was put, since the database was created.
pub fn ratio(metrics: &Metrics, f: &mut Formatter<'_>) -> fmt::Result {
    let totals = &metrics.totals;
    if totals.user_bytes == 0 {
        return writeln!(f, "  write      -  nothing was written yet");
    }
    writeln!(
        f,
        "  write {:>6}  bytes written for each of {} of keys and values that were put",
        cost(totals.write_amplification(), totals.user_bytes),
        bytes(totals.user_bytes)
    )
}

/// What was done since the database was created, if anything was written.
pub fn history(metrics: &Metrics, f: &mut Formatter<'_>) -> fmt::Result {
    let totals = &metrics.totals;
    if totals.user_bytes == 0 {
        return Ok(());
    }
    writeln!(
        f,
        "                log {}, flushes {}, compaction {}, collection {}",
        bytes(totals.log_written),
        bytes(totals.flush_written),
        bytes(totals.compaction_written),
        bytes(totals.collection_written)
    )?;
    let since = "since it was created; of a session that a crash ended, up to its last flush";
    writeln!(f, "                {since}")?;
    let count = |n: u64| units::thousands(n as f64);
    writeln!(f, "\nhistory: what was done since then")?;
    writeln!(
        f,
        "  {} with writes; {} in {}",
        counted(totals.sessions, "session"),
        counted(totals.operations, "operation"),
        counted(totals.writes, "write")
    )?;
    writeln!(
        f,
        "  flushes {}, compactions {}, collections {}, files removed {}",
        count(totals.flushes),
        count(totals.compactions),
        count(totals.collections),
        count(totals.files_removed)
    )?;
    writeln!(
        f,
        "  block look-ups: {} in the cache, {} in files",
        count(totals.cache_hits),
        count(totals.cache_misses)
    )?;
    if totals.stalls > 0 {
        let (times, seconds) = (counted(totals.stalls, "time"), totals.stall_nanos as f64 / 1e9);
        writeln!(f, "  writers waited {times} for background work, {seconds:.3} s")?;
    }
    Ok(())
}
