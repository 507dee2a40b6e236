//! A session: the time in which a database is written to, from the first write after an open to
//! the close.
//!
//! An open writes nothing, so that looking costs nothing. The first write begins the session: it
//! makes the window, goes on with the last log file or makes a new one, and says both by one edit,
//! before any record is written. The close leaves a log that is durable up to an end that the
//! manifest knows, and no window. What is in the log since the last flush is flushed if it is much;
//! else the next open replays it, so that many short sessions share one log file and one flush. A
//! session that does not get to its close is recovered at the next open ([`crate::recovery`]).

use std::io;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{Error, ErrorKind, FileNumber, Result};
use cleavedb_storage::api::read_exact_at;
use cleavedb_storage::log::{ALLOCATED_MIN, First, SpareLog};
use cleavedb_storage::{
    Access, FileClass, FileKind, Mode, Name, Pace, Storage, Window, WindowIdentity,
};
use cleavedb_values::LedgerEdit;

use crate::commit::Append;
use crate::engine::Engine;
use crate::manifest::{Edit, Manifest, Session};
use crate::recovery::{is_copy, last_log, number_of_copy};
use crate::rooms::SEQS_RESERVED;
use crate::stats::since_open;

/// Most log that a close leaves to the replay of the next open, in bytes: a few milliseconds. Less
/// if MemTables are small.
const REPLAYED_MAX: u64 = 1 << 20;

/// Length of a new window, in bytes.
const WINDOW_MIN: usize = 64 << 10;

/// The log of a session that begins.
struct Begun {
    first: First,
    number: FileNumber,
    edit: LedgerEdit,
}

impl Engine {
    /// Begins the session, unless it was begun. After a failure nothing has changed.
    pub(crate) fn begin_session(&self) -> Result<()> {
        let mut append = self.commit.append();
        if append.appender.is_begun() {
            return Ok(());
        }
        self.check_open()?;
        let mut manifest = self.manifest.lock();
        let is_copy = self.notice_copy(&mut manifest);
        self.note_bytes(&manifest);
        self.keep_reserve();
        if self.storage.volumes().next().is_some() {
            manifest.begin_anew();
        }
        let number = manifest.take_number();
        let identity = WindowIdentity { database_id: self.database_id, number };
        let capacity = self.options.window();
        let len = WINDOW_MIN.min(capacity);
        let position = append.appender.next();
        let made = Window::create(&*self.storage, identity, position, (len, capacity));
        let window = made.map_err(|e| {
            Error::io("make the log window", e).with("file", "window").with_remedy()
        })?;
        let began = self.begin_log(&mut append, &mut manifest, (window, number), is_copy);
        if began.is_err() && self.poison.check().is_ok() {
            let _ = self.storage.remove(&Name::fixed(FileKind::Window), Pace::Swift);
        }
        began?;
        // The edit that drops them may have been next when the last process died.
        self.drop_dead_files(&mut manifest)
    }

    /// Whether the database lies in another directory than at its last session; then its files get
    /// numbers that the original will not use, so that no file of one passes for the other's.
    fn notice_copy(&self, manifest: &mut Manifest) -> bool {
        let is_copy = is_copy(&*self.storage, manifest.live());
        if is_copy {
            // By what the disk knows: a session that is tried again goes no further.
            manifest.become_a_copy(number_of_copy(manifest.live().next_file, self.salt));
        }
        is_copy
    }

    /// Makes the edit that says where the log goes on, and begins it there.
    fn begin_log(
        &self,
        append: &mut Append,
        manifest: &mut Manifest,
        (window, window_number): (Window, FileNumber),
        is_copy: bool,
    ) -> Result<()> {
        let access = self.options.log_access(window.survives());
        let resumed = match is_copy {
            true => None,
            false => self.resumed_log(append, manifest, access)?,
        };
        let Begun { first, number, edit } = match resumed {
            Some(begun) => begun,
            None => self.new_log(manifest, access)?,
        };
        let (base, is_new) = match &first {
            First::New(_) => (append.appender.next().next_multiple_of(BLOCK as u64), true),
            First::Resumed { base, .. } => (*base, false),
        };
        // Before the edit: if it cannot be opened, nothing has changed.
        let segment = self.open_segment(FileKind::Log, number, Some(base));
        let begun = segment.and_then(|segment| {
            self.say_begun(append, manifest, (&window, window_number), edit)?;
            Ok(segment)
        });
        if begun.is_err() && is_new && self.poison.check().is_ok() {
            self.discard(FileKind::Log, &[number]);
        }
        let segment = begun?;
        let drain = self.options.drain_of(window.capacity());
        self.commit.log.begin(&mut append.appender, window, drain, first);
        self.commit.log.set_file_len(self.log_file_bytes());
        let file = append.appender.file().clone();
        debug_assert_eq!(file.base, base);
        if manifest.live().ledger.get(number).is_some_and(|facts| facts.live > 0) {
            // Who reads it from its start needs all of it: flushes go on to sync it.
            append.memtable.has_long_in(number);
        }
        self.jobs.log_files.lock().push((number, file));
        self.state.swap(|state| {
            state.with_segments(state.segments.with(std::slice::from_ref(&segment), &[]))
        });
        Ok(())
    }

