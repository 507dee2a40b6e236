//! The next log file: created ahead so that no writer waits for it, and put in place.
//!
//! Where flushes make the log needless before it is drained, its files are reserved, named, and
//! never written. Such a file becomes the next one, under another name: to reserve and to give back
//! as much for each MemTable keeps the device from its work, where the file system passes on what
//! it frees (`docs/decisions/0029-log-files-are-used-again.md`).

use std::io;
use std::sync::Arc;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::{Error, FileNumber, Result};
use cleavedb_storage::log::{LogFile, PreallocatedLog};
use cleavedb_storage::{Access, File, FileClass, FileKind, Mode, Name, Storage};
use cleavedb_values::ValueFileEdit;

use crate::commit::Append;
use crate::engine::Engine;
use crate::manifest::Edit;
use crate::space::{budget, reserve, sizes};
use crate::volume::Volume;

/// Whether a dead log file may become the next one, since there is none ahead.
pub(crate) fn keeps_logs(engine: &Engine) -> bool {
    if engine.obsolete_files.logs() == 0 {
        return false;
    }
    // A lock that is taken means that one comes, or goes, right now.
    reuses_logs(engine)
        && engine.preallocated_log.try_lock().is_none_or(|next_log| next_log.is_none())
}

/// Whether the log file in use is so full that the next one should be there, or an old one
/// waits to become the next.
pub(crate) fn wants_next_log(engine: &Engine) -> bool {
    if reuses_logs(engine) && engine.obsolete_files.logs() > 0 {
        return true;
    }
    let files = engine.jobs.log_files.lock();
    let used = |(_, file): &(FileNumber, Arc<LogFile>)| {
        engine.commit.log.buffer().written_upto().saturating_sub(file.base)
    };
    files.last().is_some_and(|last| used(last) > sizes::log_file_bytes(engine) / 2)
}

/// Creates and names a log file ahead of its use.
pub(crate) fn create_next_log(engine: &Engine) -> Result<PreallocatedLog> {
    let access = engine.options.log_access(engine.commit.log.buffer().survives());
    let (number, file) = match reused_log(engine, access)? {
        Some(reused) => reused,
        None => engine.create_file(FileClass::Log, access)?,
    };
    let reserved = engine.full.allocate_log(&*file, sizes::log_file_bytes(engine));
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

/// Whether dead log files are kept for the next one. In a volume nothing is renamed. Where
/// space is limited, a log file that costs nothing let writers go on when flushes had no room.
pub(crate) fn reuses_logs(engine: &Engine) -> bool {
    let in_volume = |volume: &Volume| volume.classes.contains(&FileClass::Log);
    engine.limit.is_none() && !engine.options.volumes.iter().any(in_volume)
}

/// A log file that no reader can reach any more and that was never written, under a number that
/// was never used.
pub(crate) fn reused_log(
    engine: &Engine,
    access: Access,
) -> Result<Option<(FileNumber, Arc<dyn File>)>> {
    if !reuses_logs(engine) {
        return Ok(None);
    }
    let Some(old) = engine.obsolete_files.take_log() else { return Ok(None) };
    if let Ok(Some(file)) = pristine(engine, &old, access) {
        let number = engine.allocate_number()?;
        let new = Name::numbered(FileKind::Log, number);
        if engine.storage.rename(&old, &new).is_ok() {
            return Ok(Some((number, file)));
        }
    }
    // It goes as others do.
    engine.obsolete_files.enqueue(old, engine.options.log_file_bytes);
    Ok(None)
}

/// Opens the log file `name` if nothing was ever written to it, nor will be.
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
    // Locked throughout: of two files created at once the higher number might be used first,
    // and replay goes by number.
    let mut ahead = engine.preallocated_log.lock();
    let next_log = match ahead.take() {
        Some(next_log) => next_log,
        None => create_next_log(engine)?,
    };
    let number = next_log.number;
    let base = append.appender.next().next_multiple_of(BLOCK as u64);
    // Before the file is begun: if it cannot be opened, it stays the next one.
    let segment = match engine.open_segment(FileKind::Log, number, Some(base)) {
        Ok(segment) => segment,
        Err(e) => {
            *ahead = Some(next_log);
            return Err(e);
        }
    };
    drop(ahead);
    engine.commit.log.set_file_len(sizes::log_file_bytes(engine));
    let file = engine
        .commit
        .log
        .rotate(&mut append.appender, next_log)
        .map_err(|e| engine.poison.set(e))?;
    debug_assert_eq!(file.base, base);
    engine.state.swap(|state| {
        state.with_segments(state.segments.with(std::slice::from_ref(&segment), &[]))
    });
    budget::log_file_begun(engine);
    reserve::keep_reserve(engine);
    engine.jobs.log_files.lock().push((number, file));
    engine.jobs.wake();
    Ok(())
}
