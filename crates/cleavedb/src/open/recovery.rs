//! Opening a database: reads the manifest, replays the log, and recovers after a crash.
//!
//! A closed database is opened without a write: the manifest has the end of the log, operations
//! since the last flush are replayed into a MemTable, and the first write continues from there
//! ([`crate::open::session`]). After a crash recovery reads everything before it writes anything,
//! then writes new files only, and takes effect by one step: the new `current` names a manifest
//! with the valid length of every log file (invariant 8). It leaves a closed database. A crash
//! before that step changes nothing; the same recovery runs again. The one exception appends, never
//! overwrites: the part of the last log file that only the window held is written behind that
//! file's end, where the drain would have written it.

use std::sync::Arc;
use std::time::Duration;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::FileIdentity;
use cleavedb_base::sync::thread;
use cleavedb_base::{Error, ErrorKind, FileNumber, Result, SeqNo};
use cleavedb_index::{BlockCache, TableStore};
use cleavedb_storage::log::LogReader;
use cleavedb_storage::{
    Access, FileKind, FoundWindow, LeftWindow, Mode, MultiDirStorage, Name, ObsoleteFiles,
    RemoveMode, Storage, WindowIdentity,
};
use cleavedb_values::ValueFileMeta;

use crate::engine::value_files::initial;
use crate::open::directories::Directories;
use crate::open::replay::{RecoveryReport, Replay, Replayed};
use crate::settings::options::Options;
use crate::settings::resources::Resources;
use crate::settings::volume::Volume;
use crate::store::manifest::{
    Current, KeptChanges, LiveFiles, Manifest, Session, StoredManifest, VolumeIdentity,
};
use crate::store::state::MemSlot;

/// The result of recovery for the engine.
pub(crate) struct Recovered {
    pub(crate) manifest: Manifest,
    pub(crate) database_id: u64,
    pub(crate) tables: Arc<TableStore>,
    pub(crate) obsolete_files: Arc<ObsoleteFiles>,
    /// The replayed operations.
    pub(crate) memtable: Option<Arc<MemSlot>>,
    /// Log position at which the log ends.
    pub(crate) position: u64,
    /// Greatest sequence number of an operation that was found.
    pub(crate) last_seq: SeqNo,
    pub(crate) next_seq: SeqNo,
    /// A random number that differs at each open.
    pub(crate) salt: u64,
    pub(crate) report: RecoveryReport,
}

/// An existing database: its `current` and its manifest.
pub(crate) struct StoredDatabase {
    current: Current,
    stored: StoredManifest,
}

impl StoredDatabase {
    /// Reads the database in `storage`, if there is one.
    pub(crate) fn read(storage: &dyn Storage) -> Result<Option<Self>> {
        let Some(current) = Current::read(storage)? else { return Ok(None) };
        let stored = StoredManifest::read(storage, &current)?;
        Ok(Some(Self { current, stored }))
    }

    /// `options` for this database: what they leave out is as it was stored. Fails if they ask for
    /// another layout than its own.
    pub(crate) fn resolve(&self, options: Options) -> Result<Options> {
        let (preset, stored) = (self.current.preset, self.stored.value_layout()?);
        let options = options.resolved(Some((preset, stored)));
        let asked = options.layout();
        if asked != stored {
            let message = format!(
                "the database was created with preset {preset} and keeps {stored}; it cannot be \
                 opened as one that keeps {asked}: leave the preset out, or `Db::migrate` changes \
                 it"
            );
            return Err(Error::new(ErrorKind::LayoutMismatch, message));
        }
        Ok(options.within_stored(self.stored.space_limit(), self.stored.log_kept()))
    }

    /// The volumes of the database, in the order of their numbers.
    pub(crate) fn volumes(&self) -> &[Volume] {
        &self.current.volumes
    }

    /// What its `current` says.
    pub(crate) fn into_current(self) -> Current {
        self.current
    }
}

