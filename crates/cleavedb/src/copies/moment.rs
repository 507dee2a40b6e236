//! The database at one moment, and copies of it in other directories.
//!
//! What a manifest names is a consistent state together with the log behind it. So a copy is made
//! of the live files of one moment and the end of the log at that moment, once the log was brought
//! to its files, and of the manifest that a close would have written then. A read state keeps all
//! of them from being removed meanwhile.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{Error, FileNumber, Result};
use cleavedb_storage::{
    Access, File, FileKind, FileLayer, Mode, MultiDirStorage, Name, RemoveMode, Storage,
    StorageLayer, copy,
};

use crate::control::progress::Progress;
use crate::engine::Engine;
use crate::open::recovery::last_log;
use crate::open::session::{self, LeftLog};
use crate::store::manifest::{Current, LiveFiles, Manifest};
use crate::store::state::ReadState;

/// A database of which copies are made.
pub(crate) trait CopySource {
    fn database_id(&self) -> u64;
    /// Brings all of it, as of now, to `copy`, which is a database then.
    fn copy_to(&self, copy: &mut Copying<'_>) -> Result<CheckpointReport>;
}

impl CopySource for Engine {
    fn database_id(&self) -> u64 {
        self.database_id
    }

    fn copy_to(&self, copy: &mut Copying<'_>) -> Result<CheckpointReport> {
        let moment = CopyMoment::take(self)?;
        let report = copy.bring(&moment)?;
        copy.begin(&moment)?;
        Ok(report)
    }
}

/// What a copy of a database consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointReport {
    /// Files of the copy that are links: they take no space until one of the two databases drops
    /// them.
    pub linked: u64,
    /// Files that were copied.
    pub copied: u64,
    /// Bytes of these.
    pub copied_bytes: u64,
    /// Bytes of all files but the manifest.
    pub bytes: u64,
}

/// A file of the database at that moment.
pub(crate) struct SourceFile<'a> {
    pub(crate) name: Name,
    /// The length of the file in the copy, in bytes.
    pub(crate) len: u64,
    /// Bytes of these that it has; the drain skips log that no one will read.
    present: u64,
    /// Whether it has reached this length for good: nothing is appended any more.
    pub(crate) is_whole: bool,
    /// Whether its bytes will never change, holes excepted: also if this machine loses its memory.
    pub(crate) is_settled: bool,
    /// Whether it is a part of the log.
    is_log: bool,
    /// The directory that has it.
    pub(crate) directory: &'a dyn Storage,
    live: &'a LiveFiles,
}

impl SourceFile<'_> {
    /// Opens it for reading from front to back.
    pub(crate) fn open(&self) -> Result<Arc<dyn File>> {
        let opened = self.directory.open(&self.name, Mode::Read, Access::Sequential);
        opened.map_err(|e| Error::unopened("open a file", e).with("file", self.name))
    }

    /// The ranges of it that hold data, each an offset and a length. What lies between extents of
    /// groups may be a hole in one copy of the file, and dead records in another.
    pub(crate) fn needed(&self) -> Vec<(u64, u64)> {
        if !self.name.kind().has_extents() {
            return vec![(0, self.len)];
        }
        let extents = self.live.groups.extents_in(self.name.number());
        extents.map(|extent| (extent.place.offset, extent.len())).collect()
    }
}

