//! What the store does in the background, and how long writers waited for it, as its events tell.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use cleavedb::metrics::JobKind;
use cleavedb::{Event, EventListener};
use parking_lot::Mutex;

use super::stalls::StallHistory;

/// Jobs that have ended and are remembered.
const ENDED_MAX: usize = 8;

/// A job that runs, or has ended.
#[derive(Clone, Debug)]
pub struct BackgroundJob {
    /// The kind of the job.
    pub kind: JobKind,
    /// Why, in words.
    pub why: &'static str,
    /// Bytes of its inputs.
    pub bytes_in: u64,
    /// When it began.
    pub begun: Instant,
    /// How it ended, if it has.
    pub ended: Option<EndedJob>,
}

/// How a job ended.
#[derive(Clone, Debug)]
pub struct EndedJob {
    /// Bytes that it wrote.
    pub bytes_out: u64,
    /// The time that it took.
    pub took: Duration,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// Is told what the store does.
#[derive(Debug, Default)]
pub struct BackgroundWork {
    jobs: Mutex<RememberedJobs>,
    /// Waits of writers for it.
    pub stalls: StallHistory,
}

#[derive(Debug, Default)]
struct RememberedJobs {
    running: Vec<BackgroundJob>,
    /// The youngest first.
    ended: VecDeque<BackgroundJob>,
}

impl BackgroundWork {
    /// The jobs that run, and the last ones that have ended, the youngest first.
    pub fn jobs(&self) -> Vec<BackgroundJob> {
        let jobs = self.jobs.lock();
        jobs.running.iter().chain(&jobs.ended).cloned().collect()
    }
}

impl EventListener for BackgroundWork {
    fn on_event(&self, event: &Event) {
        let mut jobs = self.jobs.lock();
        match event {
            Event::JobBegan { job, why, bytes_in, .. } => {
                let (kind, begun) = (*job, Instant::now());
                jobs.running.push(BackgroundJob {
                    kind,
                    why,
                    bytes_in: *bytes_in,
                    begun,
                    ended: None,
                });
            }
            Event::JobEnded { job, why, bytes_in, bytes_out, took, error, .. } => {
                let is_it = |running: &BackgroundJob| {
                    (running.kind, running.why, running.bytes_in) == (*job, *why, *bytes_in)
                };
                let Some(at) = jobs.running.iter().position(is_it) else { return };
                let error = error.as_ref().map(ToString::to_string);
                let ended = Some(EndedJob { bytes_out: *bytes_out, took: *took, error });
                let job = BackgroundJob { ended, ..jobs.running.swap_remove(at) };
                jobs.ended.push_front(job);
                jobs.ended.truncate(ENDED_MAX);
            }
            Event::StallBegan { cause, .. } => self.stalls.began(*cause),
            Event::StallEnded { cause, took, .. } => self.stalls.ended(*cause, *took),
            _ => {}
        }
    }
}
