//! The threads of an open database.
//!
//! One thread drains the log, since commits must not wait for the device while it is idle. One
//! flushes, since a flush that waits behind a compaction stops the writers. One removes files,
//! since removal is mostly pauses (`disk/gentle.rs` of storage), and dead files must not wait
//! behind flushes, of which one may always be due, until the disk is full. The others compact and
//! collect, and punch the ranges that they collected before they go on.
//!
//! Databases may share all but the first one ([`crate::settings::crew`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use cleavedb_base::sync::thread;
use cleavedb_base::sync::thread::JoinHandle;
use cleavedb_base::{Error, Result};
use cleavedb_storage::niceness;

use crate::background::{give_back, memtables, scheduler};
use crate::control::failures::JobKind;
use crate::engine::Engine;
use crate::engine::panic_guard::PanicGuard;
use crate::settings::crew::{Attempt, Class, Member, REST, REST_MAX};
use crate::settings::options::Background;
use crate::store::dead::MANY;

/// How long the drain sleeps when there is not enough to write: a tenth of the time in which the
/// fastest writer fills the window.
const DRAIN_NAP: Duration = Duration::from_micros(500);

/// After `IDLE_NAPS` naps without work the drain sleeps until a writer wakes it: writers that keep
/// it busy need not wake it. While MemTables wait to be sorted it naps for `IDLE_NAP` instead.
const IDLE_NAPS: u32 = if cfg!(feature = "test-checked") { 2 } else { 200 };

const IDLE_NAP: Duration = Duration::from_millis(5);

/// How long there must have been no request for work before deletes in memory are flushed, since
/// the entries that they hide may take any number of bytes. In a store that is in use they are
/// flushed with their MemTable.
const DELETES_REST: Duration = Duration::from_secs(1);

/// How long there must have been no request for work before the store may be at rest.
const QUIET: Duration = Duration::from_secs(5);

/// The kinds of jobs of the thread that flushes, of the one that removes, and of the threads that
/// compact, the preferred first. Whichever is free creates the next log file: in the course of a
/// flush several may be filled, and a writer that creates one waits for the device.
const FLUSHER: [JobKind; 2] = [JobKind::Flush, JobKind::PreallocateLog];

const REMOVER: [JobKind; 2] = [JobKind::PreallocateLog, JobKind::Remove];

const WORKER: [JobKind; 4] =
    [JobKind::PreallocateLog, JobKind::Punch, JobKind::Compact, JobKind::Collect];

/// Niceness of the threads that compact and collect: a writer needs a flush sooner than a
/// compaction.
const WORKER_NICENESS: i32 = 5;

