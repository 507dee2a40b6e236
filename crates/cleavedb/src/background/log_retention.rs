//! Retention: how log that is kept for readers of changes goes.
//!
//! A log file that the database does not need any more is retained by the edit that would have
//! removed it ([`crate::engine::value_files`]). It is released here, by an edit of its own, once
//! the files behind it hold as much as is to be kept, once its changes were given up, and before
//! writes are refused for want of space: the oldest go first.

use std::sync::Arc;

use cleavedb_base::record::FileIdentity;
use cleavedb_base::{Error, ErrorKind, FileNumber, Result, SeqNo};
use cleavedb_storage::log::{FileHeader, Log, LogReader, TailedFile};
use cleavedb_storage::{Access, File, FileKind, LeftWindow, Mode, Name, Storage};
use cleavedb_values::ValueFileEdit;

use crate::engine::Engine;
use crate::store::manifest::{ChangeLog, ChangesEdit, Edit, Manifest};
use crate::store::retained_log::{Keep, LogPart, PartSize, left_behind};

/// Releases what is not to be kept any more. Returns whether anything was.
pub(crate) fn enforce(engine: &Engine, manifest: &mut Manifest) -> Result<bool> {
    // The lock of the jobs comes before that of the manifest, so they are not asked.
    let is_short = engine.full.is_short() || engine.space().is_near_limit();
    release(engine, manifest, u64::from(is_short))
}

/// Releases the oldest file that is kept for changes only, since space is short. Returns whether
/// there was one.
pub(crate) fn give_up_oldest(engine: &Engine) -> bool {
    if engine.retained_log.first_seq().is_none() || engine.poison.check().is_err() {
        return false;
    }
    release(engine, &mut engine.manifest.lock(), 1).unwrap_or(false)
}

/// Gives up the changes up to `upto`: their files go as soon as the database does not need them.
pub(crate) fn give_up(engine: &Engine, upto: SeqNo) -> Result<()> {
    for part in engine.retained_log.parts() {
        first_seq_of(engine, &part)?;
    }
    let mut manifest = engine.manifest.lock();
    let log = manifest.live().changes.log;
    let first_seq = upto.min(engine.commit.visible()) + 1;
    if log.first_seq > 0 && log.first_seq < first_seq {
        let log = Some(ChangeLog { first_seq, ..log });
        let changes = ChangesEdit { log, ..ChangesEdit::default() };
        engine.commit_edit(&mut manifest, &Edit { changes, ..Edit::default() })?;
        engine.retained_log.set_first_seq(first_seq);
    }
    release(engine, &mut manifest, 0).map(drop)
}

/// Fails if changes up to `upto` are kept, since they have what was deleted.
pub(crate) fn check_given_up(engine: &Engine, upto: SeqNo) -> Result<()> {
    let Some(first) = engine.retained_log.first_seq().filter(|first| *first <= upto) else {
        return Ok(());
    };
    let what = "changes are kept (change_retention_bytes), and what was deleted is in their log; \
                give them up (`drop_changes`) and call again";
    let error = Error::new(ErrorKind::Held, what).with("held by", "the log of changes");
    Err(error.with("first", first).with("last", upto))
}

/// Releases files that are beyond what is to be kept, and the oldest ones until `missing` bytes are
/// free.
fn release(engine: &Engine, manifest: &mut Manifest, missing: u64) -> Result<bool> {
    let live = manifest.live();
    if live.value_files.retained().next().is_none() {
        return Ok(false);
    }
    let (log, parts) = (live.changes.log, engine.retained_log.parts());
    let size = |(at, part): (usize, &LogPart)| PartSize {
        bytes: end_of(&engine.commit.log, part).saturating_sub(part.base),
        is_retained: live.value_files.is_retained(part.number),
        is_given_up: parts[at + 1..]
            .iter()
            .find_map(|next| next.first_seq)
            .is_some_and(|next| next <= log.first_seq),
    };
    let sizes: Vec<PartSize> = parts.iter().enumerate().map(size).collect();
    let (goes, rest) = match log.bytes {
        // Nothing is kept any more.
        0 => (parts.len(), &parts[..0]),
        bytes => {
            let left = left_behind(&sizes, Keep { bytes, missing });
            (left, &parts[left..])
        }
    };
    let upto = rest.first().map_or(FileNumber(u64::MAX), |first| first.number);
    let gone: Vec<(FileNumber, u64)> =
        live.value_files.retained().map(|(number, file)| (number, file.len)).collect();
    let gone: Vec<_> = gone.into_iter().filter(|(number, _)| *number < upto).collect();
    if gone.is_empty() || goes == 0 && log.bytes > 0 {
        return Ok(false);
    }
    let value_files = gone.iter().map(|(number, _)| ValueFileEdit::Release(*number)).collect();
    let kept = rest.first().map(|first| ChangeLog {
        first_seq: log.first_seq.max(first_seq_from(engine, rest)),
        first_file: first.number,
        ..log
    });
    let changes = ChangesEdit { log: kept, ..ChangesEdit::default() };
    engine.commit_edit(manifest, &Edit { value_files, changes, ..Edit::default() })?;
    forget(engine, &gone, kept);
    Ok(true)
}

