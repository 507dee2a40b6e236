//! The drain: writes the log from the window to its files and syncs them, or skips released log.
//!
//! Filled bytes are drained in large aligned writes, by a thread of their own or, when the window
//! is full, by the writer that needs room. Where a flush releases the log the drain is lazy: it
//! waits until the window is nearly full, and skips released ranges. The file has a hole there,
//! below the replay head, which is never read
//! (`docs/decisions/0026-a-flush-reads-its-log-in-the-window.md`).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::atomic::Ordering;
use cleavedb_base::sync::thread;
use cleavedb_base::{Error, ErrorKind, FileNumber, Result};

use super::{Appender, Log, LogFile};
use crate::api::write_all_at;
use crate::log::frame::FileHeader;
use crate::window_header::Watermark;

/// Most bytes of one write of the drain: large enough for the device's full speed, small enough
/// that the window never waits long for one write.
const DRAIN_LEN: usize = 1 << 20;

/// Reserved space behind the end of a file is freed if it is longer than a file's length divided by
/// this.
const TAILS: u64 = 16;

/// Most bytes of the window that a lazy drain keeps free for writers.
const LAZY_ROOM: u64 = 4 * DRAIN_LEN as u64;

/// How far ahead of the filled position the window is touched, and how much at once, in bytes.
const TOUCHED_AHEAD: u64 = 16 << 20;
const TOUCHED_AT_ONCE: u64 = 1 << 20;

impl Log {
    /// Whether the drain thread is mostly idle.
    pub fn writes_back_on_pressure(&self) -> bool {
        self.writes_back_on_pressure.load(Ordering::Relaxed)
    }

    /// Has the system back the window with memory ahead of the writers, which would fault at each
    /// page. Called by the drain thread when it is mostly idle. Returns whether there was any to
    /// do.
    pub fn touch_ahead(&self) -> bool {
        if self.touches_from().is_none_or(|position| self.buffer.written_upto() < position) {
            return false;
        }
        let _not_shrunk = self.touching.lock();
        let touched = self.touched.load(Ordering::Relaxed);
        let first = self.first.load(Ordering::Relaxed);
        // The buffer may have got shorter meanwhile, and begin anew.
        let rest = self.buffer.len() - touched;
        match self.buffer.touch(first + touched, rest.min(TOUCHED_AT_ONCE)) {
            Ok(now) => self.touched.store(touched + now, Ordering::Relaxed),
            Err(_) => self.failed.store(true, Ordering::Release),
        }
        true
    }

    /// Log position from which on more of the window is to be touched; `None` if it never is.
    fn touches_from(&self) -> Option<u64> {
        let touched = self.touched.load(Ordering::Relaxed);
        let first = self.first.load(Ordering::Relaxed);
        // The window may grow meanwhile.
        let more =
            self.writes_back_on_pressure() && self.buffer.len() > touched && self.check().is_ok();
        more.then(|| (first + touched + 1).saturating_sub(TOUCHED_AHEAD))
    }

    /// Whether the drain has a full write's worth of work.
    pub fn wants_drain(&self) -> bool {
        self.buffer.written_upto() >= self.drains_from()
    }

    /// Log position from which on the drain has a full write's worth of work.
    fn drains_from(&self) -> u64 {
        let len = self.buffer.len();
        let tolerated = match self.writes_back_on_pressure() {
            false => (DRAIN_LEN as u64).min(len / 2),
            true => len - (len / 8).min(LAZY_ROOM),
        };
        // A concurrent drain may have passed the filled position that was loaded before.
        self.drained.load(Ordering::Relaxed) + tolerated.max(1)
    }

    /// Puts the drain thread to sleep until there is work or a call of [`Log::rouse`]; not at all
    /// if `has_other_work`. Returns whether it slept.
    pub fn rest(&self, has_other_work: impl Fn() -> bool) -> bool {
        let works_from = || {
            let drains = self.drains_from();
            self.touches_from().map_or(drains, |touches| touches.min(drains))
        };
        let has_work = || self.buffer.filled_at_last() >= works_from() || has_other_work();
        self.rest.sleep(works_from(), has_work)
    }

    /// Wakes the drain thread, since there is other work.
    pub fn rouse(&self) {
        self.rest.wake();
    }

