//! The engine's own threads side by side, on real threads: what one is held in keeps no other.
//!
//! A door in the storage holds a job in its middle ([`Gated`]); the others must go on meanwhile.
//! Below level 0 tables lie on a second disk, so a table that is created there is a compaction's,
//! one that is created on the first is a flush's or of a merge within level 0.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use cleavedb::tuning::Level0;
use cleavedb::{Background, Db, FileClass, Preset};
use cleavedb_storage::{FileKind, RemoveMode, Storage};
use cleavedb_storage_sim::Sim;
use cleavedb_testkit::gated::{Door, eventually};
use cleavedb_testkit::session::open_all;
use cleavedb_testkit::{Disks, Gated, Setup};

/// Time after which something counts as kept waiting: far more than a busy machine takes for it.
const LIMIT: Duration = Duration::from_secs(30);

/// Time in which something that does not wait would be done.
const MOMENT: Duration = Duration::from_millis(300);

/// Time that threads get after each round to begin what is due.
const LOOK: Duration = Duration::from_millis(20);

/// Rounds of writes after which a compaction must have begun.
const ROUNDS: u32 = 200;

/// A database on two disks, each with a door.
struct Store {
    db: Db,
    sims: Vec<Sim>,
    doors: [Arc<Gated>; 2],
    model: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
}

fn setup(workers: usize) -> Setup {
    let mut setup = Setup::tiny(Preset::Ohdb, true).on_two_disks([FileClass::Levels]);
    setup.options.background = Background::Threads(workers);
    setup.options.tuning.level0 = Some(Level0::Partitions(4));
    // Writers are stopped at four times this, which no test comes near to.
    setup.options.tuning.level0_bytes = Some(64 << 10);
    setup.options.tuning.level1_bytes = Some(1 << 20);
    setup
}

impl Store {
    /// Some keys in level 1, so that a compaction has to merge.
    fn new(workers: usize) -> Self {
        let setup = setup(workers);
        let disks = Disks::new(&setup);
        disks.stop_recording();
        let doors = [0, 1].map(|disk: usize| {
            let sim: Arc<dyn Storage> = Arc::new(disks.sims()[disk].clone());
            Arc::new(Gated::new(sim))
        });
        let storages = doors.clone().map(|door| -> Arc<dyn Storage> { door });
        let db = open_all(&storages, &setup).unwrap();
        let store = Self { db, sims: disks.sims().to_vec(), doors, model: Mutex::default() };
        (0..30).for_each(|round| store.write(round));
        store.db.compact().unwrap();
        store
    }

    /// Some keys from all over.
    fn write(&self, round: u32) {
        for i in round * 20..round * 20 + 20 {
            let key = (i.wrapping_mul(2_654_435_761) % 2000).to_be_bytes();
            let value = vec![i as u8; 300];
            self.db.put(key, &value).unwrap();
            self.model.lock().unwrap().insert(key.to_vec(), value);
        }
    }

    /// Writes and flushes; fails if it is kept waiting.
    fn write_and_flush(self: &Arc<Self>, round: u32) {
        let flushed = begin(self, move |store| {
            store.write(round);
            store.db.flush().unwrap();
        });
        flushed.recv_timeout(LIMIT).expect("writes or a flush are kept waiting");
    }

    /// Writes and flushes until `done`.
    fn write_until(self: &Arc<Self>, done: impl Fn() -> bool) {
        let written = (30..30 + ROUNDS).any(|round| {
            self.write_and_flush(round);
            eventually(LOOK, &done)
        });
        assert!(written, "no compaction began");
    }

    /// Writes and flushes until `count` threads wait at the door of the second disk: compactions,
    /// or halves of one.
    fn write_until_held(self: &Arc<Self>, count: usize) {
        self.write_until(|| self.doors[1].waiting() >= count);
    }

    fn tables(&self) -> Vec<u64> {
        let listed = self.sims.iter().flat_map(|sim| sim.list().unwrap());
        let tables = listed.filter(|(name, _)| name.kind() == FileKind::Table);
        tables.map(|(name, _)| name.number().0).collect()
    }

    /// Bytes of all tables, dead or not.
    fn table_bytes(&self) -> u64 {
        let listed = self.sims.iter().flat_map(|sim| sim.list().unwrap());
        let tables = listed.filter(|(name, _)| name.kind() == FileKind::Table);
        tables.map(|(_, len)| len).sum()
    }

