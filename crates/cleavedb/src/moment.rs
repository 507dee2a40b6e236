//! The database at one moment, and copies of it in other directories.
//!
//! What a manifest names is a consistent state together with the log behind it. So a copy is made
//! of the live files of one moment and the end of the log at that moment, once the log was brought
//! to its files, and of the manifest that a close would have written then. A read state keeps all
//! of them from being removed meanwhile.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{Error, FileNumber, Result};
use cleavedb_storage::{Access, File, FileKind, Mode, MultiDirStorage, Name, Storage, copy};

use crate::engine::Engine;
use crate::manifest::{Current, LiveFiles, Manifest};
use crate::progress::Progress;
use crate::recovery::last_log;
use crate::session::{self, Rest};
use crate::state::ReadState;

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
    /// Its length in the copy, in bytes.
    pub(crate) len: u64,
    /// Bytes of these that it has; the drain skips log that no one will read.
    present: u64,
    /// Whether it has reached this length for good: nothing is appended any more.
    pub(crate) is_whole: bool,
    /// Whether its bytes will never change, holes excepted: also if this machine loses its memory.
    pub(crate) is_settled: bool,
    /// Whether it is a part of the log.
    pub(crate) is_log: bool,
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
}

/// The database at one moment, as a manifest describes it.
pub(crate) struct Moment<'a> {
    engine: &'a Engine,
    current: Current,
    live: LiveFiles,
    /// Log files that may still be written, and the bytes of each at that moment.
    logs: BTreeMap<FileNumber, u64>,
    /// Keeps the files of `live` from being removed and from being changed.
    #[expect(dead_code, reason = "held for what its drop does")]
    state: Arc<ReadState>,
}

impl<'a> Moment<'a> {
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
            let Rest { value_files, .. } = session::log_at_rest(engine, &append, &live, ahead);
            value_files.iter().try_for_each(|edit| live.value_files.apply(edit))?;
            let young = manifest.live().value_files.logs().filter(|(_, facts)| facts.len.is_none());
            let len_of = |number| live.value_files.get(number).and_then(|facts| facts.len);
            logs = young.filter_map(|(number, _)| Some((number, len_of(number)?))).collect();
            (live.session, live.closed) = (None, true);
            (live.seq_limit, live.next_file) = (append.last_seq() + 1, manifest.next_number());
        }
        let current = Current { volumes: Vec::new(), ..manifest.current().clone() };
        // No flush can publish meanwhile, so the read state has exactly these files.
        Ok(Self { engine, current, live, logs, state: engine.state.load_full() })
    }

    /// Its files, without the manifest.
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
            let first = || &storage.first().storage;
            Ok(SourceFile {
                name,
                len,
                present: if is_log && self.is_flushed(&name, len) { len.min(listed) } else { len },
                is_whole: young.is_none(),
                // Log behind the replay head may be cut and written again after a loss of power.
                is_settled: !is_log || name.number() < self.live.head_file(),
                is_log,
                directory: &**storage.volume_of(&name).map_or_else(first, |it| &it.storage),
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

    /// Brings all files but the manifest to `to`, durable except for their names, and pushes the
    /// name of each to `names` before.
    pub(crate) fn copy_files(
        &self,
        to: &dyn Storage,
        links: &mut dyn Links,
        names: &mut Vec<Name>,
        progress: &Progress,
    ) -> Result<CheckpointReport> {
        let files = self.files()?;
        let bytes = files.iter().map(|file| file.len).sum();
        progress.begin(bytes);
        let mut report = CheckpointReport { bytes, ..CheckpointReport::default() };
        for file in files {
            names.push(file.name);
            if links.link(&file, to)? {
                report.linked += 1;
            } else {
                let failed = |e| Error::io("copy a file", e).with("file", file.name).with_remedy();
                let lens = (file.present, file.len);
                copy::copy(file.directory, &file.name, to, lens).map_err(failed)?;
                report.copied += 1;
                report.copied_bytes += file.len;
            }
            progress.add(file.len)?;
        }
        Ok(report)
    }

    /// Makes the copied files a database, durably: writes its manifest, pushes the name of that to
    /// `names` before, and writes `current` last.
    pub(crate) fn begin(&self, to: &Arc<dyn Storage>, names: &mut Vec<Name>) -> Result<()> {
        let current = Current { manifest: FileNumber(self.live.next_file), ..self.current.clone() };
        names.push(Name::numbered(FileKind::Manifest, current.manifest));
        let to = Arc::new(MultiDirStorage::whole(to.clone()));
        Manifest::begin(to, current, self.live.clone()).map(drop)
    }
}
