//! Checkpoints: a consistent copy of an open database, made while it is written, which is a
//! database of its own.
//!
//! The files that will not change any more are linked where the file system can; log files that are
//! still written, or that recovery would complete after a crash, are copied.

use std::sync::Arc;

use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_storage::{FileKind, Storage, copy};

use crate::control::progress::Progress;
use crate::copies::moment::{CheckpointReport, CopyMoment, CopySource, Copying, Links, SourceFile};
use crate::engine::Engine;

/// Makes a checkpoint in `to`, which must be empty; after a failure it is empty again.
pub(crate) fn make(
    source: &dyn CopySource,
    to: &Arc<dyn Storage>,
    progress: &Progress,
) -> Result<CheckpointReport> {
    check_empty(&**to)?;
    let mut links = Original;
    let mut copy = Copying::new(to, &mut links, progress);
    let made = source.copy_to(&mut copy);
    if made.is_err() {
        copy.remove();
    }
    made
}

/// Has the database `source` take the place of the one in `to`, whose files become orphans. Before
/// the one step of it, and after a crash until then, `to` has its own database.
pub(crate) fn replace(source: &Engine, to: &Arc<dyn Storage>) -> Result<()> {
    let (mut links, progress) = (Original, Progress::default());
    let moment = CopyMoment::take(source)?.moved_to(&**to);
    let mut copy = Copying::new(to, &mut links, &progress);
    copy.bring(&moment)?;
    copy.begin(&moment)
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
        Ok(file.is_whole && copy::link(file.directory, &file.name, to).map_err(failed)?)
    }
}
