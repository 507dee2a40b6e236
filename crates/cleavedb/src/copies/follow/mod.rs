//! Following: reading a database while another process writes it.
//!
//! A reader shows one *view* after the other: each is an engine for reading only, of what the
//! manifest and the log said at one moment. To catch up means to read what was added to the
//! manifest, then what the log has beyond it, and to make a view of both, which shares open files
//! with the one before; or, if only the log has grown, to make its records visible in the view that
//! there is. Snapshots, ranges and cursors keep the view that they were taken of.
//!
//! The writer knows nothing of its readers, so what is read changes meanwhile. Three facts make a
//! look consistent. An edit is readable before anything that it drops is removed, so files that are
//! missing mean that there are further edits. A record is believed only if it verifies at its
//! place. And the window says up to which sequence number commits are visible, before they are
//! acknowledged: a look that does not reach that number, as it was before, is made again. Without a
//! window file the log is in its files, and a look counts if the replay head was the same at its
//! end.

mod copies;
mod tail;

use std::sync::{Arc, Weak};
use std::time::Duration;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::swap::{ArcSwap, Guard};
use cleavedb_base::sync::{Mutex, thread};
use cleavedb_base::{Error, ErrorKind, FileNumber, Result, SeqNo};
use cleavedb_index::TableStore;
use cleavedb_storage::{
    FoundWindow, LeftWindow, MultiDirStorage, ObsoleteFiles, Storage, Watermark, WindowIdentity,
};

use self::tail::{LogSource, LogTail, incomplete};
use crate::control::gate::Intent;
use crate::control::progress::Progress;
use crate::engine::{Engine, Primary};
use crate::inspect::check::{self, CheckReport};
use crate::open::build::{BesideWriter, build};
use crate::open::directories::Directories;
use crate::open::recovery::{Recovered, block_cache};
use crate::open::replay::RecoveryReport;
use crate::operations::catalog::CatalogEntry;
use crate::settings::options::Options;
use crate::store::full_disk::FullDisk;
use crate::store::manifest::{Current, Followed, Manifest, News};
use crate::store::state::MemSlot;

/// Pauses between looks at what the writer changes meanwhile: about two seconds in all.
pub(crate) const PAUSES: Pauses = Pauses(0);

/// Whether a look that failed so may succeed a moment later.
pub(crate) fn may_pass(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Corruption | ErrorKind::Io | ErrorKind::Outdated)
}

/// Most looks, and the longest pause between two of them.
const LOOKS_MAX: u32 = 100;
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Pauses that grow from 50 microseconds on.
#[derive(Clone, Copy)]
pub(crate) struct Pauses(u32);

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0 += 1;
        let pause = Duration::from_micros(25 << self.0.min(10));
        (self.0 < LOOKS_MAX).then_some(pause.min(PAUSE_MAX))
    }
}

/// Most views that a read without a snapshot goes through.
const VIEWS_MAX: usize = 16;

/// Most views that are checked until one has no problem, or a problem that stays.
const CHECKS_MAX: usize = 5;

/// Memory of the MemTable of an engine that never has an entry, in bytes.
const NO_MEMORY: usize = 64 << 10;

/// What [`crate::Db::catch_up`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CatchUp {
    /// The sequence number up to which everything is seen now.
    pub seq: u64,
    /// Edits of the manifest that were read.
    pub edits: usize,
    /// Whether a manifest was read from its beginning: the writer has begun a new one.
    pub manifest_anew: bool,
    /// Whether the log was read from the replay head on: a flush, or a new session, has moved it.
    pub log_anew: bool,
    /// Operations that were read from the log.
    pub operations: u64,
    /// Bytes of the log that were read.
    pub log_bytes: u64,
}

/// Where a reader stands.
struct ReaderPosition {
    manifest: Followed,
    tail: LogTail,
    /// The window of the session, with its number.
    window: Option<(FileNumber, LeftWindow)>,
    /// Whether the manifest was read beyond the view.
    is_beyond_view: bool,
}

impl ReaderPosition {
    /// The sequence number up to which everything survives a loss of power, if `seq` is the last
    /// one that is known.
    fn durable(&self, seq: SeqNo) -> SeqNo {
        let live = self.manifest.live();
        let Some(session) = live.session else { return seq };
        let noted = self.window.as_ref().and_then(|(_, window)| window.mark(Watermark::Durable));
        seq.min(noted.unwrap_or(0).max(live.flushed).max(session.last_seq))
    }
}

