//! Parallel prefetch for range scans (WiscKey, sections 3.2 and 3.5).
//!
//! A scan knows the pointers of its next values before it needs them. What memory already holds is
//! read at once by the scanning thread; the rest goes to a pool of threads that wait for the
//! device side by side, because an SSD serves many random reads at a time and a thread only one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use bytes::Bytes;
use cleavedb_base::{Result, SeqNo, ValuePointer};
use cleavedb_storage::segment::Segment;
use parking_lot::{Condvar, Mutex};

use crate::set::{SegmentSet, value_of};

/// A value that a scan will want.
pub struct Want {
    /// Where its record lies.
    pub pointer: ValuePointer,
    /// Tree key of the entry.
    pub tree_key: Bytes,
    /// Sequence number of the entry.
    pub seq: SeqNo,
}

/// One batch of reads under way.
struct Batch {
    jobs: Vec<(Arc<Segment>, Want)>,
    /// Next job that nobody has taken.
    next: AtomicUsize,
    progress: Mutex<Progress>,
    done: Condvar,
}

struct Progress {
    unfinished: usize,
    results: Vec<Option<Result<Bytes>>>,
}

impl Batch {
    fn new(jobs: Vec<(Arc<Segment>, Want)>) -> Self {
        let results = jobs.iter().map(|_| None).collect();
        let progress = Mutex::new(Progress { unfinished: jobs.len(), results });
        Self { jobs, next: AtomicUsize::new(0), progress, done: Condvar::new() }
    }

    /// Whether a job is left to be taken.
    fn is_open(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.jobs.len()
    }

    /// Reads jobs until none is left.
    fn work(&self) {
        while let Some((job, (segment, want))) = {
            let job = self.next.fetch_add(1, Ordering::Relaxed);
            self.jobs.get(job).map(|what| (job, what))
        } {
            let result = read(segment, want);
            let mut progress = self.progress.lock();
            progress.results[job] = Some(result);
            progress.unfinished -= 1;
            if progress.unfinished == 0 {
                self.done.notify_all();
            }
        }
    }

    /// Waits until the jobs that others took are done as well.
    fn wait(&self) -> Vec<Option<Result<Bytes>>> {
        let mut progress = self.progress.lock();
        while progress.unfinished > 0 {
            self.done.wait(&mut progress);
        }
        std::mem::take(&mut progress.results)
    }
}

fn read(segment: &Segment, want: &Want) -> Result<Bytes> {
    let mut bytes = vec![0; want.pointer.len as usize];
    segment.read(want.pointer.offset, &mut bytes)?;
    value_of(segment, bytes, want.pointer, &want.tree_key, want.seq)
}

#[derive(Default)]
struct Queue {
    batches: Vec<Arc<Batch>>,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
}

/// Threads that read values side by side; they sleep while there is nothing to read.
pub struct FetchPool {
    shared: Arc<Shared>,
    size: usize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl FetchPool {
    /// A pool of up to `size` threads, started when first needed; 0 reads in the calling thread.
    pub fn new(size: usize) -> Self {
        Self { shared: Arc::default(), size, threads: Mutex::default() }
    }

    /// Reads all wanted values, in the order of `wants`.
    pub fn fetch(&self, segments: &SegmentSet, wants: Vec<Want>) -> Vec<Result<Bytes>> {
        let mut results: Vec<Option<Result<Bytes>>> = Vec::with_capacity(wants.len());
        let mut cold = Vec::new();
        for want in wants {
            match read_warm(segments, &want) {
                Ok(Some(value)) => results.push(Some(Ok(value))),
                Ok(None) => {
                    results.push(None);
                    cold.push(want);
                }
                Err(error) => results.push(Some(Err(error))),
            }
        }
        let mut fetched = self.fetch_cold(segments, cold).into_iter();
        results.into_iter().filter_map(|result| result.or_else(|| fetched.next())).collect()
    }

    fn fetch_cold(&self, segments: &SegmentSet, wants: Vec<Want>) -> Vec<Result<Bytes>> {
        if self.size == 0 || wants.len() < 2 {
            return wants
                .iter()
                .map(|want| segments.find(want.pointer).and_then(|segment| read(segment, want)))
                .collect();
        }
        // The warm pass has found every segment; a pointer to none never gets here.
        let job = |want: Want| Some((segments.get(want.pointer.file)?.clone(), want));
        let batch = Arc::new(Batch::new(wants.into_iter().filter_map(job).collect()));
        self.start_threads();
        self.shared.queue.lock().batches.push(batch.clone());
        // A thread for each read but one, which is the caller's.
        for _ in 1..batch.jobs.len().min(self.size + 1) {
            self.shared.wake.notify_one();
        }
        batch.work();
        self.shared.queue.lock().batches.retain(|other| !Arc::ptr_eq(other, &batch));
        batch.wait().into_iter().flatten().collect()
    }

    fn start_threads(&self) {
        let mut threads = self.threads.lock();
        while threads.len() < self.size {
            let shared = self.shared.clone();
            let name = "cleave-fetch".to_owned();
            let started = std::thread::Builder::new().name(name).spawn(move || serve(&shared));
            // Without the thread the caller still reads everything itself, only slower.
            let Ok(thread) = started else { return };
            threads.push(thread);
        }
    }
}

impl Drop for FetchPool {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.wake.notify_all();
        for thread in self.threads.get_mut().drain(..) {
            // A panicked reader has already failed its scan; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

fn serve(shared: &Shared) {
    let mut queue = shared.queue.lock();
    while !queue.closed {
        match queue.batches.iter().find(|batch| batch.is_open()).cloned() {
            Some(batch) => {
                drop(queue);
                batch.work();
                queue = shared.queue.lock();
            }
            None => shared.wake.wait(&mut queue),
        }
    }
}

fn read_warm(segments: &SegmentSet, want: &Want) -> Result<Option<Bytes>> {
    let segment = segments.find(want.pointer)?;
    let mut bytes = vec![0; want.pointer.len as usize];
    if !segment.read_cached(want.pointer.offset, &mut bytes)? {
        return Ok(None);
    }
    value_of(segment, bytes, want.pointer, &want.tree_key, want.seq).map(Some)
}
