//! Appending to the log: reserve, store, publish, drain, sync.
//!
//! A commit reserves a range of positions under the lock of the [`Appender`], stores its records
//! through a [`ReservedSlot`] without any lock, and the range counts as filled once it and all
//! ranges before it are stored. Filled bytes are drained to the log file in large aligned writes,
//! by a thread of their own or, when the window is full, by the writer that needs room. A sync pads
//! the stream to the file's alignment, drains to there and syncs; the next record is then preceded
//! by a [`SyncMarker`], so that a later reader can tell an intended gap from lost bytes.

mod drain;
mod room;
mod wipe;

pub use room::ALLOCATED_MIN;

use std::collections::VecDeque;
use std::sync::Arc;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::FileIdentity;
use cleavedb_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cleavedb_base::sync::{Mutex, thread};
use cleavedb_base::{Error, FileNumber, Result};

use super::buffer::{LogBuffer, ReservedSlot};
use super::frame::{FileHeader, MARK_ALIGNMENT, SyncMarker};
use super::released::ReleasedRanges;
use super::rest::Rest;
use crate::api::{File, Storage, is_full};
use crate::name::{FileKind, Name};
use crate::window::Window;
use crate::window_header::Watermark;

use First::{New, Resumed};

/// Growth factor of a window that was filled once.
const GROWTH: usize = 16;

/// When the log is written from the window to its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteBack {
    /// As soon as there is enough for a write.
    Eager,
    /// When the window is nearly full, or a sync asks for it: most of the log is released before.
    OnPressure,
}

/// A log file that was created, named in the manifest, and not written yet.
pub struct PreallocatedLog {
    /// The number of the file.
    pub number: FileNumber,
    /// Handle that the drain writes through.
    pub file: Arc<dyn File>,
    /// Length up to which disk space is reserved for it, in bytes.
    pub allocated: u64,
}

impl PreallocatedLog {
    /// Frees the disk space that is reserved for it: it gets some as it is written.
    pub fn give_back(&mut self) -> Result<()> {
        let name = Name::numbered(FileKind::Log, self.number);
        let cut = self.file.truncate(0);
        cut.map_err(|e| Error::io("cut the next log file", e).with("file", name))?;
        self.allocated = 0;
        Ok(())
    }
}

/// The file in which a log begins.
pub enum First {
    /// A new one.
    New(PreallocatedLog),
    /// One that was closed with its last record ending at this offset, whose first byte has this
    /// log position. Nothing but zeros follows there.
    Resumed {
        /// The file.
        next_log: PreallocatedLog,
        /// Log position of its first byte.
        base: u64,
        /// Offset behind its last record.
        end: u64,
    },
}

/// A log file with its place in the stream.
pub struct LogFile {
    /// The number of the file.
    pub number: FileNumber,
    /// Seeds the checksums of its records.
    pub identity: FileIdentity,
    /// Log position of its first byte.
    pub base: u64,
    file: Arc<dyn File>,
    /// Log position at which the log before it ended.
    previous_end: u64,
    /// Log position at which it ends; `u64::MAX` while it is the last.
    end: AtomicU64,
    /// Whether the drain has skipped its header, which is still to be written. Never where writes
    /// must be aligned: nothing is released there.
    header_passed: AtomicBool,
}

impl LogFile {
    /// Log position at which the file ends, if it is not the last one.
    pub fn end(&self) -> Option<u64> {
        match self.end.load(Ordering::Acquire) {
            u64::MAX => None,
            end => Some(end),
        }
    }

    fn name(&self) -> Name {
        Name::numbered(FileKind::Log, self.number)
    }
}

/// The end of the log: ranges are reserved through exclusive access to it.
pub struct Appender {
    /// Next free position.
    next: u64,
    /// None before the first write.
    file: Option<Arc<LogFile>>,
    /// Length up to which disk space is reserved for the file, in bytes.
    allocated: u64,
    /// Most disk space that is reserved next, in bytes.
    step_max: u64,
    /// Position of the last record's end, if a sync padded the stream behind it.
    gap_from: Option<u64>,
}

impl Appender {
    /// Next free log position.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Position behind the last record; padding that a sync left behind it does not count.
    pub fn end(&self) -> u64 {
        if planted(Bug::HeadBehindPadding) {
            return self.next;
        }
        self.gap_from.unwrap_or(self.next)
    }