/// Removes released files, each once it has no readers.
fn forget(engine: &Engine, gone: &[(FileNumber, u64)], kept: Option<ChangeLog>) {
    engine.retained_log.set_first_seq(kept.map_or(0, |log| log.first_seq));
    let last = gone.last().map_or(FileNumber(0), |(number, _)| *number);
    let segments = engine.retained_log.drop_upto(last);
    for segment in &segments {
        segment.mark_obsolete();
    }
    for (number, len) in gone {
        if !segments.iter().any(|segment| segment.number() == *number) {
            let name = Name::numbered(FileKind::Log, *number);
            engine.obsolete_files.enqueue(name, *len);
        }
    }
}

/// Log position at which a file ends, or has come to.
pub(crate) fn end_of(log: &Log, part: &LogPart) -> u64 {
    part.end.unwrap_or_else(|| log.buffer().written_upto().max(part.base))
}

/// A sequence number above those of all files before `parts`, and not above any of theirs.
fn first_seq_from(engine: &Engine, parts: &[LogPart]) -> SeqNo {
    // The file in use, which is the last one, knows its number. If nothing was written since the
    // open, all that is visible is in these files.
    let known = parts.iter().find_map(|part| first_seq_of(engine, part).ok().flatten());
    known.unwrap_or_else(|| engine.commit.visible() + 1)
}

/// The first sequence number of a file; none if it has no operation.
pub(crate) fn first_seq_of(engine: &Engine, part: &LogPart) -> Result<Option<SeqNo>> {
    if part.first_seq.is_some() {
        return Ok(part.first_seq);
    }
    let len = end_of(&engine.commit.log, part) - part.base;
    let file = open_part(engine, part, len)?;
    let mut reader = read_part(engine, part, &file, FileHeader::RECORD_LEN as u64)?;
    let first = reader.next_record().map_err(|e| e.with("file", name_of(part)))?;
    let first = first.map(|(_, record)| record.header.seq);
    if let Some(first) = first {
        engine.retained_log.found(part.number, first);
    }
    Ok(first)
}

/// The name of a file.
pub(crate) fn name_of(part: &LogPart) -> Name {
    Name::numbered(FileKind::Log, part.number)
}

/// The first bytes of a file of the log, with those that only the window has.
pub(crate) struct OpenPart {
    file: Arc<dyn File>,
    /// The window of another process that may write it.
    window: Option<LeftWindow>,
    len: u64,
}

/// The first `len` bytes of a file, which are all stored.
pub(crate) fn open_part(engine: &Engine, part: &LogPart, len: u64) -> Result<OpenPart> {
    let name = name_of(part);
    let opened = engine.storage.open(&name, Mode::Read, Access::Sequential);
    let file = opened.map_err(|e| Error::unopened("open a log file", e).with("file", name))?;
    let Some(primary) = &engine.primary else {
        let buffer = engine.commit.log.buffer().clone();
        let file = Arc::new(TailedFile::new(file, buffer, part.base, len));
        return Ok(OpenPart { file, window: None, len });
    };
    let window = primary.window.as_ref().filter(|_| part.is_open);
    let failed = |e| Error::io("read the log window", e).with("file", "window");
    let window = window.map(LeftWindow::again).transpose().map_err(failed)?.flatten();
    Ok(OpenPart { file, window, len })
}

/// Reads a file that [`open_part`] opened, from `offset` on.
pub(crate) fn read_part<'f>(
    engine: &Engine,
    part: &LogPart,
    OpenPart { file, window, len }: &'f OpenPart,
    offset: u64,
) -> Result<LogReader<'f>> {
    let identity = FileIdentity::new(engine.database_id, part.number);
    let (file, window) = (&**file, window.as_ref());
    let reader = LogReader::new(file, window, identity, part.base, offset, Some(*len));
    reader.map_err(|e| e.with("file", name_of(part)))
}