/// A reader of a database that another process writes.
pub(crate) struct Follower {
    storage: Arc<MultiDirStorage>,
    options: Options,
    tables: Arc<TableStore>,
    boot_id: u64,
    /// Held while it catches up.
    place: Mutex<ReaderPosition>,
    view: ArcSwap<Engine>,
    /// All views that may still be read.
    views: Mutex<Vec<Weak<Engine>>>,
}

impl Follower {
    /// A reader of the database that `current` names, with its first view.
    pub(crate) fn new(
        storage: Arc<MultiDirStorage>,
        current: Current,
        options: Options,
    ) -> Result<Self> {
        let (cache, obsolete) = (block_cache(&options), Arc::new(ObsoleteFiles::default()));
        let tables = TableStore::new(storage.clone(), current.database_id, cache, obsolete);
        let tables = Arc::new(tables);
        let manifest = Followed::read(&*storage, current, &tables)?;
        let tail = LogTail::new(manifest.live(), options.memtable());
        let mut place = ReaderPosition { manifest, tail, window: None, is_beyond_view: true };
        let boot_id = storage.boot_id();
        let parts = ViewParts { storage: &storage, options: &options, tables: &tables, boot_id };
        let seq = parts.read(&mut place)?;
        let view = Arc::new(parts.view(&place, seq, None)?);
        extend(&view, &place, seq);
        (place.is_beyond_view, place.tail.has_news_of_system) = (false, false);
        let views = Mutex::new(vec![Arc::downgrade(&view)]);
        let (place, view) = (Mutex::new(place), ArcSwap::new(view));
        Ok(Self { storage, options, tables, boot_id, place, view, views })
    }

    /// An engine without data, which has options, gate and keyspaces for the handle.
    pub(crate) fn base(&self) -> Result<Engine> {
        let view = self.view();
        let place = self.place.lock();
        let mut empty = self.parts().recovered(&place, 0);
        empty.manifest = Manifest::of_nothing(self.storage.clone(), &place.manifest, &self.tables);
        empty.memtable = Some(Arc::new(MemSlot::new(NO_MEMORY, 0)));
        self.parts().build(&place, empty, Intent::Follow, Some(&**view))
    }

