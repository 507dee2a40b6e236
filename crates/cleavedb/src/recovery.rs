//! Opening: lock, manifest, replay, and a fresh start.
//!
//! Recovery reads everything before it writes anything, then writes new files only, and takes
//! effect by one step: the new `current` names a manifest that holds the valid length of every log
//! file (invariant 8). A crash before that step leaves what was; the same recovery runs again. The
//! one exception appends, never overwrites: what only the window held of the last log file is
//! written behind that file's end, where the drain would have put it.

use std::sync::Arc;

use cleavedb_base::record::FileIdentity;
use cleavedb_base::{Error, ErrorKind, FileNumber, Result, SeqNo};
use cleavedb_index::{BlockCache, TableStore};
use cleavedb_storage::log::LogReader;
use cleavedb_storage::{Access, FileKind, Mode, Name, Pace, Reaper, Storage, Window};
use cleavedb_values::groups::Relocation;

use crate::directories::Directories;
use crate::groups::initial;
use crate::manifest::{Current, LiveFiles, Manifest};
use crate::options::{Options, Preset};
use crate::replay::{RecoveryReport, Replay, Replayed};
use crate::rooms::SEQS_RESERVED;
use crate::state::MemSlot;

/// What recovery hands to the engine.
pub(crate) struct Recovered {
    pub(crate) manifest: Manifest,
    pub(crate) database_id: u64,
    pub(crate) tables: Arc<TableStore>,
    pub(crate) reaper: Arc<Reaper>,
    /// What was replayed, sealed.
    pub(crate) memtable: Option<Arc<MemSlot>>,
    /// Log position at which the new log begins.
    pub(crate) position: u64,
    pub(crate) next_seq: SeqNo,
    pub(crate) window: Window,
    pub(crate) report: RecoveryReport,
}

/// Recovers, or creates, the database in `directories`, whose locks the caller holds.
pub(crate) fn recover(
    directories: &Directories,
    options: &Options,
    new_id: u64,
) -> Result<Recovered> {
    let storage = &directories.placed;
    let current = Current::read(&**storage)?;
    if current.is_none() {
        check_empty(&**storage, options)?;
    }
    let database_id = current.as_ref().map_or(new_id, |current| current.database_id);
    let cache = BlockCache::new(options.cache() as u64);
    let cache = Arc::new(cache.reading_ahead(options.read_ahead_bytes));
    let reaper = Arc::new(Reaper::default());
    let tables = Arc::new(TableStore::new(storage.clone(), database_id, cache, reaper.clone()));
    let live = match &current {
        Some(current) => Manifest::load(&**storage, current, &tables)?,
        None => LiveFiles::empty(&tables),
    };
    let window = open_window(&**storage, options)?;
    let mut replay = Replay::new(&**storage, options, database_id, &live, &window);
    replay.run()?;
    let Replayed { memtable, edits, position, next_seq, mut report } = replay.finish();
    if let Some(current) = &current {
        check_whole(&**storage, current, &live, position)?;
    }
    let next_file = highest_number(&**storage)?.max(live.next_file);
    let mut live = live;
    if current.is_none() {
        live.groups = Arc::new(initial(options)?);
    } else if options.groups.tagging && live.groups.relocation() == Relocation::Soft {
        let what = "this database was created with soft pointers, without which there are no tags; \
                    open it without tagging";
        return Err(Error::new(ErrorKind::InvalidOptions, what));
    }
    live.seq_limit = next_seq + SEQS_RESERVED;
    edits.iter().try_for_each(|edit| live.ledger.apply(edit))?;
    let volumes = directories.volumes.clone();
    let manifest = FileNumber(next_file);
    let next = Current { manifest, database_id, preset: options.preset, volumes };
    let manifest = Manifest::begin(storage.clone(), next, live)?;
    report.orphans_removed = remove_orphans(&**storage, &manifest)?;
    let window = of_wanted_length(&**storage, options, window)?;
    Ok(Recovered {
        manifest,
        database_id,
        tables,
        reaper,
        memtable,
        position,
        next_seq,
        window,
        report,
    })
}

fn open_window(storage: &dyn Storage, options: &Options) -> Result<Window> {
    let opened = storage.open_window(&Name::fixed(FileKind::Window), options.window());
    opened.map_err(|e| Error::io("open the log window", e))
}

/// The window, or another in its place if the options ask for another length: all that it held is
/// in files that the new manifest vouches for.
fn of_wanted_length(storage: &dyn Storage, options: &Options, window: Window) -> Result<Window> {
    let wanted = options.window();
    if window.len() == wanted {
        return Ok(window);
    }
    let free = storage.free_space().map_err(|e| Error::io("ask for the free space", e))?;
    // A disk that is full must not keep anybody from an open.
    if window.len() < wanted && free <= wanted as u64 {
        return Ok(window);
    }
    drop(window);
    let removed = storage.remove(&Name::fixed(FileKind::Window), Pace::Swift);
    removed.map_err(|e| Error::io("remove the log window", e))?;
    open_window(storage, options)
}

