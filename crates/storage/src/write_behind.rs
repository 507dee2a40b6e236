//! Write-behind: a thread writes, cuts and syncs new files, in the order of the calls, while its
//! caller makes the bytes that come next.
//!
//! A call of such a file returns before its work is done, and never fails. [`WriteBehind::settle`]
//! waits for all of it, and tells whether a part has failed; until it has returned, nothing may
//! rely on the bytes, nor on a sync. Behind a failure nothing more is done.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread;

use cleavedb_base::sync::thread::{Builder, JoinHandle};
use cleavedb_base::sync::{Condvar, Mutex};
use cleavedb_base::{Error, ErrorKind, Result};

use crate::aligned::AlignedBuf;
use crate::api::{File, FileLayer, write_all_at};
use crate::name::Name;

/// Most bytes that wait to be written, unless one write is longer.
const WAITING_MAX: usize = 4 << 20;

/// Files that a thread writes. A drop gives up what is not done yet.
pub struct WriteBehind {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl WriteBehind {
    /// Starts the thread; without `threads` each call does its work itself, so that a test can be
    /// replayed.
    pub fn new(threads: bool) -> Result<Self> {
        let queue = Arc::new(Queue::default());
        let work = || {
            let queue = queue.clone();
            let spawned =
                Builder::new().name("cleavedb write".to_owned()).spawn(move || queue.work());
            spawned.map_err(|e| Error::io("start a thread that writes files", e))
        };
        let thread = threads.then(work).transpose()?;
        queue.state.lock().has_thread = thread.is_some();
        Ok(Self { queue, thread })
    }

    /// The new `file` with this `name`, written behind. Nothing may be read by this handle.
    pub fn file(&self, name: Name, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(BehindFile { name, file, queue: self.queue.clone() })
    }

    /// What has failed so far.
    pub fn check(&self) -> Result<()> {
        self.queue.state.lock().failed.clone().map_or(Ok(()), Err)
    }

    /// Waits until all calls are done. Then all writes are, and all syncs that were asked for.
    pub fn settle(&self) -> Result<()> {
        let mut state = self.queue.state.lock();
        while !state.ended && (!state.works.is_empty() || state.busy) {
            self.queue.changed.wait(&mut state);
        }
        state.failed.clone().map_or(Ok(()), Err)
    }
}

impl Drop for WriteBehind {
    fn drop(&mut self) {
        self.queue.end(None);
        // A panic of the thread was told when it happened.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What is to be done with a file.
enum Action {
    Write(AlignedBuf, u64),
    Truncate(u64),
    Sync,
}

struct Work {
    name: Name,
    file: Arc<dyn File>,
    action: Action,
}

impl Work {
    fn bytes(&self) -> usize {
        if let Action::Write(bytes, _) = &self.action { bytes.len() } else { 0 }
    }

    fn run(&self) -> Result<()> {
        let done = match &self.action {
            Action::Write(bytes, offset) => write_all_at(&*self.file, bytes, *offset)
                .map_err(|e| Error::io("write a file", e).with("offset", offset)),
            Action::Truncate(len) => {
                self.file.truncate(*len).map_err(|e| Error::io("cut a file", e).with("len", len))
            }
            Action::Sync => self.file.sync().map_err(|e| Error::sync_failed("a file", e)),
        };
        done.map_err(|e| e.with("file", self.name))
    }
}

#[derive(Default)]
struct Backlog {
    works: VecDeque<Work>,
    /// Bytes of writes that are not done.
    bytes: usize,
    /// Whether the thread does something.
    busy: bool,
    has_thread: bool,
    failed: Option<Error>,
    /// Whether the rest, and all that comes later, is given up.
    ended: bool,
}

#[derive(Default)]
struct Queue {
    state: Mutex<Backlog>,
    changed: Condvar,
}

impl Queue {
    fn push(&self, work: Work) {
        let mut state = self.state.lock();
        if !state.has_thread {
            if state.failed.is_none() {
                state.failed = work.run().err();
            }
            return;
        }
        while !state.ended && state.bytes > 0 && state.bytes + work.bytes() > WAITING_MAX {
            self.changed.wait(&mut state);
        }
        if state.ended {
            return;
        }
        state.bytes += work.bytes();
        state.works.push_back(work);
        drop(state);
        self.changed.notify_all();
    }

    /// Gives up what is not done. Nothing waits for it any more.
    fn end(&self, failed: Option<Error>) {
        let mut state = self.state.lock();
        state.ended = true;
        state.failed = state.failed.take().or(failed);
        // The handles of files keep the queue, which must not keep files.
        state.works.clear();
        drop(state);
        self.changed.notify_all();
    }

    /// The thread.
    fn work(&self) {
        let _ends = EndsWithPanic(self);
        let mut state = self.state.lock();
        while !state.ended {
            let Some(work) = state.works.pop_front() else {
                self.changed.wait(&mut state);
                continue;
            };
            state.busy = true;
            let failed = state.failed.is_some();
            drop(state);
            let done = if failed { Ok(()) } else { work.run() };
            let bytes = work.bytes();
            drop(work);
            state = self.state.lock();
            state.busy = false;
            state.bytes -= bytes;
            state.failed = state.failed.take().or(done.err());
            self.changed.notify_all();
        }
    }
}

/// Ends a queue whose thread panics, so that no caller waits for it for ever.
struct EndsWithPanic<'q>(&'q Queue);

impl Drop for EndsWithPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let what = "the thread that writes files has panicked";
            self.0.end(Some(Error::new(ErrorKind::Io, what)));
        }
    }
}

/// A file that is written behind.
struct BehindFile {
    name: Name,
    file: Arc<dyn File>,
    queue: Arc<Queue>,
}

impl BehindFile {
    fn push(&self, action: Action) {
        self.queue.push(Work { name: self.name, file: self.file.clone(), action });
    }
}

impl FileLayer for BehindFile {
    fn inner(&self) -> &dyn File {
        &*self.file
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let mut bytes = AlignedBuf::with_capacity(buf.len());
        bytes.extend_from_slice(buf);
        self.push(Action::Write(bytes, offset));
        Ok(buf.len())
    }

    fn sync(&self) -> io::Result<()> {
        self.push(Action::Sync);
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.push(Action::Truncate(len));
        Ok(())
    }
}
