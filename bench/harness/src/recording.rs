//! An engine that writes down what it is asked for.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::engine::{Engine, Opener, VisitPair};
use crate::error::Result;
use crate::trace::Writer;
use crate::units::thousands;
use crate::workload::Action;

/// The trace that all stores of one opener write to.
struct Tape {
    begin: Instant,
    writer: Mutex<Option<Writer>>,
}

impl Tape {
    fn add(&self, action: Action, key: &[u8], size: usize) -> Result<()> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // The clock is read under the lock, so that times ascend.
        let at = self.begin.elapsed().as_micros() as u64;
        writer.as_mut().map_or(Ok(()), |writer| writer.add(at, action, key, size as u64))
    }
}

/// Opens stores of another opener, and records what they are asked for.
pub struct RecordingOpener<'a> {
    inner: &'a dyn Opener,
    path: PathBuf,
    tape: Arc<Tape>,
}

impl<'a> RecordingOpener<'a> {
    /// Records what stores of `inner` are asked for in the file `path`, from now on.
    pub fn new(inner: &'a dyn Opener, path: &Path) -> Result<Self> {
        let writer = Mutex::new(Some(Writer::create(path)?));
        let tape = Arc::new(Tape { begin: Instant::now(), writer });
        Ok(Self { inner, path: path.to_owned(), tape })
    }

    /// Ends the recording; says how much there is. What follows is not recorded.
    pub fn finish(&self) -> Result<String> {
        let mut writer = self.tape.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let records = writer.take().map_or(Ok(0), Writer::finish)? as f64;
        Ok(format!("recorded {} operations in {}", thousands(records), self.path.display()))
    }
}

impl Opener for RecordingOpener<'_> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn open(&self, directory: &Path) -> Result<Box<dyn Engine>> {
        let inner = self.inner.open(directory)?;
        Ok(Box::new(Recording { inner, tape: self.tape.clone() }))
    }
}

/// An open store whose operations are recorded.
struct Recording {
    inner: Box<dyn Engine>,
    tape: Arc<Tape>,
}

impl Engine for Recording {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.tape.add(Action::Update, key, value.len())?;
        self.inner.put(key, value)
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.tape.add(Action::Read, key, 0)?;
        self.inner.get(key, visit)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.tape.add(Action::Delete, key, 0)?;
        self.inner.delete(key)
    }

    fn scan(&self, from: &[u8], limit: usize, visit: VisitPair<'_>) -> Result<usize> {
        self.tape.add(Action::Scan, from, limit)?;
        self.inner.scan(from, limit, visit)
    }

    fn read_modify_write(
        &self,
        key: &[u8],
        value: &[u8],
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        self.tape.add(Action::ReadModifyWrite, key, value.len())?;
        self.inner.read_modify_write(key, value, visit)
    }

    fn wait_idle(&self) -> Result<()> {
        self.inner.wait_idle()
    }

    fn describe(&self) -> Vec<(String, String)> {
        self.inner.describe()
    }

    fn counters(&self) -> Vec<(String, f64)> {
        self.inner.counters()
    }

    fn outside(&self) -> &[PathBuf] {
        self.inner.outside()
    }

    fn other_process(&self) -> Option<u32> {
        self.inner.other_process()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.inner.close()
    }
}