/// Fails if the database in `storage` has another preset than `options`, or if there is none and
/// none may be created there.
pub(crate) fn check_openable(storage: &dyn Storage, options: &Options) -> Result<()> {
    match Current::read(storage)? {
        Some(current) if current.preset != options.preset => {
            let message = format!(
                "the database was created with preset {}, it cannot be opened with {}",
                current.preset, options.preset
            );
            Err(Error::new(ErrorKind::PresetMismatch, message))
        }
        Some(_) => Ok(()),
        None => check_empty(storage, options),
    }
}

/// A new database is created in an empty directory only. What a creation that did not finish leaves
/// (never a table, a segment or a log) counts as empty.
fn check_empty(storage: &dyn Storage, options: &Options) -> Result<()> {
    let failed = |e| Error::io("list the directory", e);
    let data = |kind| {
        matches!(kind, FileKind::Table | FileKind::Segment | FileKind::Group | FileKind::Log)
    };
    let files = storage.list().map_err(failed)?;
    if files.iter().any(|(name, _)| name.kind() == FileKind::Volume) {
        let message = "the directory is a volume of a database, not its own; open that one";
        return Err(Error::new(ErrorKind::NotADatabase, message));
    }
    if let Some((name, _)) = files.iter().find(|(name, _)| data(name.kind())) {
        let message = "the directory holds data but no file `current`; restore it from a backup";
        return Err(Error::new(ErrorKind::NotADatabase, message).with("found", name));
    }
    if let Some(name) = storage.foreign().map_err(failed)?.first() {
        let message = "the directory holds files that are not CleaveDB's; choose an empty one";
        return Err(Error::new(ErrorKind::NotADatabase, message).with("found", name));
    }
    if !options.create_if_missing {
        let message = "there is no database in the directory, and none may be created";
        return Err(Error::new(ErrorKind::NotADatabase, message));
    }
    Ok(())
}

/// Fails if the manifest lost its last edits: a log file is named by an edit before it is written,
/// so one that was begun since the manifest was, lies behind the end of the log, and has no name
/// there, proves that edits are gone. What they name must not be removed as orphans.
fn check_whole(
    storage: &dyn Storage,
    current: &Current,
    live: &LiveFiles,
    position: u64,
) -> Result<()> {
    for (name, _) in storage.list().map_err(|e| Error::io("list the directory", e))? {
        let number = name.number();
        let unnamed = name.kind() == FileKind::Log && live.ledger.get(number).is_none();
        if !unnamed || number < current.manifest {
            continue;
        }
        let failed = |e| Error::io("open a log file", e).with("file", name);
        let file = storage.open(&name, Mode::Read, Access::Sequential).map_err(failed)?;
        let identity = FileIdentity::new(current.database_id, number);
        let header = LogReader::new(&*file, None, identity, 0, 0, None)?.header()?;
        if header.is_some_and(|header| header.base >= position) {
            let what = "the manifest lost its last edits; restore the database from a backup";
            return Err(Error::corruption(what).with("unnamed", name));
        }
    }
    Ok(())
}

/// A number above that of every file in the directory, also of those that no manifest names.
fn highest_number(storage: &dyn Storage) -> Result<u64> {
    let files = storage.list().map_err(|e| Error::io("list the directory", e))?;
    Ok(files.iter().map(|(name, _)| name.number().0 + 1).max().unwrap_or(1))
}

/// Removes every file that the manifest does not name.
fn remove_orphans(storage: &dyn Storage, manifest: &Manifest) -> Result<u64> {
    let live = manifest.live();
    let mut removed = 0;
    for (name, _) in storage.list().map_err(|e| Error::io("list the directory", e))? {
        let number = name.number();
        let named = match name.kind() {
            FileKind::Current | FileKind::Window | FileKind::Lock => true,
            // Those of volumes are not listed; here they are left of a mistake.
            FileKind::Volume | FileKind::VolumeNew | FileKind::CurrentNew => false,
            FileKind::Manifest => name == manifest.name(),
            FileKind::Log | FileKind::Segment | FileKind::Group => {
                live.ledger.get(number).is_some_and(|facts| facts.kind == name.kind())
            }
            FileKind::Table => live.version.tables().any(|(_, table)| table.number() == number),
        };
        if !named {
            storage
                .remove(&name, Pace::Swift)
                .map_err(|e| Error::io("remove an orphan", e).with("file", name))?;
            removed += 1;
        }
    }
    if removed > 0 {
        storage.sync_dir().map_err(|e| Error::sync_failed("the directory", e))?;
    }
    Ok(removed)
}

/// The preset of the database in `storage`, if there is one.
pub(crate) fn stored_preset(storage: &dyn Storage) -> Result<Option<Preset>> {
    Ok(Current::read(storage)?.map(|current| current.preset))
}
