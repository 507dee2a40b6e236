//! The next log file: created ahead so that no writer waits for it, and then put to use.
//!
//! If a MemTable is flushed before its part of the log is drained, the log files are reserved and
//! named, but never written. Such a file is renamed and becomes the next log file. Otherwise each
//! MemTable would reserve and free as much space again, which keeps the device busy where the file
//! system passes freed ranges on to it (`docs/decisions/0019-files-are-removed-in-pieces.md`).

use std::io;
use std::sync::Arc;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::{Error, FileNumber, Result};
use cleavedb_storage::log::{LogFile, PreallocatedLog};
use cleavedb_storage::{Access, File, FileClass, FileKind, Mode, Name, Storage};
use cleavedb_values::ValueFileEdit;

use crate::engine::Engine;
use crate::operations::commit::Append;
use crate::settings::volume::Volume;
use crate::store::manifest::Edit;

/// Whether unwritten dead log files are to be kept, because one of them may become the next log
/// file, which does not exist yet.
pub(crate) fn keeps_logs(engine: &Engine) -> bool {
    if engine.obsolete_files.unwritten_logs() == 0 {
        return false;
    }
    // If the lock is taken, the next log file is being created or put to use right now.
    reuses_logs(engine)
        && engine.preallocated_log.try_lock().is_none_or(|next_log| next_log.is_none())
}

/// Whether the next log file is due: the one in use is half full, or a dead log file can become the
/// next one.
pub(crate) fn wants_next_log(engine: &Engine) -> bool {
    if reuses_logs(engine) && engine.obsolete_files.unwritten_logs() > 0 {
        return true;
    }
    let files = engine.jobs.log_files.lock();
    let used = |(_, file): &(FileNumber, Arc<LogFile>)| {
        engine.commit.log.buffer().written_upto().saturating_sub(file.base)
    };
    files.last().is_some_and(|last| used(last) > engine.space().log_file_bytes() / 2)
}

/// Creates the next log file and names it in an edit, ahead of its use.
pub(crate) fn create_next_log(engine: &Engine) -> Result<PreallocatedLog> {
    let access = engine.options.log_access(engine.commit.log.buffer().survives());
    let (number, file) = match reused_log(engine, access)? {
        Some(reused) => reused,
        None => engine.create_file(FileClass::Log, access)?,
    };
    let reserved = engine.full.allocate_log(&*file, engine.space().log_file_bytes());
    let allocated = reserved.map_err(|e| {
        let name = Name::numbered(FileKind::Log, number);
        let error = Error::io("reserve space for the log", e).with("file", name);
        let error = engine.with_volume(error);
        engine.discard(FileKind::Log, &[number]);
        error
    })?;
    engine.sync_dir()?;
    let value_files = vec![ValueFileEdit::Add(number, FileKind::Log)];
    engine.commit_edit(&mut engine.manifest.lock(), &Edit { value_files, ..Edit::default() })?;
    Ok(PreallocatedLog { number, file, allocated })
}

/// Whether dead log files are reused. In a volume no file is renamed. Below a space limit a reused
/// log file would take no new space, so writers could go on when there is no room for flushes.
pub(crate) fn reuses_logs(engine: &Engine) -> bool {
    let in_volume = |volume: &Volume| volume.classes.contains(&FileClass::Log);
    engine.limit.is_none() && !engine.options.volumes.iter().any(in_volume)
}

/// A log file that no reader can reach any more and that was never written, renamed to an unused
/// number. `None` if there is no such file.
pub(crate) fn reused_log(
    engine: &Engine,
    access: Access,
) -> Result<Option<(FileNumber, Arc<dyn File>)>> {
    if !reuses_logs(engine) {
        return Ok(None);
    }
    while let Some(old) = engine.obsolete_files.take_unwritten_log() {
        if let Ok(Some(file)) = pristine(engine, &old, access) {
            let number = engine.allocate_number()?;
            let new = Name::numbered(FileKind::Log, number);
            if engine.storage.rename(&old, &new).is_ok() {
                return Ok(Some((number, file)));
            }
        }
        // The file was written meanwhile or could not be renamed, so it is removed like any other.
        // Its length is that of its blocks: with none it would be taken for unwritten again.
        engine.obsolete_files.enqueue(old, engine.options.tuning.log_file_bytes.max(1));
    }
    Ok(None)
}

/// Opens the log file `name` if it was never written and never will be.
pub(crate) fn pristine(
    engine: &Engine,
    name: &Name,
    access: Access,
) -> io::Result<Option<Arc<dyn File>>> {
    if !engine.commit.log.is_done_with(name.number()) {
        return Ok(None);
    }
    let file = engine.storage.open(name, Mode::ReadWrite, access)?;
    let pristine = file.len()? == 0 && !file.is_copied()?;
    Ok(pristine.then_some(file))
}

pub(crate) fn rotate_log(engine: &Engine, append: &mut Append) -> Result<()> {
    // The lock is held throughout: if two log files were created at once, the one with the higher
    // number might be used first, but replay reads them in the order of their numbers.
    let mut ahead = engine.preallocated_log.lock();
    let next_log = match ahead.take() {
        Some(next_log) => next_log,
        None => create_next_log(engine)?,
    };
    let number = next_log.number;
    let base = append.appender.next().next_multiple_of(BLOCK as u64);
    // The segment is opened before the file is put to use: if that fails, the file remains the next
    // one.
    let segment = match engine.open_segment(FileKind::Log, number, Some(base)) {
        Ok(segment) => segment,
        Err(e) => {
            *ahead = Some(next_log);
            return Err(e);
        }
    };
    drop(ahead);
    engine.commit.log.set_file_len(engine.space().log_file_bytes());
    let file = engine
        .commit
        .log
        .rotate(&mut append.appender, next_log)
        .map_err(|e| engine.poison.set(e))?;
    debug_assert_eq!(file.base, base);
    engine.state.swap(|state| {
        state.with_segments(state.segments.with(std::slice::from_ref(&segment), &[]))
    });
    let previous_end = Some(append.appender.previous_end());
    engine.log_goes_on(number, base, append.last_seq() + 1, previous_end);
    engine.space().log_file_begun();
    engine.space().keep_reserve();
    engine.jobs.log_files.lock().push((number, file));
    engine.jobs.wake();
    Ok(())
}
