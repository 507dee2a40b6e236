//! `repair`: saves the readable part of a damaged database into a new one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::fs::{File, TryLockError};
use std::path::Path;

use cleavedb::reports::SalvageReport;
use cleavedb::{Db, Durability, ErrorKind, Options, Salvage, Saved};
use cleavedb_units::{self as units, counted};
use serde::Serialize;

use crate::console::Console;
use crate::encoding::JsonBytes;
use crate::failure::{Exit, Failure, Result};
use crate::global::Global;
use crate::interrupt;
use crate::keyspaces::{differs, make};
use crate::loader::Loader;
use crate::progress::Progress;
use crate::store;

/// Most keys and damages that are listed as text.
const SHOWN_MAX: usize = 20;

#[derive(Serialize)]
struct Repaired<'a> {
    keys: u64,
    value_bytes: u64,
    damages: u64,
    damage: Vec<String>,
    /// Whether any key may have an older value than its last one, or have been deleted.
    stale: bool,
    lost_keys: u64,
    lost: Vec<JsonBytes<'a>>,
    uncertain_keys: u64,
    uncertain: Vec<JsonBytes<'a>>,
    unmerged_keys: u64,
    unmerged: Vec<JsonBytes<'a>>,
    /// What was stored beside keys and is not in the new database, in words.
    left_out: Vec<String>,
    #[serde(skip)]
    console: &'a Console,
}

impl fmt::Display for Repaired<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for damage in self.damage.iter().take(SHOWN_MAX) {
            writeln!(f, "DAMAGE: {damage}")?;
        }
        more(f, self.damage.len(), self.damages)?;
        for key in self.lost.iter().take(SHOWN_MAX) {
            writeln!(f, "LOST: the value of {}", self.console.shown(key.bytes))?;
        }
        more(f, self.lost.len(), self.lost_keys)?;
        for key in self.uncertain.iter().take(SHOWN_MAX) {
            let key = self.console.shown(key.bytes);
            writeln!(f, "UNCERTAIN: {key} may have been deleted, or overwritten")?;
        }
        more(f, self.uncertain.len(), self.uncertain_keys)?;
        for key in self.unmerged.iter().take(SHOWN_MAX) {
            let key = self.console.shown(key.bytes);
            writeln!(
                f,
                "UNMERGED: {key} has the value below a merge that cannot be applied to it"
            )?;
        }
        more(f, self.unmerged.len(), self.unmerged_keys)?;
        for what in &self.left_out {
            writeln!(f, "LEFT OUT: {what}")?;
        }
        if self.stale {
            writeln!(
                f,
                "STALE: a part of the index or of the newest log is lost: any key may have an \
                 older value, or have been deleted"
            )?;
        }
        write!(
            f,
            "saved {} with {} of values; {}, {}, {}",
            counted(self.keys, "key"),
            units::bytes(self.value_bytes),
            counted(self.damages, "damaged place"),
            counted(self.lost_keys, "lost key"),
            counted(self.uncertain_keys, "uncertain key"),
        )
    }
}

/// Prints how many were not listed.
fn more(f: &mut fmt::Formatter<'_>, listed: usize, all: u64) -> fmt::Result {
    let left = all - listed.min(SHOWN_MAX) as u64;
    if left > 0 { writeln!(f, "  and {left} more; --json lists the first 1000") } else { Ok(()) }
}

