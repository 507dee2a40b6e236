//! What a database says about itself.

use std::fmt::Write;

use cleavedb::{Metrics, Result};

use super::db::with;
use crate::border::needed;
use crate::databases::HeldDb;
use crate::handles::{Handle, export};
use crate::slices::{Chars, Malloced};

/// Levels that LevelDB has, and a name may have.
const LEVELS: usize = 7;

/// The property of this name; `None` if it is unknown.
fn property(name: &str, metrics: &Metrics) -> Option<String> {
    let name = name.strip_prefix("leveldb.")?;
    if let Some(level) = name.strip_prefix("num-files-at-level") {
        let level = level.parse().ok().filter(|level: &usize| *level < LEVELS)?;
        let found = metrics.levels.iter().find(|it| it.level == level);
        return Some(found.map_or(0, |it| it.tables).to_string());
    }
    match name {
        "stats" => Some(stats(metrics)),
        "sstables" => Some(tables(metrics)),
        "approximate-memory-usage" => Some(memory(metrics).to_string()),
        _ => None,
    }
}

fn memory(metrics: &Metrics) -> u64 {
    metrics.memtable_memory
        + metrics.window_memory
        + metrics.table_memory
        + metrics.cache_memory
        + metrics.record_cache_memory
        + metrics.group_filter_memory
}

fn stats(metrics: &Metrics) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let mut text = "Level  Files Size(MB)    Entries\n".to_owned();
    text += "--------------------------------\n";
    for it in &metrics.levels {
        let (level, tables, size) = (it.level, it.tables, mib(it.bytes));
        let _ = writeln!(text, "{level:>5} {tables:>6} {size:>8.0} {:>10}", it.entries);
    }
    let (read, written) = (metrics.compaction_read, metrics.compaction_written);
    let _ = writeln!(text, "Compactions: {} MB read, {} MB written", mib(read), mib(written));
    let (values, live) = (mib(metrics.value_bytes), mib(metrics.live_bytes));
    let _ = writeln!(text, "Values outside the levels: {values:.0} MB, {live:.0} MB of them live");
    text
}

fn tables(metrics: &Metrics) -> String {
    let level = |level| {
        let found = metrics.levels.iter().find(|it| it.level == level);
        let (tables, bytes) = found.map_or((0, 0), |it| (it.tables, it.bytes));
        format!("--- level {level} ---\n {tables} tables: {bytes} bytes\n")
    };
    (0..LEVELS).map(level).collect()
}

export! {
    fn leveldb_property_value(db: Handle<HeldDb>, name: Chars) -> Malloced {
        let found = || -> Result<_> {
            let name = needed(name.utf8()?, "name of the property")?;
            with(&db, |db| Ok(property(name, &db.metrics())))
        };
        found().ok().flatten().map_or_else(Malloced::null, |text| Malloced::text(&text))
    }
}