/// Recovers, or creates, the database in `directories`, whose locks the caller holds.
pub(crate) fn recover(
    directories: &Directories,
    options: &Options,
    found: Option<StoredDatabase>,
    new_id: u64,
) -> Result<Recovered> {
    let storage = &directories.placed;
    if found.is_none() {
        check_empty(&**storage, options)?;
    }
    let (current, stored) = found.map(|found| (found.current, found.stored)).unzip();
    let database_id = current.as_ref().map_or(new_id, |current| current.database_id);
    let cache = block_cache(options);
    let obsolete_files = Arc::new(ObsoleteFiles::default());
    let tables = TableStore::new(storage.clone(), database_id, cache, obsolete_files.clone());
    let tables = Arc::new(tables);
    let loaded = stored.map(|stored| stored.load(&tables)).transpose()?;
    let empty = LiveFiles::empty(&tables);
    let live = loaded.as_ref().map_or(&empty, |loaded| &loaded.live);
    let replayed = replay_log(&**storage, options, database_id, live)?;
    let Replayed { memtable, edits, position, last_seq, next_seq, mut report } = replayed;
    let manifest = match (current, loaded) {
        (Some(current), Some(loaded))
            if loaded.live.session.is_none()
                && directories.volumes == current.volumes
                && are_stamped(storage, &current)? =>
        {
            check_nothing_follows(&**storage, current.database_id, &loaded.live, position)?;
            report.copies_healed = loaded.healed;
            Manifest::resume(storage.clone(), current, loaded)
        }
        (current, loaded) => {
            report.copies_healed = loaded.as_ref().map_or(0, |loaded| loaded.healed);
            let mut live = loaded.map_or(empty, |loaded| loaded.live);
            match &current {
                Some(current) => check_whole(&**storage, current, &live, position)?,
                None => set_up_new(&mut live, options)?,
            }
            edits.iter().try_for_each(|edit| live.value_files.apply(edit))?;
            let mut next_file = highest_number(&**storage)?.max(live.next_file);
            // The first session of a copy stores its directory, and begins a log file of its own.
            match is_copy(&**storage, &live) {
                true => next_file = number_of_copy(next_file, new_id),
                false => live.directory_id = storage.directory_id(),
            }
            (live.session, live.closed) = (None, false);
            (live.seq_limit, live.next_file) = (next_seq, next_file + 1);
            let (manifest, volumes) = (FileNumber(next_file), directories.volumes.clone());
            let preset = current.map_or_else(|| options.chosen_preset(), |current| current.preset);
            let next = Current { manifest, database_id, preset, volumes };
            Manifest::begin(storage.clone(), next, live)?
        }
    };
    report.orphans_removed = remove_orphans(storage, &manifest)?;
    Ok(Recovered {
        manifest,
        database_id,
        tables,
        obsolete_files,
        memtable: memtable.map(Arc::new),
        position,
        last_seq,
        next_seq,
        salt: new_id,
        report,
    })
}

/// Replays the log of the last session, and completes its files.
fn replay_log(
    storage: &dyn Storage,
    options: &Options,
    database_id: u64,
    live: &LiveFiles,
) -> Result<Replayed> {
    let Left { window, is_lost } = match live.session {
        Some(session) => left_by(storage, options, database_id, session)?,
        None => Left::default(),
    };
    let ending_files = window.as_ref().and_then(LeftWindow::ending_files);
    let replay = |window| {
        let mut replay = Replay::new(storage, options, database_id, live, window);
        replay.run(is_lost).map(|()| replay)
    };
    let other = || Some(replay(Some(ending_files.as_ref()?)));
    let replayed = the_longer(replay(window.as_ref()), other)?.finish()?;
    let RecoveryReport { operations_lost, bytes_cut, window_lost, .. } = replayed.report;
    if operations_lost > 0 || window_lost {
        tracing::warn!(operations_lost, bytes_cut, window_lost, "writes not synced are lost");
    }
    Ok(replayed)
}

/// Of two replays the one that counts. For the first one log files end where their lengths say:
/// what was synced is there, whether or not the disk lost the rest, with the machine or without it.
/// If it does not come to what was visible, bytes behind the end of a file may hide what the window
/// has: the `other` one, for which files end where the window was drained to, may reach further.
fn the_longer<'a>(
    replay: Result<Replay<'a>>,
    other: impl FnOnce() -> Option<Result<Replay<'a>>>,
) -> Result<Replay<'a>> {
    let is_short = match &replay {
        Ok(replay) => replay.report.operations_lost > 0,
        Err(e) => e.kind() == ErrorKind::Corruption,
    };
    let Some(Ok(other)) = is_short.then(other).flatten() else { return replay };
    match replay {
        Ok(replay) if replay.position >= other.position => Ok(replay),
        _ => Ok(other),
    }
}

