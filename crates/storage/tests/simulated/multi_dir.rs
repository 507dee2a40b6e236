//! Files lie where their class was placed when they were created, and are found there.

use std::io;
use std::sync::Arc;

use cleavedb_base::{ErrorKind, FileNumber, Result};
use cleavedb_storage::{
    Access, Directory, FileClass, FileKind, LockMode, Mode, MultiDirStorage, Name, RemoveMode,
    Storage,
};
use cleavedb_storage_sim::Sim;

fn directory(sim: &Sim, path: &str, classes: &[FileClass]) -> Directory {
    let storage = Arc::new(sim.clone());
    Directory { storage, path: path.to_owned(), classes: classes.to_vec(), capacity: None }
}

fn open(first: &Sim, second: &Sim, capacity: Option<u64>) -> Result<MultiDirStorage> {
    let volume = directory(second, "/second", &[FileClass::Levels]);
    MultiDirStorage::new(directory(first, "/first", &[]), vec![Directory { capacity, ..volume }])
}

fn placed() -> (Sim, Sim, MultiDirStorage) {
    let (first, second) = (Sim::new(), Sim::new());
    let placed = open(&first, &second, None).unwrap();
    (first, second, placed)
}

fn create(placed: &MultiDirStorage, class: FileClass, number: u64) -> Name {
    placed.create(class, FileNumber(number), Access::Random).unwrap();
    Name::numbered(class.kind(), FileNumber(number))
}

#[test]
fn a_class_decides_where_a_file_is_created_and_the_list_shows_all() {
    let (first, second, placed) = placed();
    let young = create(&placed, FileClass::Level0, 1);
    let old = create(&placed, FileClass::Levels, 2);
    assert_eq!(first.list().unwrap(), [(young, 0)]);
    assert_eq!(second.list().unwrap(), [(old, 0)]);
    assert_eq!(placed.list().unwrap(), [(young, 0), (old, 0)]);
    assert_eq!(placed.volume_of(&old).unwrap().path, "/second");
    assert!(placed.volume_of(&young).is_none());
    placed.remove(&old, RemoveMode::Paced).unwrap();
    assert!(second.list().unwrap().is_empty() && placed.volume_of(&old).is_none());
}

#[test]
fn a_file_is_found_where_it_lies_whatever_the_placement_is_now() {
    let (first, second, placed) = placed();
    let young = create(&placed, FileClass::Level0, 1);
    let old = create(&placed, FileClass::Levels, 2);
    drop(placed);
    let volume = directory(&second, "/second", &[FileClass::Level0]);
    let placed = MultiDirStorage::new(directory(&first, "/first", &[]), vec![volume]).unwrap();
    for name in [young, old] {
        placed.open(&name, Mode::Read, Access::Random).unwrap();
    }
    let next = create(&placed, FileClass::Level0, 3);
    assert_eq!(second.list().unwrap(), [(old, 0), (next, 0)]);
}

#[test]
fn sync_dir_reaches_what_has_changed_and_nothing_else() {
    let (first, second, placed) = placed();
    let young = create(&placed, FileClass::Level0, 1);
    let old = create(&placed, FileClass::Levels, 2);
    placed.sync_dir().unwrap();
    assert!(first.is_name_durable(&young) && second.is_name_durable(&old));
    let synced = second.history_len();
    create(&placed, FileClass::Level0, 3);
    placed.sync_dir().unwrap();
    assert_eq!(second.history_len(), synced, "nothing has changed there");
    placed.remove(&old, RemoveMode::Paced).unwrap();
    placed.sync_dir().unwrap();
    assert_eq!(second.history_len(), synced + 2, "a removal, and its sync");
}

#[test]
fn a_file_in_two_directories_or_in_a_wrong_one_is_an_error_in_words() {
    let (first, second, _) = placed();
    let name = Name::numbered(FileKind::Table, FileNumber(7));
    for sim in [&first, &second] {
        sim.open(&name, Mode::CreateNew, Access::Random).unwrap();
    }
    let error = open(&first, &second, None).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(error.fact("file"), Some("000007.tbl"));
    assert_eq!(error.fact("directory"), Some("/second"));
    second.remove(&name, RemoveMode::Paced).unwrap();
    assert!(open(&first, &second, None).is_ok());
    let manifest = Name::numbered(FileKind::Manifest, FileNumber(8));
    second.open(&manifest, Mode::CreateNew, Access::Random).unwrap();
    let error = open(&first, &second, None).err().unwrap();
    assert!(error.message().contains("own directory"), "{error}");
}

#[test]
fn what_exceeds_a_capacity_goes_to_the_first_directory() {
    let (first, second) = (Sim::new(), Sim::new());
    let placed = open(&first, &second, Some(100)).unwrap();
    let file = placed.create(FileClass::Levels, FileNumber(1), Access::Random).unwrap();
    file.write_at(&[7; 100], 0).unwrap();
    let next = create(&placed, FileClass::Levels, 2);
    assert_eq!(first.list().unwrap(), [(next, 0)]);
    placed.remove(&Name::numbered(FileKind::Table, FileNumber(1)), RemoveMode::Paced).unwrap();
    create(&placed, FileClass::Levels, 3);
    assert_eq!(second.list().unwrap().len(), 1, "there is room again");
}

#[test]
fn the_lock_covers_every_directory() {
    let (first, second, placed) = placed();
    let lock = |storage: &dyn Storage| storage.lock(LockMode::Exclusive);
    let all = lock(&placed).unwrap();
    assert_eq!(lock(&first).err().unwrap().kind(), io::ErrorKind::WouldBlock);
    assert_eq!(lock(&second).err().unwrap().kind(), io::ErrorKind::WouldBlock);
    drop(all);
    let other = lock(&second).unwrap();
    assert_eq!(lock(&placed).err().unwrap().kind(), io::ErrorKind::WouldBlock);
    assert!(lock(&first).is_ok(), "a failed lock holds nothing");
    drop(other);
    let readers = [(); 2].map(|()| placed.lock(LockMode::Shared).unwrap());
    assert_eq!(lock(&second).err().unwrap().kind(), io::ErrorKind::WouldBlock);
    drop(readers);
    assert!(lock(&placed).is_ok());
    assert_eq!(placed.list().unwrap().len(), 1, "one lock file is listed, not one per place");
}

#[test]
fn the_fullest_directory_counts_and_errors_say_which_one_it_is() {
    let (first, second, placed) = placed();
    first.set_capacity(1000);
    second.set_capacity(10);
    assert_eq!(placed.free_space().unwrap(), 10);
    let old = create(&placed, FileClass::Levels, 2);
    second.remove(&old, RemoveMode::Paced).unwrap();
    let error = placed.open(&old, Mode::Read, Access::Random).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(error.to_string().contains("/second"), "{error}");
}