    /// Writes one piece of the filled log; `false` if there was nothing to write, or if, once this
    /// caller had the lock, `enough` said of the new floor that no more is needed.
    pub fn drain_step(&self, enough: impl Fn(u64) -> bool) -> Result<bool> {
        let mut files = self.undrained.lock();
        self.check()?;
        files.extend(self.fresh.lock().drain(..));
        self.skip_needless(&mut files);
        if enough(self.buffer.drained_upto()) {
            return Ok(false);
        }
        let drained = self.drained.load(Ordering::Acquire);
        let written_upto = self.buffer.written_upto();
        let Some(file) = files.front().cloned() else { return Ok(false) };
        let limit = self.drain_limit(&file, drained, written_upto);
        if limit > drained {
            let len = (limit - drained).min(DRAIN_LEN as u64) as usize;
            let piece = self.buffer.piece(drained, len);
            // A file with content has its header, which identifies it.
            let passed = file.header_passed.swap(false, Ordering::Relaxed);
            if passed {
                self.write(&file, &self.header_of(&file).encode(), 0)?;
            }
            self.write(&file, piece, drained - file.base)?;
            self.written.fetch_add(piece.len() as u64, Ordering::Relaxed);
            // Between the write and the mark: a sync that sees the mark must find the file listed,
            // and one that took the list before the write must not have taken this entry.
            if !planted(Bug::DrainedBeforeListed) {
                self.unsynced_push(&file);
            }
            let drained = drained + piece.len() as u64;
            self.drained.store(drained, Ordering::Release);
            self.note(Watermark::Drained, drained);
            if planted(Bug::DrainedBeforeListed) {
                self.unsynced_push(&file);
            }
            self.buffer.raise_floor(drained);
        }
        let complete = file.end().is_some_and(|end| {
            self.drained.load(Ordering::Acquire) >= end.next_multiple_of(BLOCK as u64)
        });
        if complete {
            files.pop_front();
            self.cut_tail(&file);
        }
        Ok(limit > drained || complete)
    }

    fn write(&self, file: &LogFile, bytes: &[u8], offset: u64) -> Result<()> {
        write_all_at(&*file.file, bytes, offset).map_err(|e| {
            self.failed.store(true, Ordering::Release);
            Error::lasting("append to the log", e).with("file", file.name()).with("offset", offset)
        })
    }

    /// Frees space reserved beyond the end of a file, if it is much: a long batch may have begun a
    /// new file while most of the one before was unused.
    fn cut_tail(&self, file: &LogFile) {
        let used = self.drained.load(Ordering::Acquire) - file.base;
        if used + self.file_len() / TAILS <= self.file_len() {
            // Space that cannot be freed now is freed with the file.
            let _ = file.file.len().and_then(|len| file.file.truncate(len));
        }
    }

