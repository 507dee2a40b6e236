//! Checkpoints: a consistent copy of an open database, made while it is written, which is a
//! database of its own.
//!
//! What a manifest names is a consistent state together with the log behind it. So a checkpoint
//! brings the log to its files, takes the live files of one moment and the end of the log at that
//! moment, and writes the manifest that a close would have written then. The files that will not
//! change any more are linked where the file system can; log files that are still written, or that
//! recovery would complete after a crash, are copied. A read state keeps all of them from being
//! removed meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{Error, ErrorKind, FileNumber, Result};
use cleavedb_storage::{Access, FileKind, Mode, MultiDirStorage, Name, RemoveMode, Storage, copy};
use cleavedb_values::ValueFileMeta;

use crate::engine::Engine;
use crate::manifest::{Current, LiveFiles, Manifest};
use crate::recovery::last_log;
use crate::session::{self, Rest};
use crate::state::ReadState;

/// What a checkpoint has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointReport {
    /// Files of the copy that are links: they take no space until one of the two databases drops
    /// them.
    pub linked: u64,
    /// Files that were copied.
    pub copied: u64,
    /// Bytes of these.
    pub copied_bytes: u64,
}

/// Makes a checkpoint in `to`, which must be empty; after a failure it is empty again.
pub(crate) fn make(engine: &Engine, to: &Arc<dyn Storage>) -> Result<CheckpointReport> {
    check_empty(&**to)?;
    let moment = Moment::take(engine)?;
    let mut names = Vec::new();
    let made = moment.copy(engine, to, &mut names);
    if made.is_err() {
        // What cannot be removed now is refused by an open: there is no `current`.
        let fixed = [FileKind::Current, FileKind::CurrentNew].map(Name::fixed);
        let names = fixed.iter().chain(&names);
        names.for_each(|name| _ = to.remove(name, RemoveMode::Immediate));
    }
    made
}

fn check_empty(to: &dyn Storage) -> Result<()> {
    let failed = |e| Error::io("list the directory", e);
    let found = match to.list().map_err(failed)?.first() {
        Some((name, _)) => Some(name.to_string()),
        None => to.foreign().map_err(failed)?.into_iter().next(),
    };
    match found {
        None => Ok(()),
        Some(found) => {
            let message = "the directory of a checkpoint must be empty; choose another one";
            Err(Error::new(ErrorKind::AlreadyExists, message).with("found", found))
        }
    }
}

/// The database at one moment, as a manifest describes it.
struct Moment {
    current: Current,
    live: LiveFiles,
    /// Log files that may still be written, and the bytes of each at that moment.
    logs: BTreeMap<FileNumber, u64>,
    /// Keeps the files of `live` from being removed and from being changed.
    #[expect(dead_code, reason = "held for what its drop does")]
    state: Arc<ReadState>,
}

impl Moment {
    fn take(engine: &Engine) -> Result<Self> {
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
        Ok(Self { current, live, logs, state: engine.state.load_full() })
    }

    /// Copies the files to `to`, and pushes the name of each to `names` before.
    fn copy(
        &self,
        engine: &Engine,
        to: &Arc<dyn Storage>,
        names: &mut Vec<Name>,
    ) -> Result<CheckpointReport> {
        let tables = self.live.version.tables();
        let tables = tables.map(|(_, table)| Name::numbered(FileKind::Table, table.number()));
        let values = self.live.value_files.iter();
        let values = values.map(|(number, facts)| Name::numbered(facts.kind, number));
        let logs: BTreeSet<Name> = self.live.value_files.logs().map(name_of_log).collect();
        let mut report = CheckpointReport::default();
        for name in tables.chain(values) {
            let from = &engine.storage;
            let from = from.volume_of(&name).map_or(&from.first().storage, |it| &it.storage);
            names.push(name);
            let len = self.logs.get(&name.number()).copied();
            let failed = |e| Error::io("copy a file", e).with("file", name).with_remedy();
            let linked = len.is_none() && copy::link(&**from, &name, &**to).map_err(failed)?;
            if linked {
                report.linked += 1;
                if logs.contains(&name) {
                    sync(&**to, &name)?;
                }
            } else {
                report.copied += 1;
                report.copied_bytes += copy::copy(&**from, &name, &**to, len).map_err(failed)?;
            }
        }
        let current = Current { manifest: FileNumber(self.live.next_file), ..self.current.clone() };
        names.push(Name::numbered(FileKind::Manifest, current.manifest));
        let to = Arc::new(MultiDirStorage::whole(to.clone()));
        Manifest::begin(to, current, self.live.clone())?;
        Ok(report)
    }
}

fn name_of_log((number, _): (FileNumber, &ValueFileMeta)) -> Name {
    Name::numbered(FileKind::Log, number)
}

/// Makes a linked log file durable: that of a database whose writes are not synced may not be.
fn sync(to: &dyn Storage, name: &Name) -> Result<()> {
    let failed = |e| Error::io("open a log file", e).with("file", name);
    let file = to.open(name, Mode::ReadWrite, Access::Random).map_err(failed)?;
    file.sync().map_err(|e| Error::sync_failed("a log file", e).with("file", name))
}
