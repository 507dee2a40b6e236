//! The read state under every schedule of one reader and of threads that change it: a key that
//! moves from a MemTable into a table, and on into the next one, is found exactly once at any time,
//! and no table is removed while a read state names it.
//!
//! All code is the engine's except the swap itself, which `arc-swap` does in the engine: here it is
//! behind a lock (`base/src/sync/checked.rs`). The tables are written beforehand to a real
//! directory, whose system calls the checker does not see, so only memory is explored.

use std::sync::Arc;

use cleavedb_base::checksum::hash64;
use cleavedb_base::record::FileIdentity;
use cleavedb_base::sync::atomic::{AtomicU64, Ordering};
use cleavedb_base::sync::checker::thread;
use cleavedb_base::{EntryKind, FileNumber, Lasting, SeqNo};
use cleavedb_index::edit::AddedTable;
use cleavedb_index::{
    BlockCache, DeletedRanges, Entry, RunPosition, TableBuilder, TableMeta, TableOptions,
    TableStore, Version, VersionEdit,
};
use cleavedb_storage::{Access, Disk, FileKind, Mode, Name, ObsoleteFiles, Storage};
use cleavedb_values::SegmentSet;

use crate::control::publish::Publisher;
use crate::reads::search::{Found, Hit};
use crate::store::state::{MemSlot, ReadState, ReadStates};

/// The answer of a read state for the key.
fn newest(state: &ReadState, visible: SeqNo) -> Option<Found> {
    let hash = hash64(KEY, 0);
    let in_memory = state.memtables.iter().find_map(|slot| slot.table.get(KEY, hash, visible));
    let in_tables = || state.version.get(KEY, hash, visible).unwrap().map(Hit::from);
    let hit = in_memory.map(Hit::from).or_else(in_tables)?;
    Found::of(hit, || 0).unwrap()
}

const KEY: &[u8] = b"\0\0key";
const DATABASE_ID: u64 = 1;

/// Numbers of the flush's run, and of the table that the compaction makes of it.
const RUN: FileNumber = FileNumber(1);
const BELOW: FileNumber = FileNumber(2);

/// Both tables on disk. Each holds only the second version of the key: it is visible before the
/// flush begins, so no reader needs the first.
struct Files {
    dir: tempfile::TempDir,
    tables: [TableMeta; 2],
}

impl Files {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path(), false).unwrap();
        let tables = [RUN, BELOW].map(|number| {
            let name = Name::numbered(FileKind::Table, number);
            let file = disk.open(&name, Mode::CreateNew, Access::Random).unwrap();
            let identity = FileIdentity::new(DATABASE_ID, number);
            let options = TableOptions::default();
            let mut builder = TableBuilder::new(file, identity, number, &options).unwrap();
            let kind = EntryKind::Inline;
            builder.add(Entry { key: KEY, seq: 2, kind, repeat: false, value: &[2] }).unwrap();
            builder.finish().unwrap()
        });
        Self { dir, tables }
    }
}

/// Explores `check` with files that were written before every schedule.
fn explore(check: fn(&Files)) {
    let files = Files::new();
    super::explore(move || check(&files));
}

/// The state that readers share with the threads that change it.
struct World {
    publisher: Publisher,
    pictures: ReadStates,
    /// A full MemTable with the first version of the key.
    full: Arc<MemSlot>,
    obsolete_files: Arc<ObsoleteFiles>,
    /// Number of the table that was removed.
    removed: AtomicU64,
}

/// The versions that the jobs will publish; only this holds them before.
struct Work {
    flushed: Arc<Version>,
    compacted: Arc<Version>,
    compaction: VersionEdit,
}

fn begin(files: &Files) -> (Arc<World>, Work) {
    let (obsolete_files, cache) =
        (Arc::new(ObsoleteFiles::default()), Arc::new(BlockCache::new(1 << 20)));
    let disk = Arc::new(Disk::open(files.dir.path(), false).unwrap());
    let store = TableStore::new(disk, DATABASE_ID, cache, obsolete_files.clone());
    let empty = Arc::new(Version::empty(Arc::new(store)));
    let [run, below] = files.tables.clone();
    let mut flush = VersionEdit::default();
    flush.add_run(RunPosition { epoch: 1, order: 0 }, [run]);
    let flushed = Arc::new(empty.apply(&flush).unwrap());
    let added = vec![AddedTable { level: 1, position: None, meta: below }];
    let compaction = VersionEdit { removed: vec![RUN], added };
    let compacted = Arc::new(flushed.apply(&compaction).unwrap());
    let full = Arc::new(MemSlot::new(0, 0));
    full.table.insert(KEY, hash64(KEY, 0), 1, EntryKind::Inline, &[1]);
    let memtables = vec![full.clone()];
    let first = ReadState {
        memtables,
        version: empty,
        segments: Arc::default(),
        groups: Arc::default(),
        deleted: DeletedRanges::default(),
    };
    let (publisher, pictures) = (Publisher::new(1), ReadStates::new(first));
    let world = World { publisher, pictures, full, obsolete_files, removed: AtomicU64::new(0) };
    (Arc::new(world), Work { flushed, compacted, compaction })
}

