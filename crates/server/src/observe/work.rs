//! What the store does in the background, and how long writers waited for it, as its events tell.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use cleavedb::metrics::{JobKind, StallCause};
use cleavedb::{Event, EventListener};
use parking_lot::Mutex;

/// How long waits of writers are remembered.
pub const STALL_MEMORY: Duration = Duration::from_secs(300);

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

/// Waits of writers for one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallSum {
    /// Number of waits.
    pub count: u64,
    /// The time of all of them.
    pub time: Duration,
}

/// Is told what the store does.
#[derive(Debug, Default)]
pub struct BackgroundWork(Mutex<RememberedWork>);

#[derive(Debug, Default)]
struct RememberedWork {
    running: Vec<BackgroundJob>,
    /// The youngest first.
    ended: VecDeque<BackgroundJob>,
    stalls: VecDeque<(Instant, StallCause, Duration)>,
}

impl BackgroundWork {
    /// The jobs that run, and the last ones that have ended, the youngest first.
    pub fn jobs(&self) -> Vec<BackgroundJob> {
        let work = self.0.lock();
        work.running.iter().chain(&work.ended).cloned().collect()
    }

    /// The waits of writers for a cause that ended within [`STALL_MEMORY`].
    pub fn stalls(&self, cause: StallCause) -> StallSum {
        let work = self.0.lock();
        let recent =
            work.stalls.iter().filter(|(at, of, _)| *of == cause && at.elapsed() < STALL_MEMORY);
        recent.fold(StallSum::default(), |sum, (_, _, time)| StallSum {
            count: sum.count + 1,
            time: sum.time + *time,
        })
    }
}

/// Most waits that are remembered: a writer that waits more often is told of these.
const STALLS_MAX: usize = 4096;

impl EventListener for BackgroundWork {
    fn on_event(&self, event: &Event) {
        let mut work = self.0.lock();
        match event {
            Event::JobBegan { job, why, bytes_in, .. } => {
                let (kind, begun) = (*job, Instant::now());
                work.running.push(BackgroundJob {
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
                let Some(at) = work.running.iter().position(is_it) else { return };
                let error = error.as_ref().map(ToString::to_string);
                let ended = Some(EndedJob { bytes_out: *bytes_out, took: *took, error });
                let job = BackgroundJob { ended, ..work.running.swap_remove(at) };
                work.ended.push_front(job);
                work.ended.truncate(ENDED_MAX);
            }
            Event::StallEnded { cause, took, .. } => {
                work.stalls.push_back((Instant::now(), *cause, *took));
                if work.stalls.len() > STALLS_MAX {
                    work.stalls.pop_front();
                }
            }
            _ => {}
        }
    }
}
