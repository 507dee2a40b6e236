//! The counted bytes are those that the disk beneath tells, and no call exceeds the limit.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use cleavedb_base::FileNumber;
use cleavedb_base::limits::BLOCK;
use cleavedb_storage::quota::Budget;
use cleavedb_storage::{
    Access, File, FileKind, FileLayer, Mode, Name, QuotaStorage, RemoveMode, Storage, StorageLayer,
};
use cleavedb_storage_sim::Sim;
use proptest::prelude::{ProptestConfig, any, proptest};

const CAPACITY: u64 = 1 << 30;

/// A simulated disk, and a budget over it.
fn limited(limit: u64, apart: u64) -> (Sim, Arc<Budget>, Arc<dyn Storage>) {
    let sim = Sim::new();
    sim.set_capacity(CAPACITY);
    let budget = Arc::new(Budget::new(limit, apart));
    let limited = within(&budget, sim.clone());
    (sim, budget, limited)
}

fn within(budget: &Arc<Budget>, storage: impl Storage) -> Arc<dyn Storage> {
    Arc::new(QuotaStorage::new(Arc::new(storage), Arc::clone(budget)).unwrap())
}

fn used(sim: &Sim) -> u64 {
    CAPACITY - sim.free_space().unwrap()
}

fn table(number: u64) -> Name {
    Name::numbered(FileKind::Table, FileNumber(number))
}

fn create(storage: &Arc<dyn Storage>, name: Name) -> Arc<dyn File> {
    storage.open(&name, Mode::CreateNew, Access::Random).unwrap()
}

fn is_refused<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|e| e.kind() == io::ErrorKind::QuotaExceeded)
}

#[test]
fn what_would_exceed_the_limit_is_refused_and_changes_nothing() {
    let (sim, budget, storage) = limited(1000, 200);
    let file = create(&storage, table(1));
    file.write_at(&[1; 600], 0).unwrap();
    assert!(is_refused(file.write_at(&[1; 201], 600)));
    assert!(is_refused(file.allocate(801)));
    assert!(is_refused(file.truncate(801)));
    assert_eq!((budget.used(), used(&sim)), (600, 600));
    file.write_at(&[1; 100], 500).expect("what is rewritten takes nothing");
    file.write_at(&[1; 200], 600).unwrap();
    // Without metadata nothing could ever be removed again.
    let manifest = create(&storage, Name::numbered(FileKind::Manifest, FileNumber(2)));
    manifest.write_at(&[1; 150], 0).unwrap();
    assert_eq!((budget.used(), budget.data(), budget.most()), (950, 800, 800));
    manifest.write_at(&[1; 100], 150).unwrap();
    assert_eq!((budget.used(), storage.free_space().unwrap()), (1050, 0), "beyond what was apart");
}

#[test]
fn a_log_is_written_where_space_was_reserved() {
    let (_, budget, storage) = limited(1000, 0);
    let log = create(&storage, Name::numbered(FileKind::Log, FileNumber(1)));
    assert!(is_refused(log.allocate(1001)));
    log.allocate(900).unwrap();
    assert!(is_refused(create(&storage, table(2)).write_at(&[1; 101], 0)));
    log.write_at(&[1; 300], 0).unwrap();
    assert_eq!(budget.used(), 900);
    log.truncate(300).unwrap();
    assert_eq!(budget.used(), 300, "what was reserved is given back");
    log.truncate(200).unwrap();
    assert_eq!(budget.used(), 200);
}

#[test]
fn a_file_takes_space_until_its_last_handle_is_closed() {
    let (sim, budget, storage) = limited(1000, 0);
    let file = create(&storage, table(1));
    file.write_at(&[1; 600], 0).unwrap();
    let reader = storage.open(&table(1), Mode::Read, Access::Random).unwrap();
    storage.remove(&table(1), RemoveMode::Immediate).unwrap();
    drop(file);
    assert_eq!((budget.used(), used(&sim)), (600, 600));
    drop(reader);
    assert_eq!((budget.used(), used(&sim)), (0, 0));
}

#[test]
fn what_is_there_is_counted_and_a_name_that_is_taken_over_is_not_counted_twice() {
    let (sim, _, storage) = limited(1 << 20, 0);
    let new = Name::fixed(FileKind::CurrentNew);
    for name in [Name::fixed(FileKind::Current), new] {
        create(&storage, name).write_at(&[1; 100], 0).unwrap();
    }
    let file = create(&storage, table(1));
    file.write_at(&[1; 4 * BLOCK], 0).unwrap();
    file.punch(0, BLOCK as u64).unwrap();
    let budget = Arc::new(Budget::new(100, 0));
    let again = within(&budget, sim.clone());
    assert_eq!(budget.used(), 200 + 3 * BLOCK as u64, "more than the limit");
    assert!(is_refused(create(&again, table(2)).write_at(&[1], 0)));
    again.rename(&new, &Name::fixed(FileKind::Current)).unwrap();
    assert_eq!(budget.used(), used(&sim));
}

