//! A session: the period of writes to a database, from the first write after an open to the close.
//!
//! An open writes nothing, so a read-only use changes nothing. The first write begins the session:
//! it creates the window, continues the last log file or creates a new one, and records both in one
//! edit, before any record is written. The close leaves no window, and a log that is durable up to
//! an end in the manifest. Log since the last flush is flushed if it is long; otherwise the next
//! open replays it, so that many short sessions share one log file and one flush. A session that
//! does not reach its close is recovered at the next open ([`crate::open::recovery`]).

use std::io;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::Mutex;
use cleavedb_base::{Error, ErrorKind, FileNumber, Result};
use cleavedb_storage::api::read_exact_at;
use cleavedb_storage::log::{ALLOCATED_MIN, First, PreallocatedLog};
use cleavedb_storage::{
    Access, FileClass, FileKind, Mode, MultiDirStorage, Name, RemoveMode, Storage, Window,
    WindowIdentity,
};
use cleavedb_values::ValueFileEdit;

use crate::background::give_back::WINDOW_MIN;
use crate::background::jobs::removal;
use crate::background::{log_files, log_retention};
use crate::engine::Engine;
use crate::engine::range_deletes::RangeDeletes;
use crate::engine::value_files;
use crate::open::recovery::{is_copy, last_log, number_of_copy};
use crate::operations::commit::Append;
use crate::operations::encoded_op::EncodedOp;
use crate::operations::ops::Ops;
use crate::settings::options::Durability;
use crate::store::manifest::{Edit, LiveFiles, Manifest, Session};
use crate::writes::dictionaries;
use crate::writes::room::SEQS_RESERVED;
use crate::writes::write::{self, Terms};

/// Most log that a close leaves to the replay of the next open, in bytes: a few milliseconds. Less
/// if MemTables are small.
const REPLAYED_MAX: u64 = 1 << 20;

/// The log at the beginning of a session.
struct BegunLog {
    first: First,
    number: FileNumber,
    edit: ValueFileEdit,
}

/// Begins the session, unless it has begun. After a failure nothing has changed.
pub(crate) fn begin_session(engine: &Engine) -> Result<()> {
    let mut append = engine.commit.append();
    if append.appender.is_begun() {
        return Ok(());
    }
    engine.check_open()?;
    let mut manifest = engine.manifest.lock();
    let is_copy = notice_copy(engine, &mut manifest);
    engine.space().note_bytes(&manifest);
    engine.space().keep_reserve();
    if engine.storage.volumes().next().is_some() {
        manifest.begin_anew();
    }
    let number = manifest.take_number();
    let identity = WindowIdentity { database_id: engine.database_id, number };
    let capacity = engine.options.window();
    let len = WINDOW_MIN.min(capacity);
    let position = append.appender.next();
    let made = Window::create(&*engine.storage, identity, position, len, capacity);
    let window =
        made.map_err(|e| Error::io("make the log window", e).with("file", "window").with_remedy())?;
    let began = begin_log(engine, &mut append, &mut manifest, window, number, is_copy);
    if began.is_err() && engine.poison.check().is_ok() {
        let _ = engine.storage.remove(&Name::fixed(FileKind::Window), RemoveMode::Immediate);
    }
    began?;
    engine.counters.sessions.add(1);
    engine.jobs.lone_files.flushed(&manifest.live().value_files, &[], 0);
    // The last process may have died before the edit that drops them.
    value_files::drop_dead_files(engine, &mut manifest)?;
    log_retention::enforce(engine, &mut manifest).map(drop)
}

/// Whether the directory of the database differs from that of its last session; then its files get
/// numbers that the original will not use, so that no file of one is taken for the other's, and it
/// makes a reserve of its own.
fn notice_copy(engine: &Engine, manifest: &mut Manifest) -> bool {
    let is_copy = is_copy(&*engine.storage, manifest.live());
    if is_copy {
        // From the numbers on the disk: a repeated attempt gets the same number.
        manifest.become_a_copy(number_of_copy(manifest.live().next_file, engine.salt));
        engine.full.reserve.give_up();
    }
    is_copy
}

