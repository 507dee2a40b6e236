//! Room for a commit: the MemTable, the log file and the sequence numbers that it will use.
//!
//! Everything here runs under the append lock. What takes time, a new log file or the flush of a
//! full MemTable, was prepared by a job in the ordinary case.

use std::sync::Arc;
use std::time::Instant;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::atomic::Ordering;
use cleavedb_base::sync::swap::Guard;
use cleavedb_base::{Error, ErrorKind, Result, SeqNo};
use cleavedb_storage::FileKind;
use cleavedb_storage::log::FileHeader;

use crate::commit::{Append, Prepared, Rooms, need};
use crate::engine::Engine;
use crate::failures::JobKind;
use crate::limit::{Limit, Need};
use crate::manifest::Edit;
use crate::metrics::StallCause;
use crate::state::ReadState;

/// Sequence numbers that one edit reserves.
pub(crate) const SEQS_RESERVED: SeqNo = 1 << 30;

/// Fewest reserved numbers that a commit leaves: before it leaves fewer, more are asked for.
const SEQS_LOW: SeqNo = 1 << 22;

impl Rooms for Engine {
    fn make_room(&self, append: &mut Append, ops: &[Prepared<'_>], len: u64) -> Result<bool> {
        self.check_open()?;
        self.check_disk(ops)?;
        let outgrows_file = len > self.options.log_file_bytes;
        let growth = self.commit.log.growth(&append.appender, len);
        if let Some(longer) = growth.filter(|_| !self.full.is_short()) {
            self.commit.grow_window(append, &*self.storage, longer)?;
        }
        let refused = |_: &&Limit| outgrows_file && self.refuses_long(len);
        if let Some(limit) = self.limit.as_ref().filter(refused) {
            return Err(self.exhausted(limit));
        }
        if self.memtable_full(append) {
            let crowded = self.state.load().waiting() >= self.options.memtables_max;
            match crowded {
                false => self.rotate_memtable(append),
                true if self.squeezes_in(append, ops) => {}
                true => return Ok(false),
            }
        }
        let long = self.have_long(ops, len);
        let apart = long && self.needs_file_for_long(append);
        if apart || self.commit.log.needs_file(&append.appender, len) {
            // However many writers came so far before the limit was reached.
            if self.is_stopped_by_limit(ops) {
                return Ok(false);
            }
            self.rotate_log(append).map_err(|e| self.no_room_for_log(ops, e))?;
        }
        if self.allocate(append, ops, len).map_err(|e| self.no_room_for_log(ops, e))? {
            self.keep_reserve();
            // The next log file may be due.
            self.jobs.kick();
        }
        if outgrows_file && self.limit.is_some() {
            append.memtable.long_bytes.fetch_add(len, Ordering::Relaxed);
        }
        if long {
            append.memtable.has_long_in(append.appender.file().number);
        }
        self.reserve_seqs(append.last_seq() + ops.len() as u64)?;
        Ok(true)
    }

    #[inline]
    fn picture(&self) -> Guard<Arc<ReadState>> {
        self.state.load()
    }

    fn wait_for_room(&self, ops: &[Prepared<'_>]) -> Result<()> {
        if let Some(limit) = self.limit.as_ref().filter(|_| self.is_stopped_by_limit(ops)) {
            self.update_pressure();
            return self.find_space(limit, need(ops));
        }
        let start = Instant::now();
        let has_room = || self.state.load().waiting() < self.options.memtables_max;
        self.wait_or_work(has_room, || Some(JobKind::Flush))?;
        self.counters.stalled(StallCause::Flush, start.elapsed());
        Ok(())
    }
}

impl Engine {
    /// Whether the space limit is reached for these.
    fn is_stopped_by_limit(&self, ops: &[Prepared<'_>]) -> bool {
        self.limit.as_ref().is_some_and(|limit| limit.is_reached(need(ops)))
    }

    fn memtable_full(&self, append: &Append) -> bool {
        let covered = append.appender.next() - append.memtable.start;
        let covered_max = self.options.covered_max().min(self.throttle.covered_max());
        !append.memtable.table.is_empty()
            && (append.memtable.table.memory() >= self.options.memtable() || covered >= covered_max)
    }

    /// Reserves log space for `len` bytes; for deletes the reserve has some on a full disk.
    fn allocate(&self, append: &mut Append, ops: &[Prepared<'_>], len: u64) -> Result<bool> {
        loop {
            let allocated = self.commit.log.allocate(&mut append.appender, len);
            let full = allocated.as_ref().is_err_and(|e| e.kind() == ErrorKind::NoSpace);
            if !full || self.limit.is_some() {
                return allocated;
            }
            // What no reader holds any more goes first.
            if !self.reap() && !self.full.lends(need(ops), len) {
                return allocated;
            }
        }
    }

    /// Whether deletes go to a full MemTable although no other may be begun: on a full disk, where
    /// flushes may wait for what they will free.
    fn squeezes_in(&self, append: &Append, ops: &[Prepared<'_>]) -> bool {
        let most = self.options.memtable().saturating_mul(2);
        self.is_full() && need(ops) == Need::Deletes && append.memtable.table.memory() < most
    }

    /// Whether tables will point to a long value of these, where they do not point into the log
    /// otherwise.
    fn have_long(&self, ops: &[Prepared<'_>], len: u64) -> bool {
        self.options.log().keeps_long_value(&self.options, len)
            && ops.iter().any(Prepared::is_separated)
    }

    /// Whether a long value must not go to the log file in use: a flush that did not sync it may
    /// have covered its front. After a crash that would be missing to who reads it from its start.
    fn needs_file_for_long(&self, append: &Append) -> bool {
        let file = append.appender.file();
        let begun_before = append.memtable.start > file.base + FileHeader::RECORD_LEN as u64;
        begun_before
            && !append.memtable.is_long_in(file.number)
            && !planted(Bug::LongBehindUnsynced)
    }

    /// Seals the MemTable and puts an empty one in its place. Commits in flight still insert into
    /// the old one; its flush waits for them.
    pub(crate) fn rotate_memtable(&self, append: &mut Append) {
        // The end of the last record, not of the padding behind it: a log file that ends here ends
        // where replay begins, whether or not a mark follows.
        let position = append.appender.end();
        append.memtable.seal(position, append.last_seq());
        let (memory, written) = (self.options.memtable(), self.counters.user_bytes.get());
        let slot = append.memtable.next(memory, position, written, &self.memtable_pages);
        let slot = Arc::new(slot);
        let file = append.appender.file().number;
        if append.memtable.is_long_in(file) && !planted(Bug::LogBehindLongUnsynced) {
            slot.has_long_in(file);
        }
        append.memtable = slot.clone();
        self.state.swap(|state| state.with_memtable(slot.clone()));
        self.throttle.fills_last(|| self.state.load().waiting() >= self.options.memtables_max);
        self.commit.log.rouse();
        self.jobs.kick();
    }

    pub(crate) fn rotate_log(&self, append: &mut Append) -> Result<()> {
        // Locked throughout: of two files created at once the higher number might be used first,
        // and replay goes by number.
        let mut ahead = self.spare_log.lock();
        let spare = match ahead.take() {
            Some(spare) => spare,
            None => self.create_spare()?,
        };
        let number = spare.number;
        let base = append.appender.next().next_multiple_of(BLOCK as u64);
        // Before the file is begun: if it cannot be opened, it stays the next one.
        let segment = match self.open_segment(FileKind::Log, number, Some(base)) {
            Ok(segment) => segment,
            Err(e) => {
                *ahead = Some(spare);
                return Err(e);
            }
        };
        drop(ahead);
        self.commit.log.set_file_len(self.log_file_bytes());
        let file =
            self.commit.log.rotate(&mut append.appender, spare).map_err(|e| self.poison.set(e))?;
        debug_assert_eq!(file.base, base);
        self.state.swap(|state| {
            state.with_segments(state.segments.with(std::slice::from_ref(&segment), &[]))
        });
        self.log_file_begun();
        self.keep_reserve();
        self.jobs.log_files.lock().push((number, file));
        self.jobs.kick();
        Ok(())
    }

    fn reserve_seqs(&self, last: SeqNo) -> Result<()> {
        if last + SEQS_LOW < self.jobs.seq_limit() {
            return Ok(());
        }
        if last > cleavedb_base::limits::SEQ_MAX - 2 * SEQS_RESERVED {
            let message = "sequence numbers are used up; export the data and import it anew";
            return Err(Error::new(ErrorKind::NoSpace, message));
        }
        let limit = last + SEQS_RESERVED;
        let mut manifest = self.manifest.lock();
        self.commit_edit(&mut manifest, &Edit { seq_limit: Some(limit), ..Edit::default() })?;
        self.jobs.set_seq_limit(limit);
        Ok(())
    }
}
