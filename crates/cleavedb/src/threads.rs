//! The threads of an open database.
//!
//! One drains the log, since commits must never wait for the device while it could be writing; one
//! flushes, since a flush that queues behind a compaction stops the writers; one removes files,
//! since that is mostly rest (`disk/gentle.rs` of storage), and dead files must not lie behind a
//! flush that is always due until the disk is full; the others compact and collect, and give back
//! what they collected before they go on.

use std::sync::Arc;
use std::time::Duration;

use cleavedb_base::sync::thread;
use cleavedb_base::sync::thread::JoinHandle;
use cleavedb_base::{Error, Result};
use cleavedb_storage::niceness;

use crate::dead::MANY;
use crate::engine::Engine;
use crate::failures::JobKind;
use crate::options::Background;
use crate::panic_guard::PanicGuard;
use crate::space::reserve;
use crate::{memtables, scheduler};

/// How long the drain sleeps when there is not enough to write: a tenth of the time in which the
/// fastest writer fills the window.
const DRAIN_NAP: Duration = Duration::from_micros(500);

/// Naps after which a drain that had nothing to do sleeps until it has, so that writers who keep it
/// at work need not wake it; and how long it naps then while MemTables wait to be sorted.
const IDLE_NAPS: u32 = if cfg!(feature = "checked") { 2 } else { 200 };

const IDLE_NAP: Duration = Duration::from_millis(5);

/// How long a thread without work sleeps if nobody wakes it: readers that let go of files or of a
/// snapshot do not. Twice as long each time, up to the longest.
const IDLE_LOOK: Duration = Duration::from_millis(100);

const IDLE_LOOK_MAX: Duration = Duration::from_secs(60);

/// How long nobody must have asked for work until deletes in memory are flushed, which may hide any
/// number of bytes: for a store that is in use they wait for the end of their MemTable.
const DELETES_REST: Duration = Duration::from_secs(1);

/// What the thread that flushes does, and what those do that compact, in the order of their
/// preference.
const FLUSHER: [JobKind; 2] = [JobKind::Flush, JobKind::PreallocateLog];

const WORKER: [JobKind; 3] = [JobKind::Punch, JobKind::Compact, JobKind::Collect];

/// By how much workers stand back: a writer waits for a flush, and sooner than for a compaction.
const WORKER_NICENESS: i32 = 5;

/// What a thread does, and how it is called.
type Body = (&'static str, fn(&Engine));

/// The threads; of the last one there are as many as the options ask for.
const BODIES: [Body; 4] = [
    ("cleave-drain", drain),
    ("cleave-flush", |engine| work(engine, &FLUSHER)),
    ("cleave-remove", |engine| work(engine, &[JobKind::Remove])),
    ("cleave-work", |engine| {
        // Where a checker draws the schedule, all threads are one of the system's.
        if !cfg!(feature = "checked") {
            niceness::stand_back(WORKER_NICENESS);
        }
        work(engine, &WORKER);
    }),
];

/// Threads of an open database, to be stopped at close.
#[derive(Default)]
pub(crate) struct Threads {
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts the threads that the options ask for. If one cannot be started, the others go on, and
    /// the next call starts those that are missing.
    pub(crate) fn start(&mut self, engine: &Arc<Engine>) -> Result<()> {
        let Background::Threads(workers) = engine.options.background else { return Ok(()) };
        let last = BODIES.len() - 1;
        for at in self.handles.len()..last.saturating_add(workers) {
            let ((name, body), engine) = (BODIES[at.min(last)], engine.clone());
            let spawned = thread::Builder::new().name(name.to_owned()).spawn(move || body(&engine));
            self.handles.push(spawned.map_err(|e| Error::io("start a background thread", e))?);
        }
        Ok(())
    }

    /// Tells all threads to stop, and waits for them.
    pub(crate) fn stop(&mut self, engine: &Engine) {
        engine.jobs.close();
        engine.commit.log.rouse();
        for handle in self.handles.drain(..) {
            // A panic in a job has poisoned the database already; close goes on.
            let _ = handle.join();
        }
    }
}

fn drain(engine: &Engine) {
    let _guard = PanicGuard(engine);
    let mut idle = 0;
    while !engine.jobs.closing() {
        match engine.commit.drain() {
            Ok(true) => idle = 0,
            // A failure has poisoned the database; there is nothing to drain any more.
            Ok(false) if engine.commit.log.touch_ahead() => {}
            Ok(false) | Err(_) => {
                sort_ahead(engine);
                idle += 1;
                if idle <= IDLE_NAPS {
                    thread::sleep(DRAIN_NAP);
                } else if engine.commit.log.rest(|| engine.jobs.closing() || may_sort(engine)) {
                    idle = 0;
                } else {
                    thread::sleep(IDLE_NAP);
                }
            }
        }
    }
}

fn work(engine: &Engine, kinds: &[JobKind]) {
    let _guard = PanicGuard(engine);
    let mut pause = IDLE_LOOK;
    while !engine.jobs.closing() {
        let wakeups = engine.jobs.wakeups();
        match scheduler::run_one(engine, kinds) {
            Ok(false) if engine.jobs.wait_for_work(wakeups, pause) => {
                clear_pages(engine);
                if pause >= DELETES_REST && !reserve::is_full(engine) {
                    memtables::rotate_deletes(engine, MANY / 2);
                }
                pause = (pause * 2).min(IDLE_LOOK_MAX);
            }
            Ok(_) => pause = IDLE_LOOK,
            Err(_) => {
                // Nothing is done any more after the first failure of a write: who waits hears it.
                if engine.poison.check().is_err() {
                    engine.jobs.wake_waiters();
                }
                engine.jobs.wait_for_work(wakeups, IDLE_LOOK);
            }
        }
    }
}

/// Gives the memory that flushes and MemTables hand on to the system, when nothing is flushed.
pub(crate) fn clear_pages(engine: &Engine) {
    if engine.state.load().waiting() == 0 {
        engine.flush_pages.clear();
        engine.memtable_pages.clear();
    }
}

/// Sorts the MemTable that is flushed next, while the flush of the one before it waits for the
/// device: for the thread that drains the log, where that has little to do.
pub(crate) fn sort_ahead(engine: &Engine) {
    if !may_sort(engine) {
        return;
    }
    let state = engine.state.load_full();
    if let Some((slot, sealed)) = state.second_sealed()
        && engine.commit.visible() >= sealed.last_seq
    {
        slot.table.sort();
    }
}

/// Whether there may be a MemTable to be sorted ahead.
pub(crate) fn may_sort(engine: &Engine) -> bool {
    engine.commit.log.writes_back_on_pressure() && engine.state.load().second_sealed().is_some()
}
