//! Observer: a run reports its progress to it.

use std::time::Duration;

use crate::result::PhaseResult;
use crate::workload::Workload;

/// Receives the progress of a run; may be called from another thread than the run's own.
pub trait Observer: Sync {
    /// `workload` starts; it will do `operations`, or as many as its time allows if `None`.
    fn begins(&self, _workload: &Workload, _operations: Option<u64>) {}
    /// Clients have done `done` operations in `elapsed`.
    fn runs(&self, _done: u64, _elapsed: Duration) {}
    /// Clients are done; the engine finishes its background work.
    fn settles(&self) {}
    /// The workload is over.
    fn ends(&self, _result: &PhaseResult) {}
    /// The whole store is being checked; `checked` records so far.
    fn verifies(&self, _checked: u64) {}
}

/// Ignores all progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}
