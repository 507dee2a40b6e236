//! The copy that is to take the place of a database: which one may go on, and how it begins.
//!
//! The copy is a database in a subdirectory, whose id is made of the state that it is a copy of and
//! of what it is to become. So `current` in it tells whether a copy that was left can go on. The
//! database leaves a range of file numbers to it, durably: until the exchange the files of the copy
//! are orphans in the directory of the database, and behind that the other way round.

use std::io;
use std::path::Path;
use std::sync::Arc;

use cleavedb_base::checksum::hash64;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{FileNumber, Result};
use cleavedb_index::{BlockCache, TableStore};
use cleavedb_storage::{Disk, MultiDirStorage, Storage, copy};

use crate::copies::destroy::{self, COPY};
use crate::engine::Engine;
use crate::open::directories;
use crate::open::recovery::set_up_new;
use crate::settings::options::Options;
use crate::store::manifest::{Current, Edit, LiveFiles, Manifest};

/// File numbers that a database leaves to its copy.
const NUMBERS: u64 = 1 << 32;

/// Whether `storage` holds a copy of the database as it is now, for these options, that can go on.
pub(crate) fn can_go_on(source: &Engine, storage: &dyn Storage, options: &Options) -> bool {
    let found = Current::read(storage).ok().flatten();
    let next = source.manifest.lock().live().next_file;
    let id = next.checked_sub(NUMBERS).map(|first| id_of(source, first, options));
    found
        .is_some_and(|found| Some(found.database_id) == id || planted(Bug::MigrationOfAnotherState))
}

/// Begins a copy of the database in `storage`, in place of what is there: a database with these
/// options and without a key. Sequence numbers go on in it, so that none is given out twice.
pub(crate) fn begin(source: &Engine, storage: &Arc<dyn Storage>, options: &Options) -> Result<()> {
    let mut manifest = source.manifest.lock();
    // The edit itself may take a number, for a manifest that it begins.
    let first = manifest.live().next_file.max(manifest.next_number()) + 1;
    if !planted(Bug::MigrationNumbersUnreserved) {
        let next_file = Some(first + NUMBERS);
        source.commit_edit(&mut manifest, &Edit { next_file, ..Edit::default() })?;
    }
    let seq_limit = manifest.live().seq_limit;
    drop(manifest);
    destroy::clear(&**storage)?;
    let database_id = id_of(source, first, options);
    let cache = Arc::new(BlockCache::new(0));
    let tables = TableStore::new(storage.clone(), database_id, cache, Arc::default());
    let mut live = LiveFiles::empty(&Arc::new(tables));
    set_up_new(&mut live, options)?;
    live.seq_limit = seq_limit;
    let (manifest, preset) = (FileNumber(first), options.chosen_preset());
    let current = Current { manifest, database_id, preset, volumes: Vec::new() };
    Manifest::begin(Arc::new(MultiDirStorage::whole(storage.clone())), current, live).map(drop)
}

/// The id of a copy whose file numbers begin at `first`. A database of which anything was written
/// since has other numbers, and one that was copied has another directory.
fn id_of(source: &Engine, first: u64, options: &Options) -> u64 {
    let seq_limit = source.manifest.lock().live().seq_limit;
    let (directory, layout) = (source.storage.directory_id(), options.layout());
    let preset = options.chosen_preset();
    let origin = format!("{seq_limit} {first} {directory} {preset} {layout:?}");
    hash64(origin.as_bytes(), source.database_id)
}

/// Removes the copy in the directory `path` of a database that has its id: one that has taken its
/// place, in a process that died before it could remove it. What is left otherwise takes space
/// until the next call, and nothing more.
pub(crate) fn remove_installed(database: &Engine, path: &Path) {
    let Ok(disk) = Disk::open(path.join(COPY), false) else { return };
    let found = Current::read(&disk).ok().flatten();
    if found.is_some_and(|found| found.database_id == database.database_id) {
        let _ = remove(&*database.storage, &disk);
    }
}

/// Removes the copy in `storage`, and the subdirectory of `own` that it lies in.
pub(crate) fn remove(own: &dyn Storage, storage: &dyn Storage) -> Result<()> {
    let _lock = directories::lock(storage)?;
    destroy::clear(storage)?;
    // With a file of someone else it stays.
    let _: io::Result<()> = copy::remove_dir(own, COPY);
    Ok(())
}