/// Where files of a copy are linked from, so that they need not be copied.
pub(crate) trait Links {
    /// Gives `file` its name in the directory `to` by a link; returns false if it is to be copied.
    fn link(&mut self, file: &SourceFile<'_>, to: &dyn Storage) -> Result<bool>;

    /// All files of the copy but the manifest are in `to`.
    fn finish(&mut self, _to: &dyn Storage) -> Result<()> {
        Ok(())
    }
}

/// A file that a copy has.
struct Brought {
    len: u64,
    /// See [`SourceFile::needed`].
    needed: Vec<(u64, u64)>,
    /// Whether it is whole, and will stay as it is.
    is_settled: bool,
    is_linked: bool,
    is_durable: bool,
}

impl Brought {
    /// Whether it need not be brought again for `file` of a later moment.
    fn serves(&self, file: &SourceFile<'_>) -> bool {
        let is_same = self.is_settled && file.is_settled && self.len == file.len;
        is_same && file.needed().iter().all(|range| self.needed.contains(range))
    }
}

/// A directory in which new files are made durable later.
struct Later(Arc<dyn Storage>);

struct LaterFile(Arc<dyn File>);

impl StorageLayer for Later {
    fn inner(&self) -> &dyn Storage {
        &*self.0
    }

    fn open(&self, name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(LaterFile(self.0.open(name, mode, access)?)))
    }
}

impl FileLayer for LaterFile {
    fn inner(&self) -> &dyn File {
        &*self.0
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Makes file `name` of `directory` durable.
fn sync(directory: &dyn Storage, name: &Name) -> Result<()> {
    let failed = |e| Error::io("open a file of the copy", e).with("file", name);
    let file = directory.open(name, Mode::ReadWrite, Access::Random).map_err(failed)?;
    file.sync().map_err(|e| Error::sync_failed("a file of the copy", e).with("file", name))
}

/// A copy while it is made.
pub(crate) struct Copying<'a> {
    to: &'a Arc<dyn Storage>,
    links: &'a mut dyn Links,
    progress: &'a Progress,
    files: BTreeMap<Name, Brought>,
    manifest: Option<Name>,
}

impl<'a> Copying<'a> {
    /// A copy in the directory `to`, which has nothing yet.
    pub(crate) fn new(
        to: &'a Arc<dyn Storage>,
        links: &'a mut dyn Links,
        progress: &'a Progress,
    ) -> Self {
        Self { to, links, progress, files: BTreeMap::new(), manifest: None }
    }

    /// Brings all files of `moment` but the manifest. Those that an earlier moment has brought
    /// stay, or are removed. They are made durable once it is known that they are the right ones,
    /// since that takes most of the time in which they may turn out not to be.
    pub(crate) fn bring(&mut self, moment: &CopyMoment<'_>) -> Result<CheckpointReport> {
        let files = moment.files()?;
        let bytes = files.iter().map(|file| file.len).sum();
        self.progress.begin(bytes);
        let by_name: HashMap<Name, _> = files.iter().map(|file| (file.name, file)).collect();
        let is_outdated = |name: &Name, brought: &mut Brought| {
            !by_name.get(name).is_some_and(|file| brought.serves(file))
        };
        for (name, _) in self.files.extract_if(.., is_outdated) {
            match self.to.remove(&name, RemoveMode::Immediate) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io("remove a file of the copy", e).with("file", name));
                }
                _ => {}
            }
        }
        for file in &files {
            if !self.files.contains_key(&file.name) {
                self.bring_file(file)?;
            }
            self.progress.add(file.len)?;
        }
        let (linked, copied): (Vec<_>, Vec<_>) = self.files.values().partition(|it| it.is_linked);
        let copied_bytes = copied.iter().map(|it| it.len).sum();
        let [linked, copied] = [linked, copied].map(|files| files.len() as u64);
        Ok(CheckpointReport { linked, copied, copied_bytes, bytes })
    }

    fn bring_file(&mut self, file: &SourceFile<'_>) -> Result<()> {
        let (len, needed) = (file.len, file.needed());
        let brought =
            Brought { len, needed, is_settled: false, is_linked: false, is_durable: false };
        let brought = self.files.entry(file.name).or_insert(brought);
        brought.is_linked = self.links.link(file, &**self.to)?;
        if !brought.is_linked {
            let failed = |e| Error::io("copy a file", e).with("file", file.name).with_remedy();
            let to = Later(self.to.clone());
            copy::copy(file.directory, &file.name, &to, file.present, file.len).map_err(failed)?;
        }
        brought.is_settled = file.is_settled;
        // What a database links was durable before its name; its log may not be.
        brought.is_durable = brought.is_linked && !file.is_log;
        Ok(())
    }

    /// Makes what was brought of `moment` a database, durably: writes its manifest, and `current`
    /// last.
    pub(crate) fn begin(&mut self, moment: &CopyMoment<'_>) -> Result<()> {
        for (name, _) in self.files.iter().filter(|(_, it)| !it.is_durable) {
            if !planted(Bug::CopyUnsynced) {
                sync(&**self.to, name)?;
            }
        }
        self.links.finish(&**self.to)?;
        let CopyMoment { live, current, .. } = moment;
        let current = Current { manifest: FileNumber(live.next_file), ..current.clone() };
        self.manifest = Some(Name::numbered(FileKind::Manifest, current.manifest));
        let to = Arc::new(MultiDirStorage::whole(self.to.clone()));
        Manifest::begin(to, current, live.clone()).map(drop)
    }

    /// Where it is made.
    pub(crate) fn directory(&self) -> &Arc<dyn Storage> {
        self.to
    }

    /// Where others see how far it has come.
    pub(crate) fn progress(&self) -> &Progress {
        self.progress
    }

    /// Removes what was brought. What cannot be removed now is refused by an open: there is no
    /// `current`.
    pub(crate) fn remove(&self) {
        let fixed = [FileKind::Current, FileKind::CurrentNew].map(Name::fixed);
        let names = fixed.iter().chain(&self.manifest).chain(self.files.keys());
        names.for_each(|name| _ = self.to.remove(name, RemoveMode::Immediate));
    }
}

