//! The files of a bulk load, which no edit names yet: a close, a failure or a drop removes them,
//! and so does the next open after a crash.

use std::sync::Arc;

use cleavedb_base::sync::atomic::{AtomicUsize, Ordering};
use cleavedb_base::{Error, ErrorKind, FileNumber, Result};
use cleavedb_storage::process::Own;
use cleavedb_storage::{Access, File, FileClass, Name, WriteBehind};
use cleavedb_values::SegmentFactory;

use crate::engine::Engine;
use crate::engine::job_state::LoadUnderWay;
use crate::settings::options::Background;

/// Begins a load.
pub(super) fn begin(engine: &Engine) -> Result<()> {
    let mut jobs = engine.jobs.lock();
    engine.check_open()?;
    if jobs.load.is_some() {
        let what = "another bulk load is under way, and there is one at a time; finish or drop it, \
                    and call again";
        return Err(Error::new(ErrorKind::Held, what));
    }
    jobs.load = Some(LoadUnderWay::default());
    Ok(())
}

/// Ends the load, if one is under way. Unless an edit names them, or may, its files are removed.
pub(crate) fn end(engine: &Engine, named: bool) {
    let take = |load: &mut LoadUnderWay| std::mem::take(&mut load.files);
    let files = engine.jobs.lock().load.as_mut().map(take);
    // Without the lock, since that may take long. The next load begins afterwards.
    for (kind, number) in files.into_iter().flatten().filter(|_| !named) {
        engine.discard(kind, &[number]);
    }
    engine.jobs.lock().load = None;
    engine.jobs.wake_waiters();
}

/// Ends the load at a close, after all jobs. After a failure it is not known whether an edit names
/// its files: the next open finds out.
pub(crate) fn end_at_close(engine: &Engine) {
    end(engine, engine.poison.check().is_err());
}

/// Creates the files of a load, which are written behind it.
pub(super) struct LoadedFiles {
    engine: Arc<Engine>,
    /// Files take turns, so that the sync of one does not hold up the writes to the next.
    behind: Own<[WriteBehind; 2]>,
    turn: AtomicUsize,
}

impl LoadedFiles {
    pub(super) fn new(engine: Arc<Engine>) -> Result<Self> {
        // Without background threads no test can be replayed that has one here.
        let threads = engine.options.background != Background::Manual;
        let behind = Own::new([WriteBehind::new(threads)?, WriteBehind::new(threads)?]);
        Ok(Self { engine, behind, turn: AtomicUsize::new(0) })
    }

    /// Creates a file. The lock is held until it is listed, so that a close finds it.
    pub(super) fn create(&self, class: FileClass) -> Result<(FileNumber, Arc<dyn File>)> {
        let engine = &*self.engine;
        let mut jobs = engine.jobs.lock();
        engine.check_open()?;
        let load = jobs.load.as_mut().ok_or_else(|| {
            let what = "the bulk load has ended: the database was closed";
            Error::new(ErrorKind::Closed, what)
        })?;
        let (number, file) = engine.create_file(class, Access::Direct)?;
        load.files.push((class.kind(), number));
        // Relaxed: files take turns, whatever the order of threads.
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.behind.len();
        let name = Name::numbered(class.kind(), number);
        Ok((number, self.behind[turn].file(name, file)))
    }

    /// What has failed so far.
    pub(super) fn check(&self) -> Result<()> {
        self.behind.iter().try_for_each(WriteBehind::check)
    }

    /// Waits until all files that have ended are durable.
    pub(super) fn settle(&self) -> Result<()> {
        self.behind.iter().try_for_each(WriteBehind::settle)
    }
}

/// Creates value files of one class.
pub(super) struct NewValueFiles {
    pub(super) files: Arc<LoadedFiles>,
    pub(super) class: FileClass,
}

impl SegmentFactory for NewValueFiles {
    fn create(&self) -> Result<(Name, Arc<dyn File>)> {
        let (number, file) = self.files.create(self.class)?;
        Ok((Name::numbered(self.class.kind(), number), file))
    }
}
