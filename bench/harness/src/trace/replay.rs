//! A trace as the operations of clients.
//!
//! Every client reads the whole trace and does the operations on its own share of the keys, chosen
//! by their hashes: two operations on one key keep their order, whatever the number of clients, and
//! there is one right answer to every read at the end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::keys::hash_of_any;
use crate::stream::{Operation, Place, version};
use crate::trace::format::{Reader, Record};
use crate::workload::Action;

/// A trace that was read once, whole and sound.
#[derive(Debug)]
pub struct Trace {
    path: PathBuf,
    operations: u64,
    writes: u64,
}

impl Trace {
    /// Reads all of `path` once.
    pub fn open(path: &Path) -> Result<Self> {
        let (mut reader, mut record) = (Reader::open(path)?, Record::default());
        let mut trace = Self { path: path.to_owned(), operations: 0, writes: 0 };
        while reader.next(&mut record)? {
            trace.operations += 1;
            trace.writes += u64::from(!matches!(record.action, Action::Read | Action::Scan));
        }
        Ok(trace)
    }

    /// Operations in it.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Operations that write or remove.
    pub fn writes(&self) -> u64 {
        self.writes
    }
}

/// A trace, and how it is replayed.
#[derive(Clone, Debug)]
pub struct Replay {
    /// What.
    pub trace: Arc<Trace>,
    /// Whether operations begin when they did while it was recorded, and not as soon as possible.
    pub timed: bool,
}

/// One client's share of a trace.
pub struct ReplayStream {
    reader: Reader,
    record: Record,
    hash: u64,
    place: Place,
    timed: bool,
    /// Operations of the trace that may still be looked at.
    left: u64,
    drawn: u64,
}

impl ReplayStream {
    /// The share of `place` in the first `operations` of the trace.
    pub fn new(replay: &Replay, place: Place, operations: u64) -> Result<Self> {
        Ok(Self {
            reader: Reader::open(&replay.trace.path)?,
            record: Record::default(),
            hash: 0,
            place,
            timed: replay.timed,
            left: operations,
            drawn: 0,
        })
    }

    /// The next operation, or `None` at the end.
    pub fn draw(&mut self) -> Result<Option<Operation>> {
        loop {
            if self.left == 0 || !self.reader.next(&mut self.record)? {
                return Ok(None);
            }
            self.left -= 1;
            self.hash = hash_of_any(&self.record.key);
            if self.hash % u64::from(self.place.threads) == u64::from(self.place.thread) {
                break;
            }
        }
        let Record { action, size, .. } = self.record;
        let scan = action == Action::Scan;
        let version = version(&self.place, self.drawn);
        self.drawn += 1;
        Ok(Some(Operation {
            action,
            record: 0,
            version,
            length: if scan { size as usize } else { 0 },
            size: (!scan).then_some(size as usize),
        }))
    }

    /// Operations handed out so far.
    pub fn drawn(&self) -> u64 {
        self.drawn
    }

    /// The key of the last operation.
    pub fn key(&self) -> &[u8] {
        &self.record.key
    }

    /// The hash of the stream.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// When the last operation is to begin, from the beginning of the phase; `None` for at once.
    pub fn start(&self) -> Option<Duration> {
        self.timed.then(|| Duration::from_micros(self.record.at))
    }
}