/// The database at one moment, as a manifest describes it.
pub(crate) struct CopyMoment<'a> {
    engine: &'a Engine,
    current: Current,
    live: LiveFiles,
    /// Log files that may still be written, and the bytes of each at that moment.
    logs: BTreeMap<FileNumber, u64>,
    /// Where settled files lie, if the storage of `engine` is a layer over it.
    below: Option<&'a MultiDirStorage>,
    /// Keeps the files of `live` from being removed and from being changed.
    #[expect(dead_code, reason = "held for what its drop does")]
    state: Arc<ReadState>,
}

impl<'a> CopyMoment<'a> {
    /// The state of this moment, for which writers wait while the log window is written to the
    /// log files.
    pub(crate) fn take(engine: &'a Engine) -> Result<Self> {
        engine.poison.check()?;
        let mut append = engine.commit.append();
        let is_begun = append.appender.is_begun();
        // Before the manifest is locked: what a flush releases from here on is in files already.
        if is_begun && !planted(Bug::CheckpointWithoutDrain) {
            engine.commit.drain_all(&mut append)?;
        }
        // No log file is made meanwhile.
        let made_ahead = engine.preallocated_log.lock();
        let ahead = made_ahead.as_ref().map(|next_log| next_log.number);
        let manifest = engine.manifest.lock();
        let mut live = manifest.live().clone();
        // The copy does not have the log that is only kept for readers of changes.
        live.without_changes();
        let mut logs = BTreeMap::new();
        if !is_begun {
            // The directory is that of a closed database. The first write may go on in its last log
            // file before that is linked.
            let last = last_log(&live, append.appender.next());
            logs.extend(last.and_then(|(number, facts)| Some((number, facts.len?))));
        } else {
            let LeftLog { value_files, .. } = session::log_at_rest(engine, &append, &live, ahead);
            value_files.iter().try_for_each(|edit| live.value_files.apply(edit))?;
            let young = manifest.live().value_files.logs().filter(|(_, facts)| facts.len.is_none());
            let len_of = |number| live.value_files.get(number).and_then(|facts| facts.len);
            logs = young.filter_map(|(number, _)| Some((number, len_of(number)?))).collect();
            (live.session, live.closed) = (None, true);
            (live.seq_limit, live.next_file) = (append.last_seq() + 1, manifest.next_number());
        }
        let current = Current { volumes: Vec::new(), ..manifest.current().clone() };
        // No flush can publish meanwhile, so the read state has exactly these files.
        Ok(Self { engine, current, live, logs, below: None, state: engine.state.load_full() })
    }