/// A thread's name and its function.
type Body = (&'static str, fn(&Engine));

/// The threads. Of the last one the options set the number.
const BODIES: [Body; 4] = [
    ("cleave-drain", drain),
    ("cleave-flush", |engine| work(engine, &FLUSHER)),
    ("cleave-remove", |engine| work(engine, &REMOVER)),
    ("cleave-work", |engine| {
        stand_back();
        work(engine, &WORKER);
    }),
];

/// Threads of an open database, which a close stops.
#[derive(Default)]
pub(crate) struct Threads {
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts the threads that the options ask for. If one cannot be started, the others run, and
    /// the next call starts the missing ones.
    pub(crate) fn start(&mut self, engine: &Arc<Engine>) -> Result<()> {
        let Background::Threads(workers) = engine.options.background else { return Ok(()) };
        let last = BODIES.len() - 1;
        let crew = engine.options.crew();
        let all = if crew.is_some() { 1 } else { last.saturating_add(workers) };
        for at in self.handles.len()..all {
            let ((name, body), engine) = (BODIES[at.min(last)], engine.clone());
            let spawned = thread::Builder::new().name(name.to_owned()).spawn(move || body(&engine));
            self.handles.push(spawned.map_err(|e| Error::io("start a background thread", e))?);
        }
        if let Some(crew) = crew
            && engine.jobs.bell.get().is_none()
        {
            // Only one thread begins or ends a session at a time.
            let _ = engine.jobs.bell.set(crew.join(engine.clone())?);
        }
        Ok(())
    }

    /// Tells all threads to stop, and waits for them.
    pub(crate) fn stop(&mut self, engine: &Engine) {
        engine.jobs.close();
        engine.pacer.end();
        engine.commit.log.rouse();
        for handle in self.handles.drain(..) {
            // A panic in a job has poisoned the database already; the close goes on.
            let _ = handle.join();
        }
        if let Some(bell) = engine.jobs.bell.get() {
            bell.leave();
        }
    }
}

fn drain(engine: &Engine) {
    let _guard = PanicGuard(engine);
    let mut idle = 0;
    while !engine.jobs.closing() {
        match engine.commit.drain() {
            Ok(true) => idle = 0,
            // Before it rests, the drain backs the window with memory ahead of the writers. After
            // a failure, which has poisoned the database, there is nothing to drain any more.
            Ok(false) if engine.commit.log.touch_ahead() => {}
            Ok(false) | Err(_) => {
                engine.tell_refusal();
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
    let mut pause = REST;
    while !engine.jobs.closing() {
        let wakeups = engine.jobs.wakeups();
        match look(engine, kinds) {
            Attempt::Nothing if engine.jobs.wait_for_work(wakeups, pause) => {
                rested(engine, pause);
                pause = (pause * 2).min(REST_MAX);
            }
            Attempt::Nothing | Attempt::Done => pause = REST,
            Attempt::Failed => _ = engine.jobs.wait_for_work(wakeups, REST),
        }
    }
}

/// Does one job of the given kinds, if one is due.
fn look(engine: &Engine, kinds: &[JobKind]) -> Attempt {
    match scheduler::run_one(engine, kinds) {
        Ok(true) => Attempt::Done,
        Ok(false) => Attempt::Nothing,
        Err(_) => {
            // After the first failure of a write no job runs any more: waiting callers must get
            // the error.
            if engine.poison.check().is_err() {
                engine.tell_refusal();
                engine.jobs.wake_waiters();
            }
            Attempt::Failed
        }
    }
}

/// Called when there was no request for work for the time `rest`.
fn rested(engine: &Engine, rest: Duration) {
    give_back_pages(engine);
    if rest >= QUIET && engine.space().begins_to_rest() {
        engine.pacer.be_gentle(true);
        engine.jobs.wake();
    }
    if engine.space().rests() {
        give_back::give_back_at_rest(engine);
    }
    if rest >= DELETES_REST && !engine.space().is_disk_full() {
        memtables::rotate_dead(engine, MANY / 2);
        memtables::rotate_over(engine);
    }
}

/// Lets the worker threads stand back: a writer needs a flush sooner than a compaction. Under a
/// checker, which draws the schedule, all threads run on one thread of the system, so its niceness
/// stays.
fn stand_back() {
    if !cfg!(feature = "test-checked") {
        niceness::stand_back(WORKER_NICENESS);
    }
}

impl Member for Engine {
    fn prepare(&self, class: Class) {
        if class == Class::Work {
            stand_back();
        }
    }

    fn rested(&self, rest: Duration) {
        rested(self, rest);
    }

    fn look(&self, class: Class) -> Attempt {
        let _guard = PanicGuard(self);
        if self.jobs.closing() {
            return Attempt::Nothing;
        }
        look(
            self,
            match class {
                Class::Flush => &FLUSHER,
                Class::Remove => &REMOVER,
                Class::Work => &WORKER,
            },
        )
    }
}

/// Returns the pages that flushes and MemTables reuse to the system, when no flush is due.
fn give_back_pages(engine: &Engine) {
    if engine.state.load().waiting() == 0 {
        engine.spare_pages.give_back(engine.counters.user_bytes.get(), Instant::now());
    }
}

/// Sorts the MemTable that is flushed next, while the flush of the one before it waits for the
/// device. The drain thread does this, when it has little to drain.
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

/// Whether a MemTable may be sorted ahead of its flush.
pub(crate) fn may_sort(engine: &Engine) -> bool {
    engine.commit.log.writes_back_on_pressure() && engine.state.load().second_sealed().is_some()
}