    fn parts(&self) -> ViewParts<'_> {
        let Self { storage, options, tables, boot_id, .. } = self;
        ViewParts { storage, options, tables, boot_id: *boot_id }
    }

    /// The current view.
    pub(crate) fn view(&self) -> Guard<Arc<Engine>> {
        self.view.load()
    }

    /// The current view, to be kept.
    pub(crate) fn own_view(&self) -> Arc<Engine> {
        self.view.load_full()
    }

    /// The view for a reader of many keys, to be kept. It is of the manifest as it is now: files
    /// that an older one names may be gone.
    pub(crate) fn fresh_view(&self) -> Arc<Engine> {
        let view = self.own_view();
        match view.is_outdated() && self.catch_up().is_ok() {
            true => self.own_view(),
            false => view,
        }
    }

    /// The answer of `read`, which is made again, in a later view, as long as it is outdated.
    pub(crate) fn again<T>(
        &self,
        read: impl Fn() -> T,
        first_error: impl Fn(&T) -> Option<&Error>,
    ) -> T {
        for _ in 1..VIEWS_MAX {
            let answer = read();
            let outdated = first_error(&answer).is_some_and(|e| e.kind() == ErrorKind::Outdated);
            if !outdated || self.catch_up().is_err() {
                return answer;
            }
        }
        read()
    }

    /// What it has come to.
    pub(crate) fn report(&self) -> RecoveryReport {
        RecoveryReport { operations: self.place.lock().tail.operations, ..Default::default() }
    }

    /// Sees everything that was acknowledged before the call.
    pub(crate) fn catch_up(&self) -> Result<CatchUp> {
        self.view().gate.check_open()?;
        let mut place = self.place.lock();
        let mut done = CatchUp::default();
        for pause in PAUSES {
            match self.look(&mut place, &mut done) {
                Err(e) if !may_pass(e.kind()) => return Err(e),
                Err(_) => thread::sleep(pause),
                Ok(()) => return Ok(done),
            }
        }
        self.look(&mut place, &mut done).map(|()| done)
    }

    /// Looks once at what the writer has added.
    fn look(&self, place: &mut ReaderPosition, done: &mut CatchUp) -> Result<()> {
        match place.manifest.look(&*self.storage, &self.tables)? {
            News::None => {}
            News::Edits(edits) => {
                (done.edits, place.is_beyond_view) = (done.edits + edits, true);
            }
            News::Anew => (done.manifest_anew, place.is_beyond_view) = (true, true),
        }
        if !place.tail.goes_on(place.manifest.live()) {
            place.tail = LogTail::new(place.manifest.live(), self.options.memtable());
            done.log_anew = true;
        }
        let before = (place.tail.operations, place.tail.bytes);
        let read = self.parts().read(place);
        done.operations += place.tail.operations - before.0;
        done.log_bytes += place.tail.bytes - before.1;
        let seq = read?.max(self.view().commit.visible());
        if place.is_beyond_view || place.tail.has_news_of_system {
            let view = Arc::new(self.parts().view(place, seq, Some(&**self.view()))?);
            extend(&view, place, seq);
            self.show(view);
            (place.is_beyond_view, place.tail.has_news_of_system) = (false, false);
        } else {
            extend(&self.view(), place, seq);
        }
        done.seq = seq;
        Ok(())
    }

    fn show(&self, view: Arc<Engine>) {
        let mut views = self.views.lock();
        views.retain(|view| view.strong_count() > 0);
        views.push(Arc::downgrade(&view));
        if self.view().gate.is_closed() {
            view.gate.close();
        }
        self.view.store(view);
    }

    /// Answers `read` in the current view. If the writer has removed what that needs, catches up
    /// and tries again.
    pub(crate) fn read<T>(
        &self,
        keyspace: &CatalogEntry,
        read: impl Fn(&Engine) -> Result<T>,
    ) -> Result<T> {
        for _ in 1..VIEWS_MAX {
            let view = self.own_view();
            keyspace.check()?;
            match read(&view).map_err(|e| view.explained(e)) {
                Err(e) if e.kind() == ErrorKind::Outdated => self.catch_up()?,
                answer => return answer,
            };
        }
        let view = self.own_view();
        read(&view).map_err(|e| view.explained(e))
    }

    /// Checks everything in one view. What is missing there may have been removed since it was
    /// made: a problem counts if the manifest is still the same.
    pub(crate) fn check(&self, progress: &Progress) -> Result<CheckReport> {
        for _ in 0..CHECKS_MAX {
            self.catch_up()?;
            let view = self.own_view();
            let is_outdated = || view.is_outdated() && !planted(Bug::CheckedOnce);
            match check::check(&view, progress) {
                Ok(report) if !report.problems.is_empty() && is_outdated() => {}
                Err(e) if may_pass(e.kind()) && is_outdated() => {}
                checked => return checked,
            }
        }
        let what = "the process that writes the database has removed files during each of several \
                    checks; call again when it writes less, or check a checkpoint of it";
        Err(Error::new(ErrorKind::Outdated, what).with("checks", CHECKS_MAX))
    }

    /// Refuses further calls; of snapshots, ranges and cursors too if `all` are to end.
    pub(crate) fn close(&self, all: bool) {
        for view in self.views.lock().iter().filter_map(Weak::upgrade) {
            view.gate.close();
            if all {
                view.gate.end();
            }
        }
    }
}

/// Has `view` see what was read of the log since it was made, everything up to `seq`.
fn extend(view: &Engine, place: &ReaderPosition, seq: SeqNo) {
    view.log_was_read(&place.tail.files);
    view.commit.follow(seq, place.tail.position, place.durable(seq));
}

/// What views are made of.
struct ViewParts<'a> {
    storage: &'a Arc<MultiDirStorage>,
    options: &'a Options,
    tables: &'a Arc<TableStore>,
    boot_id: u64,
}