    /// The state of an engine that recovered, in memory alone, what is in `below`: what that did
    /// not change can be linked from there.
    pub(crate) fn over(engine: &'a Engine, below: &'a MultiDirStorage) -> Result<Self> {
        Ok(Self { below: Some(below), ..Self::take(engine)? })
    }

    /// The state as that of a database that goes on in `directory`, and is no copy there.
    pub(crate) fn moved_to(mut self, directory: &dyn Storage) -> Self {
        self.live.directory_id = directory.directory_id();
        self
    }

    /// Whether all of its files are still there, unchanged, according to `now`, a later state of
    /// the manifest: what an edit drops is removed, cut, punched or used again after the edit.
    pub(crate) fn is_kept(&self, now: &LiveFiles) -> bool {
        let tables: BTreeSet<_> = now.version.tables().map(|(_, table)| table.number()).collect();
        let mut values = self.live.value_files.iter();
        self.live.version.tables().all(|(_, table)| tables.contains(&table.number()))
            && values.all(|(number, it)| now.value_files.kind_of(number) == Some(it.kind))
            && self.live.groups.extents().all(|extent| now.groups.has_extent(extent.place))
    }

    /// The files of the moment, without the manifest.
    fn files(&self) -> Result<Vec<SourceFile<'_>>> {
        let tables = self.live.version.tables();
        let tables = tables.map(|(_, table)| Name::numbered(FileKind::Table, table.number()));
        let values = self.live.value_files.iter();
        let values = values.map(|(number, facts)| Name::numbered(facts.kind, number));
        let logs = self.live.value_files.logs();
        let logs = logs.map(|(number, facts)| (Name::numbered(FileKind::Log, number), facts.len));
        let logs: BTreeMap<Name, Option<u64>> = logs.collect();
        let storage = &self.engine.storage;
        let listed = storage.list().map_err(|e| Error::io("list the directory", e))?;
        let lens: HashMap<Name, u64> = listed.into_iter().collect();
        let file = |name: Name| {
            let what = "a file that the manifest names is missing";
            let missing = || Error::corruption(what).with("file", name);
            let listed = *lens.get(&name).ok_or_else(missing)?;
            let young = self.logs.get(&name.number()).copied();
            let log_len = logs.get(&name).copied();
            let is_log = log_len.is_some();
            // Without the padding of a log file that has ended, since one that is still the last
            // has none: it would not be the same in the next copy.
            let len = young.or(log_len.flatten().map(|len| len.min(listed))).unwrap_or(listed);
            // Log behind the replay head may be cut and written again after a loss of power.
            let is_settled = !is_log || name.number() < self.live.head_file();
            let home = self.below.filter(|_| is_settled).unwrap_or(storage);
            let first = || &home.first().storage;
            Ok(SourceFile {
                name,
                len,
                present: if is_log && self.is_flushed(&name, len) { len.min(listed) } else { len },
                is_whole: young.is_none(),
                is_settled,
                is_log,
                directory: &**home.volume_of(&name).map_or_else(first, |it| &it.storage),
                live: &self.live,
            })
        };
        tables.chain(values).map(file).collect()
    }

    /// Whether no one reads log file `name` of this length: it ends at the replay head, or before,
    /// and no table points into it.
    fn is_flushed(&self, name: &Name, len: u64) -> bool {
        let facts = self.live.value_files.get(name.number()).filter(|facts| facts.live == 0);
        let end = facts.map(|facts| facts.base + len);
        end.zip(self.live.head).is_some_and(|(end, head)| end <= head.position)
    }
}
