//! The files of a bulk load, which no edit names yet: a close, a failure or a drop removes them,
//! and so does the next open after a crash.

use std::sync::Arc;

use cleavedb_base::{Error, ErrorKind, FileNumber, Result};
use cleavedb_storage::{Access, File, FileClass, Name};
use cleavedb_values::SegmentFactory;

use crate::engine::Engine;
use crate::job_state::LoadUnderWay;

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

/// Creates a file of the load. The lock is held until it is listed, so that a close finds it.
pub(super) fn create(
    engine: &Engine,
    class: FileClass,
    access: Access,
) -> Result<(FileNumber, Arc<dyn File>)> {
    let mut jobs = engine.jobs.lock();
    engine.check_open()?;
    let load = jobs.load.as_mut().ok_or_else(|| {
        let what = "the bulk load has ended: the database was closed";
        Error::new(ErrorKind::Closed, what)
    })?;
    let (number, file) = engine.create_file(class, access)?;
    load.files.push((class.kind(), number));
    Ok((number, file))
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

/// Creates value files of one class.
pub(super) struct LoadedFiles<'a> {
    pub(super) engine: &'a Engine,
    pub(super) class: FileClass,
}

impl SegmentFactory for LoadedFiles<'_> {
    fn create(&self) -> Result<(Name, Arc<dyn File>)> {
        let (number, file) = create(self.engine, self.class, Access::Direct)?;
        Ok((Name::numbered(self.class.kind(), number), file))
    }
}