    /// The file that the next small record goes to, unless it is full.
    pub fn file(&self) -> &Arc<LogFile> {
        self.file.as_ref().expect("a log is begun before it is written")
    }

    /// Log position at which the log file before that one has ended.
    pub fn previous_end(&self) -> u64 {
        self.file().previous_end
    }

    /// Whether the log was begun: before the first write it has neither window nor file.
    #[inline]
    pub fn is_begun(&self) -> bool {
        self.file.is_some()
    }
}

/// A reserved range and its place.
#[derive(Debug)]
pub struct Reserved {
    /// Log position behind the range.
    pub end: u64,
    /// File that holds the range.
    pub file: FileNumber,
    /// Identity of that file.
    pub identity: FileIdentity,
    /// Offset of the range in that file.
    pub offset: u64,
}

/// The shared part of the log.
pub struct Log {
    buffer: Arc<LogBuffer>,
    database_id: u64,
    alignment: AtomicU64,
    /// Length at which a file ends.
    file_len: AtomicU64,
    /// Files not fully drained, oldest first. Held while a piece is written: one drain at a time.
    undrained: Mutex<VecDeque<Arc<LogFile>>>,
    /// Files written since their last sync, drained or not, oldest first.
    unsynced: Mutex<VecDeque<Arc<LogFile>>>,
    /// Files in use that are not yet in `undrained`: a lock that reservation can take while a drain
    /// is running.
    fresh: Mutex<Vec<Arc<LogFile>>>,
    drained: AtomicU64,
    synced: AtomicU64,
    /// End of the last record below `synced`: only padding lies between.
    durable: AtomicU64,
    written: AtomicU64,
    writes_back_on_pressure: AtomicBool,
    /// Where the log began with a window of the current length.
    first: AtomicU64,
    /// Length of the part of the window that may have log from before it had this length.
    outgrown: AtomicU64,
    /// Bytes of the window from there on that are certainly backed by memory.
    touched: AtomicU64,
    /// Held while the window is touched, and while it gets shorter.
    touching: Mutex<()>,
    /// Ranges that need not be drained.
    needless: Mutex<ReleasedRanges>,
    /// The sleep of the drain thread.
    rest: Rest,
    /// A write or a sync failed: the log is not written any more.
    failed: AtomicBool,
}

impl Log {
    /// A log that ends at `position` and is not written before [`Log::begin`]. `file_len` is the
    /// length at which the next file begins, in bytes.
    pub fn idle(database_id: u64, position: u64, file_len: u64) -> (Self, Appender) {
        let log = Self {
            buffer: Arc::new(LogBuffer::idle(position)),
            database_id,
            alignment: AtomicU64::new(1),
            file_len: AtomicU64::new(file_len),
            undrained: Mutex::default(),
            unsynced: Mutex::default(),
            fresh: Mutex::default(),
            drained: AtomicU64::new(position),
            synced: AtomicU64::new(position),
            durable: AtomicU64::new(position),
            written: AtomicU64::new(0),
            writes_back_on_pressure: AtomicBool::new(false),
            first: AtomicU64::new(position),
            outgrown: AtomicU64::new(0),
            touched: AtomicU64::new(0),
            touching: Mutex::default(),
            needless: Mutex::new(ReleasedRanges::up_to(position)),
            rest: Rest::default(),
            failed: AtomicBool::new(false),
        };
        let (file, allocated, step_max) = (None, 0, room::ALLOCATED_STEP);
        (log, Appender { next: position, file, allocated, step_max, gap_from: None })
    }

    /// Begins the log, in an empty window, and in a new file at the next block boundary or where
    /// the last file was closed.
    pub fn begin(&self, appender: &mut Appender, window: Window, drain: WriteBack, first: First) {
        let (New(next_log) | Resumed { next_log, .. }) = &first;
        let alignment = next_log.file.alignment() as u64;
        assert!((BLOCK as u64).is_multiple_of(alignment), "blocks are aligned for the disk");
        self.alignment.store(alignment, Ordering::Relaxed);
        self.writes_back_on_pressure.store(drain == WriteBack::OnPressure, Ordering::Relaxed);
        appender.allocated = next_log.allocated;
        let next = match &first {
            New(_) => appender.next.next_multiple_of(BLOCK as u64),
            Resumed { base, end, .. } => base + end.next_multiple_of(self.gap_unit()),
        };
        self.buffer.begin(window, next);
        self.note(Watermark::Drained, next);
        for mark in [&self.drained, &self.synced, &self.first] {
            mark.store(next, Ordering::Relaxed);
        }
        match first {
            New(next_log) => {
                let previous_end = std::mem::replace(&mut appender.next, next);
                appender.file = Some(self.adopt(next_log, next, previous_end));
                self.write_header(appender);
                self.buffer.set_written_upto(appender.next);
            }
            Resumed { next_log, base, end } => {
                appender.next = next;
                appender.gap_from = Some(base + end);
                appender.file = Some(self.adopt(next_log, base, base));
            }
        }
        *self.needless.lock() = ReleasedRanges::up_to(appender.next);
    }