impl World {
    /// The second version is committed, and the MemTable is full.
    fn commit(&self) {
        self.full.table.insert(KEY, hash64(KEY, 0), 2, EntryKind::Inline, &[2]);
        self.publisher.complete(0, 2, 0, |_, _| {});
    }

    /// Another MemTable takes the commits.
    fn rotate(&self) {
        let young = Arc::new(MemSlot::new(0, 0));
        self.pictures.swap(|state| state.with_memtable(young.clone()));
    }

    fn flush(&self, work: &Work) {
        let groups = Arc::default();
        let opened = SegmentSet::default();
        self.pictures.flushed(&self.full, &work.flushed, &opened, &[], &groups);
    }

    /// As the engine installs it, but for the edit.
    fn compact(&self, work: Work) {
        self.pictures.swap(|state| state.with_version(work.compacted.clone()));
        work.flushed.retire(&work.compaction);
        drop(work);
        if let Some(name) = self.obsolete_files.take_name() {
            self.removed.store(name.number().0, Ordering::Release);
        }
    }

    /// The version of the key that a reader finds, in a read state that holds it in one place.
    fn look(&self) -> SeqNo {
        let (state, visible) = self.pictures.look(|| self.publisher.visible());
        let in_memory = state.memtables.iter().any(|slot| Arc::ptr_eq(slot, &self.full));
        let in_tables = state.version.tables().count();
        assert_eq!(usize::from(in_memory) + in_tables, 1, "places of the key in one read state");
        let Some(Found::Value(Lasting { value, .. })) = newest(&state, visible) else {
            panic!("the key is not found at {visible}");
        };
        let removed = self.removed.load(Ordering::Acquire);
        let gone = state.version.tables().any(|(_, table)| table.number().0 == removed);
        assert!(!gone, "table {removed} is gone, and the read state names it");
        SeqNo::from(value[0])
    }
}

/// A commit, a flush, a compaction of its run and the end of the run, while a reader looks.
fn a_reader_beside_jobs(files: &Files) {
    let (world, work) = begin(files);
    let jobs = {
        let world = world.clone();
        thread::spawn(move || {
            world.commit();
            world.flush(&work);
            world.compact(work);
        })
    };
    let first = world.look();
    assert!(world.look() >= first, "a look-up went back in time");
    jobs.join().unwrap();
    assert_eq!(world.look(), 2);
}

/// A writer begins a MemTable while the one before it is flushed.
fn a_rotation_beside_a_flush(files: &Files) {
    let (world, work) = begin(files);
    world.commit();
    let flush = {
        let world = world.clone();
        thread::spawn(move || world.flush(&work))
    };
    world.rotate();
    world.rotate();
    flush.join().unwrap();
    assert_eq!(world.look(), 2);
    assert_eq!(world.pictures.load().memtables.len(), 2, "a MemTable is lost");
}

#[test]
fn a_key_that_moves_is_found_and_its_table_stays() {
    explore(a_reader_beside_jobs);
}

#[test]
fn no_change_of_the_picture_is_lost() {
    explore(a_rotation_beside_a_flush);
}

#[cfg(feature = "test-planted-bugs")]
mod planted {
    use cleavedb_base::planted::{Bug, must_notice};

    use super::{a_reader_beside_jobs, a_rotation_beside_a_flush, explore};

    #[test]
    fn a_memtable_that_goes_before_its_run_comes() {
        must_notice(Bug::MemTableBeforeItsRun, || explore(a_reader_beside_jobs));
    }

    #[test]
    fn a_read_that_looks_first_and_takes_the_picture_then() {
        must_notice(Bug::VisibleBeforePicture, || explore(a_reader_beside_jobs));
    }

    #[test]
    fn a_table_that_goes_under_its_readers() {
        must_notice(Bug::BuriedUnderReaders, || explore(a_reader_beside_jobs));
    }

    #[test]
    fn a_change_that_overwrites_another() {
        must_notice(Bug::PictureOverwritten, || explore(a_rotation_beside_a_flush));
    }
}
