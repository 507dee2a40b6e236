//! Changes: what was committed, batch by batch, as a replica or a cache follows it.
//!
//! The log has every commit in order, with whole values, whatever the layout makes of them later.
//! [`crate::Options::change_retention_bytes`] keeps a part of it, and a reader walks through its
//! files and then through the window (`docs/decisions/0051-changes-are-read-from-the-log.md`).
//! Writers do nothing for it. Bulk loads are not in the log: the manifest has them, and the reader
//! puts each in its place.

mod source;
mod batches;
mod walk;
mod names;
mod told;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::thread;
use cleavedb_base::{Error, ErrorKind, Result, SeqNo};

use crate::control::debug::debug;
use crate::engine::Engine;
use crate::operations::commit::Commit;
use crate::store::manifest::Session;

use names::Names;
use walk::{BatchBoundary, BatchOutcome, gone, place_before, walk};

pub(crate) use source::ChangeSource;
pub use told::{Change, ChangeBatch, ChangeKind};

/// Bytes of batches that are read ahead of the caller.
const READ_AHEAD: usize = 1 << 20;

/// Pauses between two looks of a reader that waits: the first one, and the longest.
const PAUSE: Duration = Duration::from_micros(500);
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// Reads what was committed, in commit order, each batch exactly once: see [`crate::Db::changes`].
///
/// An iterator that is not over when it returns `None`: then nothing more is there now, and a later
/// call returns what was committed since. It holds neither files nor a snapshot, so it keeps
/// nothing from being removed: a reader that falls behind what is kept gets
/// [`ErrorKind::NotRetained`]. A database that was closed cannot be opened again before its readers
/// are dropped, unless they are those of a secondary.
pub struct Changes {
    source: ChangeSource,
    /// The session that the place belongs to, if another process writes the database.
    session: Option<Session>,
    /// Every batch before was read.
    next: SeqNo,
    /// Every batch before was returned.
    returned: SeqNo,
    place: Option<BatchBoundary>,
    durable_only: bool,
    names: Names,
    ready: VecDeque<ChangeBatch>,
    /// Why a wait ended: the next call returns it.
    failed: Option<Error>,
}

debug!(Changes, |changes| { next_seq: changes.next_seq() });

impl Changes {
    /// The changes from sequence number `from` on.
    pub(crate) fn new(source: ChangeSource, from: SeqNo) -> Result<Self> {
        let next = from.max(1);
        let (place, session) = source.read(|engine| {
            let place = find(engine, next)?;
            Ok((place, source.session(&engine.manifest)))
        })?;
        Ok(Self {
            source,
            session,
            next,
            returned: next,
            place,
            durable_only: false,
            names: Names::default(),
            ready: VecDeque::new(),
            failed: None,
        })
    }

    /// From now on returns only batches that survive a loss of power. A replica that must never
    /// have what its source has lost reads so: without this, batches that were acknowledged with
    /// less than [`crate::Durability::Sync`] may be lost after they were returned.
    #[must_use]
    pub fn durable_only(mut self) -> Self {
        self.durable_only = true;
        self
    }

    /// The sequence number from which on a later [`crate::Db::changes`] goes on: what follows the
    /// last batch that was returned.
    pub fn next_seq(&self) -> u64 {
        self.returned
    }