    /// Alignment of positions behind a gap.
    fn gap_unit(&self) -> u64 {
        self.alignment.load(Ordering::Relaxed).max(MARK_ALIGNMENT)
    }

    /// The length that the window should grow to before `len` more bytes are reserved; `None` if it
    /// need not grow: it starts short, and grows after it was filled once.
    pub fn growth(&self, appender: &Appender, len: u64) -> Option<usize> {
        let (now, most) = (self.buffer.window().len(), self.buffer.window().capacity());
        let used = appender.next - self.first.load(Ordering::Relaxed);
        let full = now < most && used + Self::overhead() + len > now as u64;
        full.then(|| now.saturating_mul(GROWTH).min(most))
    }

    /// Allocates blocks for a length of `len` bytes of the window, which is empty. If there is no
    /// room the window stays as it is, until as much again was written.
    pub fn extend_window(
        &self,
        storage: &dyn Storage,
        appender: &Appender,
        len: usize,
    ) -> Result<bool> {
        // The step that drained the last byte may not have stored the mark in the window and raised
        // the floor yet: it does both under this lock.
        drop(self.undrained.lock());
        match self.buffer.window().extend(storage, len) {
            Ok(()) => Ok(true),
            Err(e) if is_full(&e) => {
                self.first.store(appender.next, Ordering::Relaxed);
                Ok(false)
            }
            Err(e) => Err(Error::io("make the log window longer", e)),
        }
    }

    /// Sets the length of the window to `len` bytes, after the log was padded and drained and the
    /// window extended.
    pub fn grow_window(&self, appender: &Appender, len: usize) {
        self.outgrown.store(self.buffer.len(), Ordering::Relaxed);
        self.buffer.set_len(len);
        self.touched.store(0, Ordering::Relaxed);
        self.first.store(appender.next, Ordering::Relaxed);
        self.rouse();
    }

    /// Stores in the window how far the log has come.
    #[inline]
    pub fn note(&self, mark: Watermark, value: u64) {
        self.buffer.window().note(mark, value);
    }

    /// The window and its watermarks, for readers of young records.
    pub fn buffer(&self) -> &Arc<LogBuffer> {
        &self.buffer
    }

    /// Longest range that may be reserved at once; longer ones are streamed.
    pub fn reserve_max(&self) -> usize {
        (self.buffer.len() / 4) as usize
    }

    /// Every position below is durable in its file, or released.
    pub fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Every record that ends at or before this position is durable: what headers and marks may
    /// claim.
    fn durable(&self) -> u64 {
        if planted(Bug::PaddingClaimed) {
            return self.synced();
        }
        self.durable.load(Ordering::Acquire)
    }