/// Makes the edit that says where the log continues, and begins it there.
fn begin_log(
    engine: &Engine,
    append: &mut Append,
    manifest: &mut Manifest,
    window: Window,
    window_number: FileNumber,
    is_copy: bool,
) -> Result<()> {
    let access = engine.options.log_access(window.survives());
    let resumed = match is_copy || engine.begins_to_tell(manifest.live()) {
        true => None,
        false => resumed_log(engine, append, manifest, access)?,
    };
    let BegunLog { first, number, edit } = match resumed {
        Some(begun) => begun,
        None => new_log(engine, manifest, access)?,
    };
    let (base, is_new) = match &first {
        First::New(_) => (append.appender.next().next_multiple_of(BLOCK as u64), true),
        First::Resumed { base, .. } => (*base, false),
    };
    // Before the edit: if it cannot be opened, nothing has changed.
    let segment = engine.open_segment(FileKind::Log, number, Some(base));
    let begun = segment.and_then(|segment| {
        say_begun(engine, append, manifest, &window, window_number, number, edit)?;
        Ok(segment)
    });
    if begun.is_err() && is_new && engine.poison.check().is_ok() {
        engine.discard(FileKind::Log, &[number]);
    }
    let segment = begun?;
    let drain = engine.options.write_back_of(window.capacity());
    engine.commit.log.begin(&mut append.appender, window, drain, first);
    engine.commit.log.set_file_len(engine.space().log_file_bytes());
    let file = append.appender.file().clone();
    debug_assert_eq!(file.base, base);
    if manifest.live().value_files.get(number).is_some_and(|facts| facts.live > 0) {
        // A reader of the file from its start needs all of it: flushes continue to sync it.
        append.memtable.has_long_in(number);
    }
    engine.jobs.log_files.lock().push((number, file));
    engine.state.swap(|state| {
        state.with_segments(state.segments.with(std::slice::from_ref(&segment), &[]))
    });
    engine.log_goes_on(number, base, append.last_seq() + 1, None);
    Ok(())
}

fn say_begun(
    engine: &Engine,
    append: &Append,
    manifest: &mut Manifest,
    window: &Window,
    window_number: FileNumber,
    log: FileNumber,
    edit: ValueFileEdit,
) -> Result<()> {
    engine.sync_dir()?;
    let last_seq = append.last_seq();
    let seq_limit = last_seq + SEQS_RESERVED;
    let session = Session {
        window: window.survives().then_some(window_number),
        boot_id: engine.storage.boot_id(),
        last_seq,
    };
    let value_files = match edit {
        ValueFileEdit::Resume(_) if planted(Bug::ResumedWithoutEdit) => Vec::new(),
        edit => vec![edit],
    };
    let edit = Edit {
        value_files,
        next_file: Some(manifest.numbers_reserved()),
        seq_limit: Some(seq_limit),
        session: Some(Some(session)),
        directory_id: Some(engine.storage.directory_id()),
        // The limit of the options at the open.
        space_limit: Some(engine.options.space_limit.unwrap_or_default()),
        changes: manifest.live().changes.at_session(&engine.options, last_seq + 1, log),
        ..Edit::default()
    };
    engine.commit_edit(manifest, &edit)?;
    engine.jobs.set_seq_limit(seq_limit);
    Ok(())
}

/// The last log file, if the log can continue in it: it ends where the log does, has room, holds
/// nothing behind its end, and has no other name.
fn resumed_log(
    engine: &Engine,
    append: &Append,
    manifest: &Manifest,
    access: Access,
) -> Result<Option<BegunLog>> {
    let position = append.appender.next();
    let Some((number, facts)) = last_log(manifest.live(), position) else { return Ok(None) };
    let (base, end) = (facts.base, position - facts.base);
    if end > engine.space().log_file_bytes() / 4 * 3 {
        return Ok(None);
    }
    let name = Name::numbered(FileKind::Log, number);
    let failed = |e| Error::io("open the last log file", e).with("file", name);
    let file = engine.storage.open(&name, Mode::ReadWrite, access).map_err(failed)?;
    let allocated = file.len().map_err(failed)?;
    let padded = end.next_multiple_of(file.alignment().max(512) as u64);
    if allocated > padded || file.is_copied().map_err(failed)? {
        return Ok(None);
    }
    let file_ends_here =
        end == allocated || is_blank_behind(&engine.storage, name, end).map_err(failed)?;
    if !file_ends_here && !planted(Bug::ResumedBehindTorn) {
        return Ok(None);
    }
    let first = First::Resumed { next_log: PreallocatedLog { number, file, allocated }, base, end };
    Ok(Some(BegunLog { first, number, edit: ValueFileEdit::Resume(number) }))
}