    fn check(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) {
            let message = "an earlier write of the log failed; reopen the database to write again";
            return Err(Error::new(ErrorKind::Poisoned, message));
        }
        Ok(())
    }

    /// How far `file` may be written: to the end of its last block if it has ended (zeros follow
    /// the end), else to a block boundary, or to the smallest unit of the disk if a sync padded to
    /// there.
    fn drain_limit(&self, file: &LogFile, drained: u64, written_upto: u64) -> u64 {
        let block = BLOCK as u64;
        match file.end() {
            Some(end) if end.next_multiple_of(block) <= written_upto => end.next_multiple_of(block),
            _ if written_upto - written_upto % block > drained => {
                written_upto - written_upto % block
            }
            _ => written_upto - written_upto % self.alignment.load(Ordering::Relaxed),
        }
    }

    fn unsynced_push(&self, file: &Arc<LogFile>) {
        let mut unsynced = self.unsynced.lock();
        if unsynced.back().is_none_or(|last| !Arc::ptr_eq(last, file)) {
            unsynced.push_back(file.clone());
        }
    }

    /// Discards the log below `position`, durable or not, which will not be read any more: files
    /// that end there need no sync, and their bytes, if they are still in the page cache when the
    /// file is removed, never reach the device.
    pub fn discard_below(&self, position: u64) {
        let mut unsynced = self.unsynced.lock();
        if planted(Bug::ForgetsTheHead) {
            return unsynced.clear();
        }
        unsynced.retain(|file| file.end().is_none_or(|end| end > position));
    }

    /// Releases `part`, which will not be read or replayed any more: it need not be drained once
    /// everything before it is released too.
    pub fn release_range(&self, part: Range<u64>) {
        self.needless.lock().add(part);
        // A drain that is running looks at it the next time.
        if let Some(mut files) = self.undrained.try_lock() {
            files.extend(self.fresh.lock().drain(..));
            self.skip_needless(&mut files);
        }
    }

    /// Whether file `number`, which is not the last, will not be written or synced any more.
    pub fn is_done_with(&self, number: FileNumber) -> bool {
        if planted(Bug::FreeUnderTheDrain) {
            let first = self.first.load(Ordering::Relaxed);
            return self.needless.lock().end() > first + FileHeader::RECORD_LEN as u64;
        }
        // A drain that writes a piece of the file holds this lock meanwhile.
        let mut files = self.undrained.lock();
        files.extend(self.fresh.lock().drain(..));
        self.skip_needless(&mut files);
        let listed = |files: &VecDeque<Arc<LogFile>>| files.iter().any(|it| it.number == number);
        !listed(&files) && !listed(&self.unsynced.lock())
    }

    /// Skips released ranges: the files have holes there, which are never read.
    fn skip_needless(&self, files: &mut VecDeque<Arc<LogFile>>) {
        let block = BLOCK as u64;
        // A file may have begun, and its MemTable ended, before its header counts as filled.
        let written_upto = self.buffer.written_upto();
        let needless = self.needless.lock().end().min(written_upto);
        let mut to = needless - needless % block;
        while let Some(end) = files.front().and_then(|file| file.end()) {
            let next = end.next_multiple_of(block);
            if end > needless || next > written_upto {
                break;
            }
            to = to.max(next);
            files.pop_front();
        }
        let drained = self.drained.load(Ordering::Acquire);
        if to > drained {
            if let Some(file) = files.front().filter(|file| drained <= file.base && file.base < to)
            {
                file.header_passed.store(true, Ordering::Relaxed);
            }
            self.drained.store(to, Ordering::Release);
            self.buffer.raise_floor(to);
        }
    }

    /// Drains every position below `position`, which must be filled or about to be.
    pub fn drain_to(&self, position: u64) -> Result<()> {
        while self.drained.load(Ordering::Acquire) < position {
            if !self.drain_step(|drained_upto| drained_upto >= position)? {
                thread::yield_now();
            }
        }
        Ok(())
    }

    /// Pads the stream so that everything reserved so far can be drained; returns the end of the
    /// padding, which the caller publishes like any other range.
    pub fn pad(&self, appender: &mut Appender) -> Result<u64> {
        let start = appender.next;
        let end = start.next_multiple_of(self.gap_unit());
        if end > start {
            self.make_room(end)?;
            self.store_zeros(start, end);
            appender.next = end;
        }
        // Without a gap the mark still proves to a later reader that everything before it was
        // durable.
        appender.gap_from.get_or_insert(start);
        Ok(end)
    }

    /// As [`Log::pad`], at a close, behind all that is durable: with a mark that says so. A later
    /// open with an older manifest, which lost its last edits, detects the loss by this mark.
    pub fn end(&self, appender: &mut Appender) -> Result<u64> {
        self.make_room(appender.next + Self::overhead())?;
        self.store_mark(appender);
        self.pad(appender)
    }

    /// Makes everything below `position` durable, where the last record ends at `records_end`; it
    /// must be drainable (see [`Log::pad`]). One caller at a time: the files taken here must be
    /// synced before another caller counts them as synced.
    pub fn sync_to(&self, position: u64, records_end: u64) -> Result<()> {
        self.drain_to(position)?;
        let files: Vec<Arc<LogFile>> = self.unsynced.lock().drain(..).collect();
        for file in files {
            let mut synced = file.file.sync();
            if planted(Bug::SyncRetried) && synced.is_err() {
                synced = file.file.sync();
            }
            synced.map_err(|e| {
                self.failed.store(true, Ordering::Release);
                Error::sync_failed("the log", e).with("file", file.name())
            })?;
        }
        self.synced.fetch_max(position, Ordering::AcqRel);
        self.durable.fetch_max(records_end, Ordering::AcqRel);
        Ok(())
    }
}
