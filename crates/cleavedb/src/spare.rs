//! The log file after the one in use, created ahead so that no writer waits for it.
//!
//! Where flushes make the log needless before it is drained, its files are reserved, named, and
//! never written. Such a file becomes the next one, under another name: to reserve and to give back
//! as much for each MemTable keeps the device from its work, where the file system passes on what
//! it frees (`docs/decisions/0029-log-files-are-used-again.md`).

use std::io;
use std::sync::Arc;

use cleavedb_base::{Error, FileNumber, Result};
use cleavedb_storage::log::{LogFile, SpareLog};
use cleavedb_storage::{Access, File, FileClass, FileKind, Mode, Name, Storage};
use cleavedb_values::LedgerEdit;

use crate::engine::Engine;
use crate::failures::JobKind;
use crate::manifest::Edit;
use crate::volume::Volume;

impl Engine {
    /// Whether a dead log file may become the next one, since there is none ahead.
    pub(crate) fn keeps_logs(&self) -> bool {
        if self.reaper.logs() == 0 {
            return false;
        }
        // A lock that is taken means that one comes, or goes, right now.
        self.reuses_logs() && self.spare_log.try_lock().is_none_or(|spare| spare.is_none())
    }

    /// Creates the log file ahead, if there is none.
    pub(crate) fn run_spare(&self) -> Result<bool> {
        // A lock that is taken means that a file is being created, here or by a writer that ran
        // out.
        let Some(mut ahead) = self.spare_log.try_lock() else { return Ok(false) };
        if ahead.is_some() || !self.wants_spare() {
            return Ok(false);
        }
        self.jobs.lock().sparing = true;
        let created = self.create_spare().map(|spare| *ahead = Some(spare));
        drop(ahead);
        self.jobs.finish(JobKind::Spare, &created, |state| state.sparing = false);
        created.map(|()| true)
    }

    /// Whether the log file in use is so full that the next one should be there, or an old one
    /// waits to become the next.
    fn wants_spare(&self) -> bool {
        if self.reuses_logs() && self.reaper.logs() > 0 {
            return true;
        }
        let files = self.jobs.log_files.lock();
        let used = |(_, file): &(FileNumber, Arc<LogFile>)| {
            self.commit.log.ring().filled().saturating_sub(file.base)
        };
        files.last().is_some_and(|last| used(last) > self.log_file_bytes() / 2)
    }

    /// Creates and names a log file ahead of its use.
    pub(crate) fn create_spare(&self) -> Result<SpareLog> {
        let access = self.options.log_access(self.commit.log.ring().survives());
        let (number, file) = match self.reused_log(access)? {
            Some(reused) => reused,
            None => self.create_file(FileClass::Log, access)?,
        };
        let reserved = self.full.allocate_log(&*file, self.log_file_bytes());
        let allocated = reserved.map_err(|e| {
            let name = Name::numbered(FileKind::Log, number);
            let error = Error::io("reserve space for the log", e).with("file", name);
            let error = self.with_volume(error);
            self.discard(FileKind::Log, &[number]);
            error
        })?;
        self.sync_dir()?;
        let ledger = vec![LedgerEdit::Add(number, FileKind::Log)];
        self.commit_edit(&mut self.manifest.lock(), &Edit { ledger, ..Edit::default() })?;
        Ok(SpareLog { number, file, allocated })
    }

    /// Whether dead log files are kept for the next one. In a volume nothing is renamed. Where
    /// space is limited, a log file that costs nothing let writers go on when flushes had no room.
    fn reuses_logs(&self) -> bool {
        let in_volume = |volume: &Volume| volume.classes.contains(&FileClass::Log);
        self.limit.is_none() && !self.options.volumes.iter().any(in_volume)
    }

    /// A log file that no reader can reach any more and that was never written, under a number that
    /// was never used.
    fn reused_log(&self, access: Access) -> Result<Option<(FileNumber, Arc<dyn File>)>> {
        if !self.reuses_logs() {
            return Ok(None);
        }
        let Some(old) = self.reaper.take_log() else { return Ok(None) };
        if let Ok(Some(file)) = self.pristine(&old, access) {
            let number = self.allocate_number()?;
            let new = Name::numbered(FileKind::Log, number);
            if self.storage.rename(&old, &new).is_ok() {
                return Ok(Some((number, file)));
            }
        }
        // It goes as others do.
        self.reaper.bury(old, self.options.log_file_bytes);
        Ok(None)
    }

    /// Opens the log file `name` if nothing was ever written to it, nor will be.
    fn pristine(&self, name: &Name, access: Access) -> io::Result<Option<Arc<dyn File>>> {
        if !self.commit.log.is_done_with(name.number()) {
            return Ok(None);
        }
        let file = self.storage.open(name, Mode::ReadWrite, access)?;
        let pristine = file.len()? == 0 && !file.is_copied()?;
        Ok(pristine.then_some(file))
    }
}