pub(super) fn run(damaged: &Path, new: &Path, global: &Global, console: &Console) -> Result<Exit> {
    interrupt::watch(console)?;
    check_unlocked(damaged)?;
    if !store::is_empty(new)? {
        let message = "there are files in it; repair into a new or empty directory".to_owned();
        return Err(Failure::Input { path: new.to_owned(), message });
    }
    let progress = Progress::new(console, "repair", None);
    progress.say("searching all files".to_owned());
    let salvage = Salvage::search(damaged)?;
    interrupt::check()?;
    let usual = store::usual(global, Some(salvage.options()));
    let options = Options { durability: Durability::Os, ..store::options(global, usual)? };
    let db = store::open(new, options)?;
    let saved = settle(&salvage, &db).and_then(|left_out| {
        let report = save(salvage, &db, &progress)?;
        Ok((report, left_out))
    });
    drop(progress);
    let (report, left_out) = store::closed(db, saved)?;
    let bytes = |keys| -> Vec<JsonBytes<'_>> { Vec::from_iter(shown(keys, console)) };
    let repaired = Repaired {
        keys: report.keys,
        value_bytes: report.value_bytes,
        damages: report.damages,
        stale: report.stale,
        damage: report.damage.iter().map(ToString::to_string).collect(),
        lost_keys: report.lost_keys,
        lost: bytes(&report.lost),
        uncertain_keys: report.uncertain_keys,
        uncertain: bytes(&report.uncertain),
        unmerged_keys: report.unmerged_keys,
        unmerged: bytes(&report.unmerged),
        left_out,
        console,
    };
    console.outcome(&repaired)?;
    let keys = report.lost_keys + report.uncertain_keys + report.unmerged_keys;
    let whole = report.damages + keys == 0 && repaired.left_out.is_empty();
    Ok(if whole { Exit::Done } else { Exit::Damaged })
}

fn shown<'a>(keys: &'a [Vec<u8>], console: &'a Console) -> impl Iterator<Item = JsonBytes<'a>> {
    keys.iter().map(|key| console.json_bytes(key))
}

/// Stores what a database has beside keys: keyspaces, empty ones, too, with their options, and the
/// threshold; others are options of the open. Returns what cannot come back, in words.
fn settle(salvage: &Salvage, db: &Db) -> Result<Vec<String>> {
    let mut left_out = Vec::new();
    for (name, options) in salvage.keyspaces() {
        left_out.extend(differs(db, name, options)?);
        make(db, name, options)?;
    }
    if let Some(least) = salvage.min_separated() {
        match db.default_keyspace().store_min_separated(Some(least)) {
            Err(e) if e.kind() == ErrorKind::InvalidOptions => {
                left_out.push(format!(
                    "the threshold of {}: {}",
                    units::bytes(least as u64),
                    e.message()
                ));
            }
            stored => stored?,
        }
    }
    if salvage.options().change_retention_bytes.is_some() {
        left_out.push("the changes that were kept: the new database begins to keep its own".into());
    }
    for volume in salvage.volumes() {
        let is_placed = |class| db.options().volumes.iter().any(|it| it.classes.contains(class));
        if !volume.classes.iter().all(is_placed) {
            let classes: Vec<_> = volume.classes.iter().map(|class| class.name()).collect();
            let (classes, directory) = (classes.join(","), volume.directory.display());
            left_out.push(format!("the placement {classes}={directory}; --place gives another"));
        }
    }
    Ok(left_out)
}

/// Stores everything that the salvage returns.
fn save(salvage: Salvage, db: &Db, progress: &Progress) -> Result<SalvageReport> {
    let mut loaders: BTreeMap<String, Loader> = BTreeMap::new();
    let is_blob = |value: &[u8]| value.len() as u64 >= db.options().tuning.blob_bytes;
    let report = salvage.hand_out(&mut |Saved { keyspace, key, value, expires }| {
        if interrupt::interrupted() {
            return Err(cleavedb::Error::new(cleavedb::ErrorKind::Closed, "interrupted"));
        }
        let loader = match loaders.entry(keyspace.to_owned()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Loader::new(&db.keyspace(keyspace)?)),
        };
        match is_blob(value) {
            true => loader.put_blob(key, value, expires)?,
            false => loader.put_until(key, value, expires)?,
        }
        let all = || loaders.values();
        progress.moved(all().map(|it| it.items).sum(), all().map(|it| it.bytes).sum());
        Ok(())
    });
    let report = report.map_err(|error| interrupt::explain(error.into()));
    let finished = loaders.values_mut().try_for_each(Loader::finish);
    let report = report?;
    finished?;
    Ok(report)
}

/// Fails if the database is open. The lock is tried through a file that is open for reading, and
/// only if it exists: nothing is created in the damaged directory.
fn check_unlocked(damaged: &Path) -> Result<()> {
    let Ok(lock) = File::open(damaged.join("lock")) else { return Ok(()) };
    match lock.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {
            let message = "it is open in a process; close it before the repair".to_owned();
            Err(Failure::Input { path: damaged.to_owned(), message })
        }
        _ => Ok(()),
    }
}