/// What a new database keeps of its options.
pub(crate) fn set_up_new(live: &mut LiveFiles, options: &Options) -> Result<()> {
    live.space_limit = options.space_limit.unwrap_or_default();
    live.changes = KeptChanges::none_yet(options.log_kept());
    live.layout = options.layout;
    live.groups = Arc::new(initial(&options.layout())?);
    Ok(())
}

pub(crate) fn block_cache(options: &Options) -> Arc<BlockCache> {
    let own = || BlockCache::new(options.cache() as u64).pinning(options.open_tables() as u64);
    let cache = options.resources.as_ref().map_or_else(own, Resources::block_cache);
    let cache = cache.opening(options.open_tables_max());
    Arc::new(cache.reading_ahead(options.tuning.read_ahead_bytes))
}

/// Whether the last manifest that all volumes have seen is the one that `current` names, and not a
/// later one whose beginning was interrupted.
fn are_stamped(storage: &MultiDirStorage, current: &Current) -> Result<bool> {
    for volume in storage.volumes() {
        let stamp =
            VolumeIdentity::read(&*volume.storage).map_err(|e| e.with("volume", &volume.path))?;
        if stamp.is_none_or(|stamp| stamp.manifest != current.manifest) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The window that a dead process left.
#[derive(Default)]
struct Left {
    window: Option<LeftWindow>,
    /// Whether it cannot be found, and the options accept that.
    is_lost: bool,
}

/// The window that the process of `session` left.
fn left_by(
    storage: &dyn Storage,
    options: &Options,
    database_id: u64,
    session: Session,
) -> Result<Left> {
    let boot_id = storage.boot_id();
    let same_boot = boot_id != 0 && boot_id == session.boot_id;
    let Some(number) = session.window else { return Ok(Left::default()) };
    let identity = WindowIdentity { database_id, number };
    let found = LeftWindow::find(storage, identity, same_boot)
        .map_err(|e| Error::io("read the log window", e).with("file", "window"))?;
    let what = match found {
        FoundWindow::Ours(window) => return Ok(Left { window: Some(window), is_lost: false }),
        // The first page of the window did not reach the disk before the machine stopped.
        FoundWindow::Unwritten | FoundWindow::Blank if !same_boot => return Ok(Left::default()),
        // Nor before the disk went away from a machine that runs on. What was synced is in the log.
        FoundWindow::Unwritten => return Ok(Left { window: None, is_lost: true }),
        _ if options.accept_lost_window => return Ok(Left { window: None, is_lost: true }),
        FoundWindow::Missing => "the file `window`, which holds the end of the log, is missing",
        FoundWindow::Blank => "the file `window`, which holds the end of the log, is damaged",
        FoundWindow::Foreign(_) => {
            "the file `window` belongs to another database or to another time"
        }
    };
    let message = format!(
        "{what}; put it back from where the directory was copied. If the disk was detached, its \
         file system shut down, or this is a snapshot of it, the file never reached it: then open \
         the database once with accept_lost_window (--accept-lost-window), which gives up the last \
         writes that were not synced"
    );
    Err(Error::corruption(message).with("file", "window").with("window", number))
}

/// Fails if the manifest of a closed database lost its last edits: files get numbers that an edit
/// has reserved, so a file with a later number proves that edits are lost. The files of lost edits
/// must not be removed as orphans. An empty log file is created before its edit, and proves
/// nothing.
///
/// A record behind the end of a closed log, at `position`, is proof as well if its sequence number
/// is above those that the close knew, since an edit precedes it. A record with a smaller number is
/// the rest of a batch that an earlier crash has torn.
fn check_nothing_follows(
    storage: &dyn Storage,
    database_id: u64,
    live: &LiveFiles,
    position: u64,
) -> Result<()> {
    if planted(Bug::FollowersIgnored) {
        return Ok(());
    }
    let last = last_log(live, position).filter(|_| live.closed);
    if let Some((number, facts)) = last {
        let (name, end) = (Name::numbered(FileKind::Log, number), position - facts.base);
        let failed = |e| Error::io("open a log file", e).with("file", name);
        let file = storage.open(&name, Mode::Read, Access::Sequential).map_err(failed)?;
        let identity = FileIdentity::new(database_id, number);
        let mut reader = LogReader::new(&*file, None, identity, facts.base, end, None)?;
        if file.len().map_err(failed)? > end {
            while let Some((_, record)) = reader.next_record()? {
                if record.header.seq >= live.seq_limit || planted(Bug::TornTakenForLost) {
                    return Err(lost_edits(name));
                }
            }
        }
    }
    for (name, len) in storage.list().map_err(|e| Error::io("list the directory", e))? {
        let proves = match name.kind() {
            kind if kind.is_data() => true,
            FileKind::Log => len > 0,
            _ => false,
        };
        if proves && name.number().0 >= live.next_file {
            let what = "the manifest has not given out the number of a file in the directory: if \
                        the file was put there by mistake, move it away and open the database \
                        again; otherwise the manifest lost its last edits, and the database must \
                        be restored from a backup";
            return Err(Error::corruption(what).with("unnamed", name));
        }
    }
    Ok(())
}

/// File numbers that a copy of a database leaves to its original: half of this number, and a random
/// part of the other half.
const NUMBERS_OF_ORIGINAL: u64 = 1 << 40;

/// Whether the directory of the database differs from that of its last session.
pub(crate) fn is_copy(storage: &dyn Storage, live: &LiveFiles) -> bool {
    let (here, there) = (storage.directory_id(), live.directory_id);
    here != 0 && there != 0 && here != there && !planted(Bug::CopyUnnoticed)
}

/// The first file number of a copy whose next one would be `next`; `salt` is random.
pub(crate) fn number_of_copy(next: u64, salt: u64) -> u64 {
    let half = NUMBERS_OF_ORIGINAL / 2;
    next.saturating_add(half + salt % half)
}

/// The sealed log file that ends at `position`, the end of the log, if there is one.
pub(crate) fn last_log(live: &LiveFiles, position: u64) -> Option<(FileNumber, &ValueFileMeta)> {
    let last = live.value_files.logs().next_back()?;
    last.1.len.is_some_and(|end| last.1.base + end == position).then_some(last)
}

fn lost_edits(unnamed: Name) -> Error {
    let what = "the manifest lost its last edits; restore the database from a backup";
    Error::corruption(what).with("unnamed", unnamed)
}

/// Fails if there is a database in `storage` and the options require a new one, or if there is none
/// and none may be created there, or not with these options.
pub(crate) fn check_openable(storage: &dyn Storage, options: &Options) -> Result<()> {
    match Current::read(storage)? {
        Some(_) if options.error_if_exists => {
            let message = "there is a database in the directory, and a new one was asked for";
            Err(Error::new(ErrorKind::AlreadyExists, message))
        }
        Some(_) => Ok(()),
        None => {
            options.validate()?;
            check_empty(storage, options)
        }
    }
}

/// A new database is created in an empty directory only. The files of an unfinished creation (never
/// a table, a segment or a log) do not count.
fn check_empty(storage: &dyn Storage, options: &Options) -> Result<()> {
    let failed = |e| Error::io("list the directory", e);
    let data = |kind: FileKind| kind.is_data() || kind == FileKind::Log;
    let files = storage.list().map_err(failed)?;
    if files.iter().any(|(name, _)| name.kind() == FileKind::Volume) {
        let message = "the directory is a volume of a database, not its own; open that one";
        return Err(Error::new(ErrorKind::NotADatabase, message));
    }
    if let Some((name, _)) = files.iter().find(|(name, _)| data(name.kind())) {
        let message = "the directory holds data but no file `current`; restore it from a backup";
        return Err(Error::corruption(message).with("found", name));
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
/// so a file begun later than the manifest, behind the end of the log and without an entry there,
/// proves that edits are lost. Their files must not be removed as orphans.
fn check_whole(
    storage: &dyn Storage,
    current: &Current,
    live: &LiveFiles,
    position: u64,
) -> Result<()> {
    for (name, _) in storage.list().map_err(|e| Error::io("list the directory", e))? {
        let number = name.number();
        let unnamed = name.kind() == FileKind::Log && live.value_files.kind_of(number).is_none();
        if !unnamed || number < current.manifest {
            continue;
        }
        let failed = |e| Error::io("open a log file", e).with("file", name);
        let file = storage.open(&name, Mode::Read, Access::Sequential).map_err(failed)?;
        let identity = FileIdentity::new(current.database_id, number);
        let header = LogReader::new(&*file, None, identity, 0, 0, None)?.header()?;
        if header.is_some_and(|header| header.base >= position) {
            return Err(lost_edits(name));
        }
    }
    Ok(())
}

/// A number above that of every file in the directory, including unknown ones.
fn highest_number(storage: &dyn Storage) -> Result<u64> {
    let files = storage.list().map_err(|e| Error::io("list the directory", e))?;
    Ok(files.iter().map(|(name, _)| name.number().0 + 1).max().unwrap_or(1))
}

/// Removes every file that the manifest does not name: after a close there are none, unless the
/// close, or the beginning of a session, was interrupted.
fn remove_orphans(storage: &MultiDirStorage, manifest: &Manifest) -> Result<u64> {
    let live = manifest.live();
    let mut removed = 0;
    for (name, _) in storage.list().map_err(|e| Error::io("list the directory", e))? {
        let number = name.number();
        let named = match name.kind() {
            FileKind::Current | FileKind::Lock | FileKind::Reserve | FileKind::Backup => true,
            FileKind::Window => live.session.is_some_and(|session| session.window.is_some()),
            // Files of volumes are not listed; here they were left by mistake.
            FileKind::Volume | FileKind::VolumeNew | FileKind::CurrentNew => false,
            FileKind::Manifest => name == manifest.name(),
            FileKind::Log | FileKind::Segment | FileKind::Group | FileKind::Blob => {
                live.value_files.kind_of(number) == Some(name.kind())
            }
            FileKind::Table => live.version.tables().any(|(_, table)| table.number() == number),
        };
        if !named {
            storage
                .remove(&name, RemoveMode::Immediate)
                .map_err(|e| Error::io("remove an orphan", e).with("file", name))?;
            removed += 1;
        }
    }
    // A crash may leave one fixed-name file in each volume.
    let new = Name::fixed(FileKind::VolumeNew);
    for volume in storage.volumes() {
        let failed = |e| {
            let error = Error::io("remove an orphan", e).with("file", new);
            error.with("volume", &volume.path)
        };
        let files = volume.storage.list().map_err(failed)?;
        if files.iter().any(|(name, _)| *name == new) {
            volume.storage.remove(&new, RemoveMode::Immediate).map_err(failed)?;
            removed += 1;
        }
    }
    if removed > 0 {
        storage.sync_dir().map_err(|e| Error::sync_failed("the directory", e))?;
    }
    Ok(removed)
}

/// Number of attempts to read a manifest that another process may be writing, and their pause.
const READS: usize = 4;
const READ_PAUSE: Duration = Duration::from_millis(5);

/// Options for the database in `storage` as it was created, if there is one. It is not locked:
/// another process may write or replace its manifest meanwhile; then it is read again.
pub(crate) fn stored_options(storage: &dyn Storage) -> Result<Option<Options>> {
    let mut found = StoredDatabase::read(storage);
    for _ in 1..READS {
        if found.is_ok() {
            break;
        }
        thread::sleep(READ_PAUSE);
        found = StoredDatabase::read(storage);
    }
    let Some(StoredDatabase { current, stored }) = found? else { return Ok(None) };
    let (preset, layout) = (Some(current.preset), Some(stored.value_layout()?));
    let space_limit = stored.space_limit();
    let usual = Options::default();
    let options = Options { preset, layout, space_limit, ..usual };
    Ok(Some(options.keeping_log(stored.log_kept())))
}