    /// Bytes written to log files since the start.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn adopt(&self, next_log: PreallocatedLog, base: u64, previous_end: u64) -> Arc<LogFile> {
        let file = Arc::new(LogFile {
            number: next_log.number,
            identity: FileIdentity::new(self.database_id, next_log.number),
            base,
            file: next_log.file,
            previous_end,
            end: AtomicU64::new(u64::MAX),
            header_passed: AtomicBool::new(false),
        });
        self.fresh.lock().push(file.clone());
        file
    }

    /// Frees the disk space that is reserved beyond the end of the file in use.
    pub fn give_back(&self, appender: &mut Appender) -> Result<()> {
        let file = appender.file();
        let cut = file.file.len().and_then(|len| file.file.truncate(len).map(|()| len));
        let cut = cut.map_err(|e| Error::io("cut the log", e).with("file", file.name()));
        appender.allocated = cut?;
        Ok(())
    }

    /// Ends the current file and continues in `spare`.
    pub fn rotate(
        &self,
        appender: &mut Appender,
        next_log: PreallocatedLog,
    ) -> Result<Arc<LogFile>> {
        let end = appender.end();
        appender.gap_from = None;
        let base = appender.next.next_multiple_of(BLOCK as u64);
        self.make_room(base + FileHeader::RECORD_LEN as u64)?;
        self.store_zeros(appender.next, base);
        appender.next = base;
        appender.file().end.store(end, Ordering::Release);
        appender.allocated = next_log.allocated;
        appender.file = Some(self.adopt(next_log, base, end));
        self.write_header(appender);
        Ok(appender.file().clone())
    }

    fn write_header(&self, appender: &mut Appender) {
        let header = self.header_of(appender.file()).encode();
        self.store(appender, &header);
    }

    fn header_of(&self, file: &LogFile) -> FileHeader {
        FileHeader {
            database_id: self.database_id,
            number: file.number,
            base: file.base,
            previous_end: file.previous_end,
            durable: self.durable(),
        }
    }

    /// Stores bytes that the appender itself writes, right behind the last range.
    fn store(&self, appender: &mut Appender, bytes: &[u8]) {
        let end = appender.next + bytes.len() as u64;
        // SAFETY: the caller holds the appender, so the range is not reserved by any other thread,
        // and it made room before.
        unsafe { ReservedSlot::new(&self.buffer, appender.next, end) }.push(bytes);
        appender.next = end;
    }

    fn store_zeros(&self, from: u64, to: u64) {
        // SAFETY: as in `store`.
        unsafe { ReservedSlot::new(&self.buffer, from, to) }
            .push(&[0; BLOCK][..(to - from) as usize]);
    }

    /// Reserves `len` bytes in one file, and the one slot to store them through. The caller made
    /// sure by [`Log::needs_file`] that they fit.
    #[inline]
    pub fn reserve(
        &self,
        appender: &mut Appender,
        len: u64,
    ) -> Result<(Reserved, ReservedSlot<'_>)> {
        assert!(len <= self.reserve_max() as u64, "longer ranges are streamed");
        self.make_room(appender.next + Self::overhead() + len)?;
        self.store_mark(appender);
        let start = appender.next;
        let end = start + len;
        appender.next = end;
        let file = appender.file();
        let reserved =
            Reserved { end, file: file.number, identity: file.identity, offset: start - file.base };
        // SAFETY: the appender hands out each range once, above `written_upto`, with room made for
        // it.
        let slot = unsafe { ReservedSlot::new(&self.buffer, start, reserved.end) };
        Ok((reserved, slot))
    }

    /// Writes the mark behind the gap that a sync left, if there is one.
    fn store_mark(&self, appender: &mut Appender) {
        let Some(previous_end) = appender.gap_from.take() else { return };
        let mark = SyncMarker { previous_end, durable: self.durable() };
        let bytes = mark.encode(appender.file().identity, Self::used(appender));
        self.store(appender, &bytes);
    }

    /// Declares every position below `position` stored. Positions only grow.
    #[inline]
    pub fn set_written_upto(&self, position: u64) {
        self.buffer.set_written_upto(position);
        self.rest.written_upto(position);
    }

    /// Begins a range of any length, to be appended by [`Log::stream`] piece by piece. Every
    /// earlier range must be filled, and the caller holds the appender until the last piece.
    pub fn begin_stream(&self, appender: &mut Appender, len: u64) -> Result<Reserved> {
        self.make_room(appender.next + Self::overhead())?;
        self.store_mark(appender);
        let file = appender.file();
        Ok(Reserved {
            end: appender.next + len,
            file: file.number,
            identity: file.identity,
            offset: appender.next - file.base,
        })
    }

    /// Appends the next bytes of a range that [`Log::begin_stream`] began.
    pub fn stream(&self, appender: &mut Appender, bytes: &[u8]) -> Result<()> {
        for piece in bytes.chunks(self.reserve_max()) {
            self.make_room(appender.next + piece.len() as u64)?;
            self.store(appender, piece);
            self.set_written_upto(appender.next);
        }
        Ok(())
    }

    /// Drains, or waits for the drain, until positions below `end` fit the window.
    fn make_room(&self, end: u64) -> Result<()> {
        while end > self.buffer.drained_upto() + self.buffer.len() {
            if !self.drain_step(|drained_upto| end <= drained_upto + self.buffer.len())? {
                thread::yield_now();
            }
        }
        Ok(())
    }
}