    fn say_begun(
        &self,
        append: &Append,
        manifest: &mut Manifest,
        (window, number): (&Window, FileNumber),
        edit: LedgerEdit,
    ) -> Result<()> {
        self.sync_dir()?;
        let last_seq = append.last_seq();
        let seq_limit = last_seq + SEQS_RESERVED;
        let session = Session {
            window: window.survives().then_some(number),
            boot_id: self.storage.boot_id(),
            last_seq,
        };
        let ledger = match edit {
            LedgerEdit::Resume(_) if planted(Bug::ResumedWithoutEdit) => Vec::new(),
            edit => vec![edit],
        };
        let edit = Edit {
            ledger,
            next_file: Some(manifest.numbers_reserved()),
            seq_limit: Some(seq_limit),
            session: Some(Some(session)),
            directory_id: Some(self.storage.directory_id()),
            // What was asked for at the open.
            space_limit: Some(self.options.space_limit.unwrap_or_default()),
            ..Edit::default()
        };
        self.commit_edit(manifest, &edit)?;
        self.jobs.set_seq_limit(seq_limit);
        Ok(())
    }

    /// The last log file, if the log can go on in it: it ends where the log does, it has room,
    /// nothing is left behind its end, and it has no other name.
    fn resumed_log(
        &self,
        append: &Append,
        manifest: &Manifest,
        access: Access,
    ) -> Result<Option<Begun>> {
        let position = append.appender.next();
        let Some((number, facts)) = last_log(manifest.live(), position) else { return Ok(None) };
        let (base, end) = (facts.base, position - facts.base);
        if end > self.log_file_bytes() / 4 * 3 {
            return Ok(None);
        }
        let name = Name::numbered(FileKind::Log, number);
        let failed = |e| Error::io("open the last log file", e).with("file", name);
        let file = self.storage.open(&name, Mode::ReadWrite, access).map_err(failed)?;
        let allocated = file.len().map_err(failed)?;
        let padded = end.next_multiple_of(file.alignment().max(512) as u64);
        if allocated > padded || file.is_copied().map_err(failed)? {
            return Ok(None);
        }
        let file_ends_here = end == allocated || self.is_blank_behind(name, end).map_err(failed)?;
        if !file_ends_here && !planted(Bug::ResumedBehindTorn) {
            return Ok(None);
        }
        let first = First::Resumed { spare: SpareLog { number, file, allocated }, base, end };
        Ok(Some(Begun { first, number, edit: LedgerEdit::Resume(number) }))
    }

    /// Whether only zeros stand behind `end` in a log file. The rest of a batch that a crash has
    /// torn would be read as a part of the log that goes on behind it.
    fn is_blank_behind(&self, name: Name, end: u64) -> io::Result<bool> {
        let file = self.storage.open(&name, Mode::Read, Access::Sequential)?;
        let mut behind = vec![0; file.len()?.saturating_sub(end) as usize];
        read_exact_at(&*file, &mut behind, end)?;
        Ok(behind.iter().all(|byte| *byte == 0))
    }

    fn new_log(&self, manifest: &mut Manifest, access: Access) -> Result<Begun> {
        let number = manifest.take_number();
        let name = Name::numbered(FileKind::Log, number);
        let failed = |e| Error::io("create the log", e).with("file", name).with_remedy();
        let file = self.storage.create(FileClass::Log, number, access).map_err(failed)?;
        let allocated = ALLOCATED_MIN.min(self.options.log_file_bytes);
        let allocated = self.full.allocate_log(&*file, allocated).map_err(|e| {
            self.discard(FileKind::Log, &[number]);
            self.with_volume(failed(e))
        })?;
        let first = First::New(SpareLog { number, file, allocated });
        Ok(Begun { first, number, edit: LedgerEdit::Add(number, FileKind::Log) })
    }