    /// Nothing is lost or out of order, and no work is left: a job that had ended, but still held
    /// what it had retired, let a settle return before it was queued.
    fn check(&self) {
        self.db.wait_idle().unwrap();
        let live: usize = self.db.metrics().levels.iter().map(|level| level.tables).sum();
        assert_eq!(self.tables().len(), live, "dead tables are left");
        let items = self.db.range(..).map(|item| item.unwrap());
        let content: BTreeMap<_, _> =
            items.map(|item| (item.key.to_vec(), item.value.to_vec())).collect();
        assert!(content == *self.model.lock().unwrap(), "the content differs from the model");
        assert!(self.db.verify().unwrap().problems.is_empty());
    }
}

/// Does `work` in a thread of its own; what comes out of it says that it is done.
fn begin(store: &Arc<Store>, work: impl FnOnce(&Store) + Send + 'static) -> Receiver<()> {
    let (done, outcome) = channel();
    let store = store.clone();
    thread::spawn(move || {
        work(&store);
        let _ = done.send(());
    });
    outcome
}

/// "A flush is never kept waiting by compactions" (decision 0012): with a worker in the middle
/// of one, writers and flushes go on.
#[test]
fn a_flush_is_never_kept_waiting_by_compactions() {
    let store = Arc::new(Store::new(2));
    let held = store.doors[1].hold(Door::Create, FileKind::Table, usize::MAX);
    store.write_until_held(1);
    let compactions = store.db.metrics().compactions;
    for round in 0..3 {
        store.write_and_flush(500 + round);
    }
    assert!(store.doors[1].waiting() >= 1, "the compaction still runs");
    assert!(store.db.metrics().compactions - compactions <= 3, "merges within level 0 only");
    drop(held);
    store.check();
}

/// "Several can run side by side" (decision 0012).
#[test]
fn compactions_of_different_buckets_run_at_the_same_time() {
    let store = Arc::new(Store::new(3));
    let held = store.doors[1].hold(Door::Create, FileKind::Table, usize::MAX);
    // One compaction may hold two threads, for the halves of its keys.
    store.write_until_held(3);
    drop(held);
    store.check();
}

/// With small MemTables there was always a flush due, and none of the threads that were to flush
/// first came to remove files: the disk filled with dead ones.
#[test]
fn dead_files_go_although_a_flush_is_always_due() {
    let store = Arc::new(Store::new(1));
    let reader = store.db.range(..);
    let before = store.tables();
    store.write(400);
    store.db.compact().unwrap();
    let dead = || store.tables().iter().filter(|table| before.contains(table)).count();
    assert_eq!(dead(), before.len(), "a reader holds what the compaction has rewritten");
    let compacting = store.doors[1].hold(Door::Create, FileKind::Table, usize::MAX);
    store.write_until_held(1);
    let flushing = store.doors[0].hold(Door::Create, FileKind::Table, usize::MAX);
    let flushed = begin(&store, |store| {
        store.write(401);
        store.db.flush().unwrap();
    });
    assert!(eventually(LIMIT, || store.doors[0].waiting() == 1), "a flush begins");
    drop(reader);
    assert!(eventually(LIMIT, || dead() == 0), "dead files wait for a flush");
    drop((flushing, compacting));
    flushed.recv_timeout(LIMIT).unwrap();
    store.check();
}

/// Who waited for all work was told that there was none while a thread removed the last file.
#[test]
fn settle_waits_for_what_is_being_given_back() {
    let store = Arc::new(Store::new(1));
    store.db.wait_idle().unwrap();
    let held = store.doors[1].hold(Door::Remove, FileKind::Table, 1);
    store.write_until(|| store.doors[1].waiting() == 1);
    let settled = begin(&store, |store| store.db.wait_idle().unwrap());
    let early = settled.recv_timeout(MOMENT).is_ok();
    assert!(!early, "a file was being removed");
    drop(held);
    settled.recv_timeout(LIMIT).unwrap();
    store.check();
}

/// Each rest after a cut is as long as the cut: with nothing to bound them, dead files would fill
/// the disk of a database that makes them faster than half of the device's time removes them.
#[test]
fn files_are_removed_without_rests_once_removal_has_fallen_behind() {
    let store = Arc::new(Store::new(1));
    let dead_bytes_max = 32 * store.db.options().tuning.table_bytes;
    let live = || store.db.metrics().levels.iter().map(|level| level.bytes).sum::<u64>();
    let held = store.doors[1].hold(Door::Remove, FileKind::Table, 1);
    let removed = || store.doors.each_ref().map(|door| door.removed()).concat();
    store.write_until(|| store.table_bytes() > live() + 2 * dead_bytes_max);
    removed();
    drop(held);
    store.db.wait_idle().unwrap();
    let paces = removed();
    assert!(
        paces.len() > 32 && paces[..3].contains(&RemoveMode::Immediate),
        "far behind: {paces:?}"
    );
    store.check();
}
