//! The space of a database, in the terms of its design, and its change by a command.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cleavedb::Db;
use cleavedb_units as units;
use serde::Serialize;

use crate::failure::Result;

/// Unit of the system's block counts.
const SECTOR: u64 = 512;

/// The space of a database at one moment; sizes in bytes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Space {
    /// Keys and values: an estimate, see [`cleavedb::Metrics::data_bytes`].
    pub data_bytes: u64,
    /// Log files and segments.
    pub value_files: usize,
    /// Bytes in them.
    pub value_bytes: u64,
    /// Bytes of live records in them: an estimate while there are hidden dead ones.
    pub live_bytes: u64,
    /// Estimated bytes of dead records whose entries are not compacted yet.
    pub hidden_bytes: u64,
    /// Tables of the index.
    pub tables: usize,
    /// Bytes in them.
    pub index_bytes: u64,
    /// Bytes of value files and tables per live byte of both.
    pub space_amplification: f64,
    /// Bytes of the log whose operations are in memory only.
    pub unflushed_bytes: u64,
    /// Disk blocks of the files, including space reserved for the log.
    pub disk_bytes: u64,
}

impl Space {
    /// The space of `db`, whose directory is `path`, now.
    pub fn of(db: &Db, path: &Path) -> Self {
        let metrics = db.metrics();
        Self {
            data_bytes: metrics.data_bytes(),
            value_files: metrics.value_files.len(),
            value_bytes: metrics.value_bytes,
            live_bytes: metrics.live_bytes.saturating_sub(metrics.hidden_bytes),
            hidden_bytes: metrics.hidden_bytes,
            tables: metrics.levels.iter().map(|level| level.tables).sum(),
            index_bytes: metrics.index_bytes,
            space_amplification: metrics.space_amplification(),
            unflushed_bytes: metrics.unflushed_bytes,
            disk_bytes: on_disk(&directories(db, path)),
        }
    }
}

impl Space {
    /// The space of `db` now, and its disk blocks after the close: until then space is reserved for
    /// further writes.
    pub fn at_close(db: Db, path: &Path) -> Result<Self> {
        let (space, directories) = (Self::of(&db, path), directories(&db, path));
        db.close()?;
        Ok(Self { disk_bytes: on_disk(&directories), ..space })
    }

    /// Bytes of value files that are not needed; log that is not flushed is needed.
    pub fn dead_bytes(&self) -> u64 {
        self.value_bytes.saturating_sub(self.live_bytes + self.unflushed_bytes)
    }
}

/// The directory `path`, and those of the volumes.
fn directories(db: &Db, path: &Path) -> Vec<PathBuf> {
    let volumes = db.directories().unwrap_or_default().into_iter().skip(1);
    std::iter::once(path.to_owned()).chain(volumes.map(|v| v.path.into())).collect()
}

/// Bytes of disk blocks of the files in the directory `path`.
pub fn of_directory(path: &Path) -> u64 {
    on_disk(&[path.to_owned()])
}

/// Bytes of disk blocks of the files in `directories`; files removed meanwhile do not count.
fn on_disk(directories: &[PathBuf]) -> u64 {
    let entries = directories.iter().filter_map(|directory| fs::read_dir(directory).ok()).flatten();
    let sizes = entries.flatten().filter_map(|entry| entry.metadata().ok());
    sizes.map(|metadata| metadata.blocks() * SECTOR).sum()
}

/// A comparison of two moments, as lines of text.
pub fn compare(before: &Space, after: &Space) -> String {
    let rows = [
        ("", "before".to_owned(), "after".to_owned()),
        ("value files", files(before.value_files), files(after.value_files)),
        ("  bytes", units::bytes(before.value_bytes), units::bytes(after.value_bytes)),
        ("  live", units::bytes(before.live_bytes), units::bytes(after.live_bytes)),
        ("tables", files(before.tables), files(after.tables)),
        ("  bytes", units::bytes(before.index_bytes), units::bytes(after.index_bytes)),
        ("space amplification", ratio(before), ratio(after)),
        ("on disk", units::bytes(before.disk_bytes), units::bytes(after.disk_bytes)),
    ];
    let told = rows.into_iter().filter(|(_, then, now)| [then, now] != [UNTOLD; 2]);
    let lines = told.map(|(name, then, now)| format!("  {name:20} {then:>12} {now:>12}"));
    lines.collect::<Vec<_>>().join("\n")
}

fn files(number: usize) -> String {
    units::thousands(number as f64)
}

fn ratio(space: &Space) -> String {
    cost(space.space_amplification, space.data_bytes)
}

/// The head of costs; below a MiB of data they would only tell what any store takes.
pub const COSTS: &str = "amplification: cost per byte of keys and values (-: too little data)";

/// A cost that would not tell anything.
pub const UNTOLD: &str = "-";

/// A cost for each byte of `data`, in words.
pub fn cost(ratio: f64, data: u64) -> String {
    if data < 1 << 20 { UNTOLD.to_owned() } else { format!("{ratio:.2}") }
}
