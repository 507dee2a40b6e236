//! What a full disk gets from the reserve, and what an earlier process left of it.

use std::io;
use std::sync::Arc;

use cleavedb_base::FileNumber;
use cleavedb_storage::api::{is_full, write_all_at};
use cleavedb_storage::{
    Access, Borrower, FileKind, Mode, Name, RemoveMode, Reserve, Reserving, Storage, Wanted,
    Window, WindowIdentity,
};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::faulty::{Fault, Faulty, Op, Rule};

const KIB: u64 = 1 << 10;

fn wanted(len: u64, most: u64) -> Wanted {
    Wanted { len, names: 8 * KIB, flushes: 0, most }
}

fn reserving(sim: &Sim) -> (Arc<Reserve>, Reserving) {
    let storage: Arc<dyn Storage> = Arc::new(sim.clone());
    let reserve = Arc::new(Reserve::new(storage.clone()));
    (reserve.clone(), Reserving::new(storage, reserve))
}

#[test]
fn a_full_disk_is_written_from_the_reserve_and_data_leaves_some_of_it() {
    let sim = Sim::new();
    let (reserve, storage) = reserving(&sim);
    sim.set_capacity(100 * KIB);
    reserve.keep(wanted(64 * KIB, 64 * KIB));
    assert!(!reserve.is_short() && sim.free_space().unwrap() == 36 * KIB);
    let create = |kind, number| {
        let name = Name::numbered(kind, FileNumber(number));
        storage.open(&name, Mode::CreateNew, Access::Random).unwrap()
    };
    let table = create(FileKind::Table, 1);
    write_all_at(&*table, &[7; 80 << 10], 0).unwrap();
    assert!(reserve.is_short() && reserve.len() <= 20 * KIB);
    assert!(!reserve.lend(KIB, Borrower::Deletes), "a third is for data");
    let error = write_all_at(&*table, &[7; 16 << 10], 80 * KIB).unwrap_err();
    assert!(is_full(&error) && reserve.len() == 12 * KIB, "{}", reserve.len());
    let manifest = create(FileKind::Manifest, 2);
    write_all_at(&*manifest, &[7; 4 << 10], 0).unwrap();
    reserve.keep(wanted(64 * KIB, 64 * KIB));
    assert!(reserve.is_short(), "there is no room yet");
    storage.remove(&Name::numbered(FileKind::Table, FileNumber(1)), RemoveMode::Immediate).unwrap();
    drop(table);
    reserve.keep(wanted(64 * KIB, 64 * KIB));
    assert!(!reserve.is_short() && reserve.len() == 64 * KIB);
}

/// A regression: each look at a full disk reserved what it has not.
#[test]
fn no_more_is_reserved_than_is_free() {
    let sim = Sim::new();
    let (reserve, _) = reserving(&sim);
    sim.set_capacity(40 * KIB);
    for capacity in [40, 40, 41, 48] {
        sim.set_capacity(capacity * KIB);
        reserve.keep(wanted(64 * KIB, 64 * KIB));
        assert!(reserve.is_short() && reserve.len() == capacity / 4 * 4 * KIB);
    }
    assert_eq!(sim.refused_reservations(), 0);
}

/// A file system may have less than it says, as under a quota of the user.
#[test]
fn what_was_refused_is_asked_for_again_once_more_is_free() {
    let sim = Sim::new();
    let faulty = Arc::new(Faulty::new(Arc::new(sim.clone())));
    let reserve = Reserve::new(faulty.clone());
    sim.set_capacity(100 * KIB);
    faulty.fail_next(Rule::both(Op::Allocate, FileKind::Reserve), Fault::NoSpace);
    for _ in 0..2 {
        reserve.keep(wanted(64 * KIB, 64 * KIB));
        assert!(reserve.is_short() && reserve.is_empty());
    }
    sim.set_capacity(104 * KIB);
    reserve.keep(wanted(64 * KIB, 64 * KIB));
    assert!(!reserve.is_short());
}

/// A regression: on a full disk a flush borrowed space, and a writer that looked at the disk took
/// it back into the reserve before the flush had written, again and again, until the lent length
/// overflowed and nothing more was lent: the flush never ended.
#[test]
fn what_is_lent_is_not_taken_back_before_its_use() {
    let sim = Sim::new();
    let (reserve, _) = reserving(&sim);
    sim.set_capacity(100 * KIB);
    reserve.keep(wanted(64 * KIB, 64 * KIB));
    let mut calls = 0;
    let done: io::Result<()> = reserve.lending(KIB, Borrower::Data, || {
        calls += 1;
        assert!(calls < 100, "a call is repeated for ever");
        reserve.keep(wanted(64 * KIB, 64 * KIB));
        Err(io::ErrorKind::StorageFull.into())
    });
    assert!(is_full(&done.unwrap_err()) && reserve.is_short());
    reserve.keep(wanted(64 * KIB, 64 * KIB));
    assert!(!reserve.is_short() && reserve.len() == 64 * KIB);
}

/// Cutting a file that shares its blocks with a copy writes its last block to a new place:
/// after a crash such a store could not be opened on a full disk.
#[test]
fn a_file_is_cut_with_what_the_reserve_has() {
    let faulty = Arc::new(Faulty::new(Arc::new(Sim::new())));
    let reserve = Arc::new(Reserve::new(faulty.clone()));
    reserve.keep(wanted(64 * KIB, 64 * KIB));
    let storage = Reserving::new(faulty.clone(), reserve.clone());
    let name = Name::numbered(FileKind::Log, FileNumber(1));
    let file = storage.open(&name, Mode::CreateNew, Access::Random).unwrap();
    write_all_at(&*file, &[7; 5000], 0).unwrap();
    faulty.fail_next(Rule::both(Op::Truncate, FileKind::Log), Fault::NoSpace);
    file.truncate(4999).unwrap();
    assert_eq!(file.len().unwrap(), 4999);
    assert!(reserve.is_short() && reserve.len() < 64 * KIB);
}

#[test]
fn what_an_earlier_process_left_is_lent_and_what_is_too_long_is_cut() {
    let sim = Sim::new();
    reserving(&sim).0.keep(wanted(256 * KIB, u64::MAX));
    let sim = Sim::from_image(sim.image());
    sim.set_capacity(256 * KIB);
    let (reserve, storage) = reserving(&sim);
    let name = Name::numbered(FileKind::Manifest, FileNumber(1));
    let file = storage.open(&name, Mode::CreateNew, Access::Random).unwrap();
    write_all_at(&*file, &[7; 100 << 10], 0).unwrap();
    assert!(reserve.is_short());
    reserve.keep(wanted(KIB, KIB));
    assert!(!reserve.is_short() && reserve.len() == KIB);
}

/// A directory without room for a name failed with the file; only its blocks were done without.
#[test]
fn a_full_disk_without_room_for_the_name_of_a_window_has_it_in_memory() {
    let storage = Faulty::over(&Sim::new());
    storage.fail_matching(Rule::both(Op::Create, FileKind::Window), Fault::NoSpace);
    let identity = WindowIdentity { database_id: 1, number: FileNumber(2) };
    let window = Window::create(&storage, identity, 0, 4 * KIB as usize, 4 * KIB as usize);
    assert!(!window.unwrap().survives());
}