#[test]
fn plans_leave_room_for_others_and_end() {
    let (_, budget, storage) = limited(1000, 100);
    create(&storage, table(1)).write_at(&[1; 300], 0).unwrap();
    assert!(budget.plan(501, 100).is_none());
    let plan = budget.plan(500, 100).unwrap();
    assert!(budget.plan(1, 100).is_none() && budget.plan(100, 0).is_some());
    assert!(budget.plan(0, 200).is_some());
    drop(plan);
    assert!(budget.plan(500, 100).is_some() && budget.planned() == 0);
}

/// A storage whose files take their time to say what they take.
struct Slow(Sim);

impl StorageLayer for Slow {
    fn inner(&self) -> &dyn Storage {
        &self.0
    }

    fn open(&self, name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(SlowFile(self.0.open(name, mode, access)?)))
    }
}

struct SlowFile(Arc<dyn File>);

impl FileLayer for SlowFile {
    fn inner(&self) -> &dyn File {
        &*self.0
    }

    fn space(&self) -> io::Result<u64> {
        thread::sleep(Duration::from_millis(20));
        let space = self.0.space();
        thread::sleep(Duration::from_millis(20));
        space
    }
}

/// Each of two punches counted as freed what the other had freed.
#[test]
fn holes_that_are_punched_side_by_side_are_counted_once() {
    let (sim, budget, _) = limited(1 << 20, 0);
    let storage = within(&budget, Slow(sim.clone()));
    let file = create(&storage, table(1));
    file.write_at(&[1; 4 * BLOCK], 0).unwrap();
    thread::scope(|scope| {
        for block in [0, 2] {
            let file = &file;
            scope.spawn(move || file.punch(block * BLOCK as u64, BLOCK as u64).unwrap());
        }
    });
    assert_eq!((budget.used(), used(&sim)), (2 * BLOCK as u64, 2 * BLOCK as u64));
}

/// A call of the tests below: what it does, to which file, and two numbers.
type Call = (u8, u64, u16, u16);

/// After any calls on a few files the budget agrees with the disk.
fn budget_is_what_the_disk_says(calls: &[Call]) {
    let limit = 100_000;
    let (sim, budget, storage) = limited(limit, 0);
    sim.set_write_once(false);
    let mut open: HashMap<u64, Arc<dyn File>> = HashMap::new();
    for &(call, number, a, b) in calls {
        let (a, b) = (u64::from(a), u64::from(b));
        let exists = storage.list().unwrap().iter().any(|(name, _)| *name == table(number));
        if call == 0 {
            open.remove(&number);
        } else if call == 1 && exists {
            storage.remove(&table(number), RemoveMode::Immediate).unwrap();
        } else if !exists && !open.contains_key(&number) {
            open.insert(number, create(&storage, table(number)));
        }
        if let Some(file) = open.get(&number) {
            let len = file.len().unwrap();
            let done = match call {
                2 => file.write_at(&vec![1; b as usize], len).map(|_| ()),
                3 => file.allocate(a),
                4 => file.truncate(a.min(len)),
                5 => file.punch(a.min(len), b.min(len - a.min(len))),
                _ => Ok(()),
            };
            assert!(done.is_ok() || is_refused(done));
        }
        assert_eq!(budget.used(), used(&sim), "behind {call} of {number}");
        assert!(budget.used() <= limit);
    }
}

/// The rest of the hole was counted as taken, although no call had filled it.
#[test]
fn a_file_that_is_cut_within_a_hole_takes_no_more_than_before() {
    let cut = [(2, 3, 0, 61440), (5, 3, 49153, 12287), (2, 1, 0, 45066), (4, 3, 54935, 0)];
    budget_is_what_the_disk_says(&cut);
    for more in [(2, 3, 0, 10), (3, 3, 60_000, 0), (4, 3, 54_000, 0), (2, 3, 0, 9_000)] {
        budget_is_what_the_disk_says(&[&cut[..], &[more, (2, 3, 0, 100)]].concat());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_budget_is_what_the_disk_says(
        calls in proptest::collection::vec((0..6u8, 1..4u64, any::<u16>(), any::<u16>()), 1..60),
    ) {
        budget_is_what_the_disk_says(&calls);
    }
}