/// Whether a log file has only zeros behind `end`. The rest of a torn batch would be read as a part
/// of the log that continues behind it.
fn is_blank_behind(storage: &MultiDirStorage, name: Name, end: u64) -> io::Result<bool> {
    let file = storage.open(&name, Mode::Read, Access::Sequential)?;
    let mut behind = vec![0; file.len()?.saturating_sub(end) as usize];
    read_exact_at(&*file, &mut behind, end)?;
    Ok(behind.iter().all(|byte| *byte == 0))
}

fn new_log(engine: &Engine, manifest: &mut Manifest, access: Access) -> Result<BegunLog> {
    let number = manifest.take_number();
    let name = Name::numbered(FileKind::Log, number);
    let failed = |e| Error::io("create the log", e).with("file", name).with_remedy();
    let file = engine.storage.create(FileClass::Log, number, access).map_err(failed)?;
    let allocated = ALLOCATED_MIN.min(engine.options.tuning.log_file_bytes);
    let allocated = engine.full.allocate_log(&*file, allocated).map_err(|e| {
        engine.discard(FileKind::Log, &[number]);
        engine.with_volume(failed(e))
    })?;
    let first = First::New(PreallocatedLog { number, file, allocated });
    Ok(BegunLog { first, number, edit: ValueFileEdit::Add(number, FileKind::Log) })
}

/// Ends the log file in use if tables point into it and all of it is flushed, so that a forced
/// collection can collect it.
pub(crate) fn end_log_file(engine: &Engine) -> Result<()> {
    let mut append = engine.commit.append();
    let number = append.appender.file().number;
    let live = engine.manifest.lock().live().value_files.get(number).map_or(0, |facts| facts.live);
    // A commit with a place in the log may not be in its MemTable yet.
    let inserted =
        engine.commit.visible() >= append.last_seq() || planted(Bug::LogEndsUnderWriters);
    if live == 0 || !inserted || !engine.state.load().has_nothing_to_flush() {
        return Ok(());
    }
    log_files::rotate_log(engine, &mut append)?;
    let mut manifest = engine.manifest.lock();
    let mut edit = Edit::default();
    value_files::advance_head(engine, manifest.live(), append.appender.end(), &mut edit);
    engine.commit_edit(&mut manifest, &edit)
}

/// Most commits that a close makes to remove records of range tombstones that were forgotten.
const TIDYING_MAX: usize = 2048;

/// Removes records of forgotten range tombstones, so that the next open does not read them, and
/// dictionaries that nothing needs. What cannot be done without waiting is left for later.
pub(crate) fn remove_forgotten(engine: &Engine) {
    let is_busy = || {
        let waits = engine.state.load().waiting() > 0 || !engine.throttle.is_idle();
        engine.space().is_disk_full() || waits
    };
    if !is_busy() {
        let _ = dictionaries::forget(engine);
    }
    for _ in 0..TIDYING_MAX {
        let mut ranges = RangeDeletes::new(engine);
        if is_busy() || !ranges.remove_some() {
            return;
        }
        let ops: Vec<EncodedOp<'_>> = ranges.removals().collect();
        let bytes = ops.iter().map(EncodedOp::len).sum();
        if write::write(engine, Ops::Few(&ops), bytes, Durability::Buffered, Terms::default())
            .is_err()
        {
            return;
        }
        drop(ops);
        ranges.done();
    }
}

/// Whether a close may leave the log since the last flush to replay, since it is short and hides no
/// lone file.
pub(crate) fn leaves_to_replay(engine: &Engine) -> bool {
    let append = engine.commit.append();
    let since = append.appender.end().saturating_sub(append.memtable.start);
    engine.state.load().waiting() == 0
        && !append.memtable.lone.hides()
        && since <= REPLAYED_MAX.min(engine.options.log_bytes_per_memtable_max() / 4)
}

