//! Checkpoints: a consistent copy of an open database, made while it is written, which is a
//! database of its own.
//!
//! The files that will not change any more are linked where the file system can; log files that are
//! still written, or that recovery would complete after a crash, are copied.

use std::sync::Arc;

use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_storage::{Access, FileKind, Mode, Name, RemoveMode, Storage, copy};

use crate::engine::Engine;
use crate::moment::{CheckpointReport, Links, Moment, SourceFile};
use crate::progress::Progress;

/// Makes a checkpoint in `to`, which must be empty; after a failure it is empty again.
pub(crate) fn make(
    engine: &Engine,
    to: &Arc<dyn Storage>,
    progress: &Progress,
) -> Result<CheckpointReport> {
    check_empty(&**to)?;
    let moment = Moment::take(engine)?;
    let mut names = Vec::new();
    let copied = moment.copy_files(&**to, &mut Original, &mut names, progress);
    let made = copied.and_then(|report| moment.begin(to, &mut names).map(|()| report));
    if made.is_err() {
        remove(&**to, &names);
    }
    made
}

/// Removes a database that consists of the files `names` and of `current`, or a part of it. What
/// cannot be removed now is refused by an open: there is no `current`.
pub(crate) fn remove(to: &dyn Storage, names: &[Name]) {
    let fixed = [FileKind::Current, FileKind::CurrentNew].map(Name::fixed);
    let names = fixed.iter().chain(names);
    names.for_each(|name| _ = to.remove(name, RemoveMode::Immediate));
}

fn check_empty(to: &dyn Storage) -> Result<()> {
    let failed = |e| Error::io("list the directory", e);
    let ours = to.list().map_err(failed)?;
    let found = match ours.first() {
        Some((name, _)) => Some(name.to_string()),
        None => to.foreign().map_err(failed)?.into_iter().next(),
    };
    match found {
        None => Ok(()),
        Some(found) => {
            // A copy writes `current` last.
            let is_whole = ours.iter().any(|(name, _)| name.kind() == FileKind::Current);
            let message = match ours.is_empty() || is_whole {
                true => "the directory of the copy must be empty; choose another one",
                false => {
                    "the directory of the copy has files of a database without `current`, as a \
                     copy leaves them that is killed; remove them, or choose another directory"
                }
            };
            Err(Error::new(ErrorKind::AlreadyExists, message).with("found", found))
        }
    }
}

/// Links to the files of the database itself.
struct Original;

impl Links for Original {
    fn link(&mut self, file: &SourceFile<'_>, to: &dyn Storage) -> Result<bool> {
        let failed = |e| Error::io("link a file", e).with("file", file.name).with_remedy();
        let linked = file.is_whole && copy::link(file.directory, &file.name, to).map_err(failed)?;
        if linked && file.is_log {
            sync(to, &file.name)?;
        }
        Ok(linked)
    }
}

/// Makes a linked log file durable: that of a database whose writes are not synced may not be.
fn sync(to: &dyn Storage, name: &Name) -> Result<()> {
    let failed = |e| Error::io("open a log file", e).with("file", name);
    let file = to.open(name, Mode::ReadWrite, Access::Random).map_err(failed)?;
    file.sync().map_err(|e| Error::sync_failed("a log file", e).with("file", name))
}