    /// Waits until [`Iterator::next`] has a batch or an error to return, for at most `timeout`.
    /// Returns whether it has. Looks every few milliseconds, so that writers do nothing for it. On
    /// a secondary it catches up with each look ([`crate::Db::catch_up`]).
    pub fn wait(&mut self, timeout: Duration) -> bool {
        let (begun, mut pause) = (Instant::now(), PAUSE);
        loop {
            match self.source.catch_up().and_then(|()| self.fill()) {
                Ok(()) if self.ready.is_empty() => {}
                filled => {
                    self.failed = filled.err();
                    return true;
                }
            }
            let left = timeout.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return false;
            }
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// The last sequence number that may be returned now.
    fn upto(&self, commit: &Commit) -> SeqNo {
        let visible = commit.visible();
        if planted(Bug::ChangesAhead) {
            return visible;
        }
        match self.durable_only {
            true => visible.min(commit.durable()),
            false => visible,
        }
    }

    /// Reads until something is ready, or nothing more is there.
    fn fill(&mut self) -> Result<()> {
        if !self.ready.is_empty() {
            return self.source.check_open();
        }
        let source = self.source.clone();
        source.read(|engine| {
            engine.gate.check_open()?;
            self.begin_session(engine)?;
            while self.ready.is_empty() {
                let upto = self.upto(&engine.commit);
                if upto < self.next || self.read(engine, upto)? == BatchOutcome::On {
                    break;
                }
            }
            Ok(())
        })
    }

    /// In a new session of another process, goes on behind what was returned, if that is not lost.
    fn begin_session(&mut self, engine: &Engine) -> Result<()> {
        let session = self.source.session(&engine.manifest);
        if session != self.session && !planted(Bug::ChangesOfLostSession) {
            let place = find(engine, self.returned)?;
            (self.place, self.session, self.next) = (place, session, self.returned);
            self.ready.clear();
            self.names = Names::default();
        }
        Ok(())
    }

    /// Fails if something that was not read is not kept any more.
    fn check_kept(&self, engine: &Engine) -> Result<()> {
        check_kept(engine, self.next)
    }

    /// Reads some batches up to `upto`.
    fn read(&mut self, engine: &Engine, upto: SeqNo) -> Result<BatchOutcome> {
        match self.read_on(engine, upto) {
            // The file of the place went, and nothing in it was still to be read.
            Err(e) if e.kind() == ErrorKind::NotRetained && self.place.take().is_some() => {
                self.check_kept(engine)?;
                self.read_on(engine, upto)
            }
            read => read,
        }
    }

    fn read_on(&mut self, engine: &Engine, upto: SeqNo) -> Result<BatchOutcome> {
        let (mut place, mut bytes) = (self.place, 0);
        let step = walk(engine, &mut place, |batch| {
            if batch.last() < self.next {
                return Ok(BatchOutcome::On);
            }
            if batch.first() > upto {
                return Ok(BatchOutcome::Before);
            }
            // Files between this one and the one before may have gone.
            self.check_kept(engine)?;
            self.tell_loads(engine, batch.first())?;
            bytes += batch.bytes();
            let last = batch.last();
            self.ready.extend(told::batch(engine, batch, &mut self.names, self.place)?);
            self.next = last + 1;
            Ok(if bytes < READ_AHEAD { BatchOutcome::On } else { BatchOutcome::Last })
        })?;
        self.place = place;
        self.check_kept(engine)?;
        // Every batch up to that number was read.
        if step != BatchOutcome::Last {
            self.tell_loads(engine, upto + 1)?;
            self.next = self.next.max(upto + 1);
            return Ok(BatchOutcome::On);
        }
        Ok(step)
    }

    /// Puts bulk loads with numbers below `before` in their place.
    fn tell_loads(&mut self, engine: &Engine, before: SeqNo) -> Result<()> {
        while let Some(load) = engine.retained_log.load_from(self.next) {
            if load.seq >= before {
                break;
            }
            self.next = load.seq + 1;
            self.ready.push_back(told::load(engine, load, &mut self.names, self.place)?);
        }
        Ok(())
    }
}

impl Iterator for Changes {
    type Item = Result<ChangeBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let filled = self.failed.take().map_or_else(|| self.fill(), Err);
        match filled {
            Ok(()) => {
                let batch = self.ready.pop_front()?;
                self.returned = batch.next_seq();
                Some(Ok(batch))
            }
            Err(e) => Some(Err(e)),
        }
    }
}

/// Fails if not everything from `next` on is kept.
fn check_kept(engine: &Engine, next: SeqNo) -> Result<()> {
    match engine.retained_log.first_seq() {
        Some(first) if first <= next => Ok(()),
        _ => Err(gone(&engine.retained_log)),
    }
}

/// The place of the first batch from `next` on. Fails if the reader has seen what is not there: the
/// number before is not one at which this database has been.
fn find(engine: &Engine, next: SeqNo) -> Result<Option<BatchBoundary>> {
    check_kept(engine, next)?;
    let visible = engine.commit.visible();
    let seen = next - 1;
    let mut place = place_before(engine, seen)?;
    let (mut before, mut behind) = (None, None);
    walk(engine, &mut place, |batch| {
        if batch.last() < next {
            before = Some(batch.last());
            return Ok(BatchOutcome::On);
        }
        behind = Some(batch.first());
        Ok(BatchOutcome::Before)
    })?;
    let is_load = || engine.retained_log.load_from(seen).is_some_and(|load| load.seq <= next);
    let was_there = before == Some(seen)
        || behind.is_some_and(|behind| behind <= next)
        || engine.retained_log.first_seq() == Some(next);
    if was_there || seen == visible || is_load() {
        return Ok(place);
    }
    let what = "the reader has seen changes that the database has lost since, in a loss of power: \
                copy what a snapshot sees, and go on behind its sequence number (`durable_only` \
                returns no such changes)";
    Err(Error::new(ErrorKind::NotRetained, what).with("from", next).with("last", visible))
}
