//! The little that the harness needs of a key-value engine.
//!
//! Values are handed to closures, so that an engine that can lend its buffer need not copy.

use std::path::{Path, PathBuf};

use crate::capabilities::{Capabilities, Codec, Needs};
use crate::error::{BenchError, Result};

/// Sees one key and its value.
pub type VisitPair<'a> = &'a mut dyn FnMut(&[u8], &[u8]);

/// An open store; all methods may be called from several threads at once.
pub trait Engine: Send + Sync {
    /// Name in results, settings that matter included: "rocksdb", "cleave", "cleave-wisckey".
    fn name(&self) -> &str;

    /// Stores `value` under `key`, replacing what was there.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Shows the value of `key` to `visit`; returns whether there was one.
    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Shows the values of `keys` to `visit`, each with the place of its key; those that are not
    /// there are left out. By default one after another.
    fn multi_get(&self, keys: &[&[u8]], visit: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for (at, key) in keys.iter().enumerate() {
            self.get(key, &mut |value| visit(at, value))?;
        }
        Ok(())
    }

    /// Removes `key`, if it exists.
    fn delete(&self, key: &[u8]) -> Result<()>;

    /// Shows up to `limit` pairs from `from` on, in key order; returns how many.
    fn scan(&self, from: &[u8], limit: usize, visit: VisitPair<'_>) -> Result<usize>;

    /// Shows the first pair to `visit` and removes it; returns whether there was one. Callers take
    /// turns: by default it is a search and a delete.
    fn pop_first(&self, visit: VisitPair<'_>) -> Result<bool> {
        let mut first = Vec::new();
        let found = self.scan(b"", 1, &mut |key, value| {
            first.extend_from_slice(key);
            visit(key, value);
        })?;
        if found > 0 {
            self.delete(&first)?;
        }
        Ok(found > 0)
    }

    /// Reads `key`, then writes `value` under it, as YCSB's workload F does; returns whether there
    /// was a value to read.
    fn read_modify_write(
        &self,
        key: &[u8],
        value: &[u8],
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        let found = self.get(key, visit)?;
        self.put(key, value)?;
        Ok(found)
    }

    /// Returns when no background work is left: memory flushed, compaction and collection idle.
    fn wait_idle(&self) -> Result<()>;

    /// The settings in force, as (option, value with unit).
    fn describe(&self) -> Vec<(String, String)>;

    /// The engine's own numbers (stalls, bytes by class, cache hits), cumulative since it opened;
    /// [`crate::counters`] has the names that are understood.
    fn counters(&self) -> Vec<(String, f64)> {
        Vec::new()
    }

    /// What it can do beyond these calls, for the benchmarks of features. By default nothing.
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::default()
    }

    /// Directories outside of the store's own in which it has files, on other disks perhaps.
    fn outside(&self) -> &[PathBuf] {
        &[]
    }

    /// The id of the process in which the store lives, if it is not this one: what it costs is
    /// added to the cost of this one.
    fn other_process(&self) -> Option<u32> {
        None
    }

    /// Closes the store in good order; what was written before is there at the next open.
    /// By default its drop does.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Opens stores of one engine with one set of options.
pub trait Opener {
    /// Name in results and of the engine's directory.
    fn name(&self) -> &str;

    /// Opens the store in `directory`, creating it if nothing is there.
    fn open(&self, directory: &Path) -> Result<Box<dyn Engine>>;

    /// Opens the store with what a benchmark of a feature needs; `None` if the engine does not have
    /// it. By default it does not compress, and has no settings for the rest.
    fn open_for(&self, directory: &Path, needs: &Needs) -> Result<Option<Box<dyn Engine>>> {
        (needs.codec == Codec::Plain).then(|| self.open(directory)).transpose()
    }

    /// An opener like this one with options set, as (name, value). The names are those of
    /// [`crate::experiments`] and the engine's own; refuses those that the engine does not have.
    fn configured(&self, options: &[(String, String)]) -> Result<Box<dyn Opener>> {
        let names: Vec<_> = options.iter().map(|(name, _)| name.as_str()).collect();
        Err(no_option(self.name(), &names.join(", ")))
    }
}

/// The option that divides all that an engine sizes by its data, as set by the options before it.
pub const MINIATURE: &str = "miniature";

/// The designs of `cleave`.
const PRESETS: [&str; 7] = ["lsm", "wisckey", "hashkv", "ktstore", "hoakv", "ohdb", "cleave"];

/// The preset and the option of `PRESET.OPTION`, which asks nothing of any other engine.
pub fn of_preset(option: &str) -> Option<(&str, &str)> {
    option.split_once('.').filter(|(preset, _)| PRESETS.contains(preset))
}

/// The last words of an engine that is asked for what it does not have.
pub const NOT_THERE: &str = "not there yet";

/// The refusal of an option that an engine does not have.
pub fn no_option(engine: &str, option: &str) -> BenchError {
    BenchError::Usage(format!("{engine} has no option {option}: {NOT_THERE}"))
}