    /// Ends the log file in use if tables point into it and all of it is flushed, so that it can be
    /// collected: for who asks for a collection of all.
    pub(crate) fn end_log_file(&self) -> Result<()> {
        let mut append = self.commit.append();
        let number = append.appender.file().number;
        let live = self.manifest.lock().live().ledger.get(number).map_or(0, |facts| facts.live);
        // A commit that has its place in the log may not be in its MemTable yet.
        let inserted =
            self.commit.visible() >= append.last_seq() || planted(Bug::LogEndsUnderWriters);
        if live == 0 || !inserted || !self.has_nothing_to_flush() {
            return Ok(());
        }
        self.rotate_log(&mut append)?;
        let mut manifest = self.manifest.lock();
        let mut edit = Edit::default();
        self.advance_head(manifest.live(), append.appender.end(), &mut edit);
        self.commit_edit(&mut manifest, &edit)
    }

    /// Whether so little was written since the last flush that a close may leave it to the log.
    pub(crate) fn leaves_to_replay(&self) -> bool {
        let append = self.commit.append();
        let since = append.appender.end().saturating_sub(append.memtable.start);
        self.state.load().waiting() == 0
            && since <= REPLAYED_MAX.min(self.options.covered_max() / 4)
    }

    /// Ends the session, once no job runs: the log is durable, the manifest says where it ends, and
    /// what was reserved is given back.
    pub(crate) fn end_session(&self) -> Result<()> {
        self.poison.check()?;
        let number = self.commit.append().appender.file().number;
        let goes = self.has_nothing_to_flush() && !self.is_pointed_to(number);
        if !goes {
            self.make_log_whole()?;
        }
        let append = self.commit.append();
        if !goes {
            self.commit.log.give_back(&append.appender)?;
        }
        let end = append.appender.end();
        let (mut ledger, mut gone) = (Vec::new(), Vec::new());
        for (number, file) in self.jobs.log_files.lock().drain(..) {
            // The last one may be empty behind one that is not, for a write that was refused.
            let forgets = planted(Bug::CloseForgetsALog);
            let goes = goes && (!self.is_pointed_to(number) || forgets);
            gone.extend(goes.then_some((number, FileKind::Log)));
            ledger.push(match goes {
                true => LedgerEdit::Remove(number),
                false => LedgerEdit::Seal(number, file.base, file.end().unwrap_or(end) - file.base),
            });
        }
        let spare = self.spare_log.lock().take().map(|spare| spare.number);
        ledger.extend(spare.map(LedgerEdit::Remove));
        let mut manifest = self.manifest.lock();
        manifest.forget_what_went();
        let edit = Edit {
            ledger,
            next_file: Some(manifest.next_number()),
            seq_limit: Some(append.last_seq() + 1),
            session: Some(None),
            totals: Some(manifest.live().totals.then(since_open(self, manifest.written()))),
            ..Edit::default()
        };
        self.commit_edit(&mut manifest, &edit)?;
        // The log may be gone now, and the reserve is cut to what is left.
        self.note_bytes(&manifest);
        drop((manifest, append));
        // From here on what cannot be removed is an orphan, which the next open removes.
        let _ = self.storage.remove(&Name::fixed(FileKind::Window), Pace::Swift);
        self.discard(FileKind::Log, spare.as_slice());
        if goes {
            self.retire_segments(&gone);
            self.reap();
        }
        self.cut_reserve();
        Ok(())
    }

    /// Whether tables point into log file `number`.
    fn is_pointed_to(&self, number: FileNumber) -> bool {
        self.manifest.lock().live().ledger.get(number).is_some_and(|facts| facts.live > 0)
    }

    /// Makes the log durable to its end.
    fn make_log_whole(&self) -> Result<()> {
        if planted(Bug::ClosedBeforeSync) {
            return Ok(());
        }
        self.options.log().end_at_close(|| self.commit.sync(), || self.commit.end_log())
    }
}

/// That a disk is full keeps nobody from a close: the log keeps what was not flushed.
pub(crate) fn unless_full(flushed: Result<()>) -> Result<()> {
    flushed.or_else(|e| if e.kind() == ErrorKind::NoSpace { Ok(()) } else { Err(e) })
}