/// What becomes of the log files of a session when it ends.
pub(crate) struct LeftLog {
    pub(crate) value_files: Vec<ValueFileEdit>,
    /// The files that go.
    gone: Vec<(FileNumber, FileKind)>,
}

/// The log at rest, under the locks of the log and of the manifest, whose content is `live`: its
/// files get their lengths, and those go that nothing needs, such as the one made ahead.
pub(crate) fn log_at_rest(
    engine: &Engine,
    append: &Append,
    live: &LiveFiles,
    made_ahead: Option<FileNumber>,
) -> LeftLog {
    let nothing_to_flush = engine.state.load().has_nothing_to_flush();
    let end = append.appender.end();
    let mut rest = LeftLog { value_files: Vec::new(), gone: Vec::new() };
    let is_pointed_to = |number| live.value_files.get(number).is_some_and(|facts| facts.live > 0);
    let last = is_pointed_to(append.appender.file().number);
    // In a copy none are kept.
    let keeps = live.changes.are_kept();
    for (number, file) in engine.jobs.log_files.lock().iter() {
        // The last one may be empty, behind one with data, because a write was refused.
        let needed = (is_pointed_to(*number) || keeps) && !planted(Bug::CloseForgetsALog);
        let goes = nothing_to_flush && !last && !needed;
        rest.gone.extend(goes.then_some((*number, FileKind::Log)));
        rest.value_files.push(match goes {
            true => ValueFileEdit::Remove(*number),
            false => ValueFileEdit::Seal(*number, file.base, file.end().unwrap_or(end) - file.base),
        });
    }
    rest.value_files.extend(made_ahead.map(ValueFileEdit::Remove));
    rest
}

/// Ends the session, once no job runs: the log is durable, the manifest has its end, and reserved
/// space is freed.
pub(crate) fn end_session(engine: &Engine) -> Result<()> {
    engine.poison.check()?;
    let number = engine.commit.append().appender.file().number;
    let is_needed = engine.tells() || is_pointed_to(&engine.manifest, number);
    let goes = engine.state.load().has_nothing_to_flush() && !is_needed;
    if !goes {
        make_log_whole(engine)?;
    }
    let mut append = engine.commit.append();
    if !goes {
        engine.commit.log.give_back(&mut append.appender)?;
    }
    let next_log = engine.preallocated_log.lock().take().map(|next_log| next_log.number);
    let mut manifest = engine.manifest.lock();
    let LeftLog { value_files, gone } = log_at_rest(engine, &append, manifest.live(), next_log);
    engine.jobs.log_files.lock().clear();
    manifest.forget_what_went();
    let edit = Edit {
        value_files,
        next_file: Some(manifest.next_number()),
        seq_limit: Some(append.last_seq() + 1),
        session: Some(None),
        totals: Some(engine.totals(&manifest)),
        ..Edit::default()
    };
    engine.commit_edit(&mut manifest, &edit)?;
    // The log may be removed now, and the reserve is cut accordingly.
    engine.space().note_bytes(&manifest);
    let live = manifest.live().clone();
    drop((manifest, append));
    // From here on a file that cannot be removed is an orphan, which the next open removes.
    let _ = engine.storage.remove(&Name::fixed(FileKind::Window), RemoveMode::Immediate);
    engine.discard(FileKind::Log, next_log.as_slice());
    if goes {
        value_files::retire_segments(engine, &live, &gone);
        removal::purge(engine);
    }
    engine.space().cut_reserve();
    Ok(())
}

/// Whether tables point into log file `number`.
fn is_pointed_to(manifest: &Mutex<Manifest>, number: FileNumber) -> bool {
    manifest.lock().live().value_files.get(number).is_some_and(|facts| facts.live > 0)
}

/// Makes the log durable to its end.
fn make_log_whole(engine: &Engine) -> Result<()> {
    if planted(Bug::ClosedBeforeSync) {
        return Ok(());
    }
    engine.options.log().end_at_close(|| engine.commit.sync(), || engine.commit.end_log())
}

/// A full disk does not prevent a close: operations that were not flushed stay in the log.
pub(crate) fn unless_full(flushed: Result<()>) -> Result<()> {
    flushed.or_else(|e| if e.kind() == ErrorKind::NoSpace { Ok(()) } else { Err(e) })
}
