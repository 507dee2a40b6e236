//! Checkpoints and backups of a database that another process writes.
//!
//! The directory is recovered as if that process had just been killed, over a layer that keeps in
//! memory what recovery changes: that is a database at rest, of which a copy is made as of any
//! other. Meanwhile the writer removes files, cuts, punches and uses them again, each after the
//! edit that drops them. So the copy counts if its manifest drops nothing of it up to the end. If
//! it does, the next attempt is of a later moment, and brings only what the attempts before have
//! not: it is shorter.

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::thread;
use cleavedb_base::{Error, ErrorKind, Result, SeqNo};
use cleavedb_storage::{Directory, MultiDirStorage, ReadOnly};

use super::{Follower, PAUSES, incomplete, may_pass};
use crate::control::gate::Intent;
use crate::copies::moment::{CheckpointReport, CopyMoment, CopySource, Copying};
use crate::engine::Engine;
use crate::inspect::check;
use crate::open::build::build;
use crate::open::directories::Directories;
use crate::open::recovery::{StoredDatabase, recover};
use crate::settings::options::Options;
use crate::store::full_disk::FullDisk;
use crate::store::manifest::{LiveFiles, News};

/// Most attempts to make a copy.
const COPIES_MAX: usize = 20;

impl CopySource for Follower {
    fn database_id(&self) -> u64 {
        self.view().database_id
    }

    fn copy_to(&self, copy: &mut Copying<'_>) -> Result<CheckpointReport> {
        let acknowledged = self.catch_up()?.seq;
        for _ in 0..COPIES_MAX {
            let found = self.at_rest(acknowledged)?;
            let moment = CopyMoment::over(&found, &self.storage)?;
            let brought = copy.bring(&moment);
            let is_kept = self.live_now().is_ok_and(|now| moment.is_kept(&now));
            let is_kept = is_kept || planted(Bug::RemovedFilesCopied);
            match brought {
                Ok(report) if is_kept => {
                    copy.begin(&moment)?;
                    drop(moment);
                    drop(found);
                    return self.check_copy(copy).map(|()| report);
                }
                Err(e) if is_kept || !may_pass(e.kind()) => return Err(e),
                _ => {}
            }
        }
        let what = "the process that writes the database has dropped files during each of several \
                    copies; call again when it writes less, or have that process make the copy";
        Err(Error::new(ErrorKind::Outdated, what).with("copies", COPIES_MAX))
    }
}

impl Follower {
    /// An engine of what a kill of the writer would leave now, everything up to `acknowledged`.
    fn at_rest(&self, acknowledged: SeqNo) -> Result<Engine> {
        let look = || match recovered(&self.storage, &self.options)? {
            (engine, last_seq) if last_seq >= acknowledged => Ok(engine),
            _ => Err(incomplete("the log was changed while it was read")),
        };
        let mut found = look();
        for pause in PAUSES {
            match &found {
                Err(e) if may_pass(e.kind()) => thread::sleep(pause),
                _ => break,
            }
            found = look();
        }
        found
    }

    /// The live files, as the writer has them now.
    fn live_now(&self) -> Result<LiveFiles> {
        let mut place = self.place.lock();
        let news = place.manifest.look(&*self.storage, &self.tables)?;
        place.is_beyond_view |= news != News::None;
        Ok(place.manifest.live().clone())
    }

    /// Reads all of a copy that was made: nothing but the look at the manifest tells that it is
    /// right.
    fn check_copy(&self, copy: &Copying<'_>) -> Result<()> {
        let directory = MultiDirStorage::whole(copy.directory().clone());
        let (engine, _) = recovered(&directory, &self.options)?;
        let report = check::check(&engine, copy.progress())?;
        let Some(problem) = report.problems.first() else { return Ok(()) };
        let message = format!(
            "the copy is damaged, and is removed again: {problem}; a check of the database says \
             whether that is, too"
        );
        Err(Error::corruption(message))
    }
}

/// The database in `storage`, opened as after a crash, by a recovery of which all changes stay in
/// memory; and the last sequence number that it found.
fn recovered(storage: &MultiDirStorage, options: &Options) -> Result<(Engine, SeqNo)> {
    let layered = |directory: &Directory| {
        let storage = Arc::new(ReadOnly::new(directory.storage.clone()));
        Directory { storage, ..directory.clone() }
    };
    let first = layered(storage.first());
    let Some(found) = StoredDatabase::read(&*first.storage)? else {
        return Err(Error::new(ErrorKind::NotADatabase, "the database was removed meanwhile"));
    };
    let (volumes, (_, full)) = (found.volumes().to_vec(), FullDisk::over(first.storage.clone()));
    let placed = Arc::new(MultiDirStorage::new(first, storage.volumes().map(layered).collect())?);
    let directories = Directories { placed, volumes, locks: Vec::new() };
    // No file is created, so no number needs a salt.
    let recovered = recover(&directories, options, Some(found), 0)?;
    let last_seq = recovered.last_seq;
    let built = build(directories, options.clone(), recovered, None, full, Intent::Read, None)?;
    Ok((built.0, last_seq))
}