impl ViewParts<'_> {
    /// Reads the log behind what was read of it. Returns the sequence number up to which everything
    /// is known; fails if the look may have missed something.
    fn read(&self, place: &mut ReaderPosition) -> Result<SeqNo> {
        let visible = self.find_window(place)?;
        let ReaderPosition { manifest, tail, window, is_beyond_view } = place;
        let live = manifest.live();
        let known = tail.last_known(live);
        let is_quiet = match live.session {
            Some(_) => visible.is_some_and(|visible| visible <= known),
            None => true,
        };
        if is_quiet && !*is_beyond_view {
            return Ok(known);
        }
        let database_id = manifest.current().database_id;
        let window = window.as_ref().map(|(_, window)| window);
        tail.advance(&LogSource { storage: &**self.storage, database_id, live, window })?;
        let (known, head) = (tail.last_known(live), live.head);
        if let Some(visible) = visible.filter(|visible| *visible > known)
            && !planted(Bug::ShortTailBelieved)
        {
            let error = incomplete("the log ends before what was acknowledged");
            let error = error.with("log_position", tail.position).with("read", known);
            return Err(error.with("acknowledged", visible));
        }
        if visible.is_none() && live.session.is_some() {
            *is_beyond_view |= manifest.look(&**self.storage, self.tables)? != News::None;
            if manifest.live().head != head {
                return Err(incomplete("the log was flushed while it was read"));
            }
        }
        Ok(known)
    }

    /// Finds the window of the session, and the greatest sequence number that is visible to users
    /// of the writer, if the window tells it.
    fn find_window(&self, place: &mut ReaderPosition) -> Result<Option<SeqNo>> {
        let failed = |e| Error::io("read the log window", e).with("file", "window");
        let session = place.manifest.live().session;
        let Some((number, boot)) = session.and_then(|s| Some((s.window?, s.boot_id))) else {
            place.window = None;
            return Ok(None);
        };
        let same_boot = boot != 0 && boot == self.boot_id;
        let database_id = place.manifest.current().database_id;
        let identity = WindowIdentity { database_id, number };
        if place.window.as_ref().is_none_or(|(known, _)| *known != number) {
            let found = LeftWindow::find(&**self.storage, identity, same_boot);
            place.window = match found.map_err(failed)? {
                FoundWindow::Ours(window) => Some((number, window)),
                FoundWindow::Unwritten | FoundWindow::Blank if !same_boot => None,
                _ => return Err(incomplete("the window of the session is not there")),
            };
        }
        let Some((_, window)) = place.window.as_mut().filter(|_| same_boot) else {
            return Ok(None);
        };
        // Twice: one copy may have a half of the number before and a half of the one after.
        let mut visible = window.mark(Watermark::Visible);
        for _ in 0..2 {
            let Some(again) = window.again().map_err(failed)? else {
                place.window = None;
                return Err(incomplete("the window of the session is not there"));
            };
            *window = again;
            visible = visible.max(window.mark(Watermark::Visible));
        }
        Ok(visible)
    }

    /// The engine of a view of what was read, everything up to `seq`.
    fn view(&self, place: &ReaderPosition, seq: SeqNo, earlier: Option<&Engine>) -> Result<Engine> {
        let mut recovered = self.recovered(place, seq);
        recovered.memtable = Some(place.tail.slot.clone());
        self.build(place, recovered, Intent::Read, earlier)
    }

    fn recovered(&self, place: &ReaderPosition, seq: SeqNo) -> Recovered {
        Recovered {
            manifest: Manifest::of_reader(self.storage.clone(), &place.manifest),
            database_id: place.manifest.current().database_id,
            tables: self.tables.clone(),
            obsolete_files: Arc::default(),
            memtable: None,
            position: place.tail.position,
            last_seq: seq,
            next_seq: seq + 1,
            // No file is created, so no number needs a salt.
            salt: 0,
            report: RecoveryReport::default(),
        }
    }

    fn build(
        &self,
        place: &ReaderPosition,
        recovered: Recovered,
        intent: Intent,
        earlier: Option<&Engine>,
    ) -> Result<Engine> {
        let mark = place.manifest.mark(self.storage.clone());
        let window = place.window.as_ref().map(|(_, window)| window.clone());
        let beside = BesideWriter { primary: Primary { mark, window }, earlier };
        let (_, full) = FullDisk::over(self.storage.first().storage.clone());
        let (placed, volumes, locks) = (self.storage.clone(), Vec::new(), Vec::new());
        let directories = Directories { placed, volumes, locks };
        // Whether changes are kept is a matter of the process that writes.
        let options = self.options.clone().keeping_log(place.manifest.live().changes.log.bytes);
        build(directories, options, recovered, None, full, intent, Some(beside))
            .map(|(engine, _)| engine)
    }
}
