//! Sorted in memory and in runs, merged once and more often: each key once, with its last value.

use std::collections::BTreeMap;

use super::*;

fn sorted(sorter: Sorter) -> Vec<(Vec<u8>, Vec<u8>, Option<u64>)> {
    let (mut sorted, mut items) = (sorter.finish().unwrap(), Vec::new());
    while let Some(SortedItem { key, value, expires }) = sorted.next().unwrap() {
        items.push((key, value, expires));
    }
    items
}

#[test]
fn the_last_of_equal_keys_is_kept_whatever_fits_in_memory() {
    for memory in [0, 300, 3000, 1 << 20] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sort");
        let directory = TempDirectory::new(path.clone()).unwrap();
        let mut sorter = Sorter::with_memory(directory, memory);
        let mut expected = BTreeMap::new();
        for i in 0..9000u64 {
            let key = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52).to_string().into_bytes();
            let key = if i == 77 { Vec::new() } else { key };
            let (value, expires) = (vec![i as u8; i as usize % 40], (i % 3 == 0).then_some(i));
            sorter.add(&key, &value, expires).unwrap();
            expected.insert(key, (value, expires));
        }
        let files = std::fs::read_dir(&path).unwrap().count();
        assert!(files < 4 * RUNS_MAX && (files == 0) == (memory == 1 << 20), "{files} files");
        let expected: Vec<_> =
            expected.into_iter().map(|(key, (value, expires))| (key, value, expires)).collect();
        assert!(sorted(sorter) == expected, "in {memory} bytes");
        assert!(!path.exists(), "it has left its directory");
    }
}

#[test]
fn what_a_killed_sorter_has_left_is_removed_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sort");
    std::fs::create_dir(&path).unwrap();
    let (run, other) = (path.join("run-000001.sorted"), path.join("notes"));
    std::fs::write(&run, "x").unwrap();
    std::fs::write(&other, "x").unwrap();
    let mut sorter = Sorter::with_memory(TempDirectory::new(path.clone()).unwrap(), 0);
    assert!(!run.exists());
    ["b", "a", "c"].iter().for_each(|key| sorter.add(key.as_bytes(), b"1", None).unwrap());
    assert_eq!(sorted(sorter).len(), 3);
    assert!(other.exists() && !run.exists());
}

#[test]
fn a_damaged_run_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sort");
    let runs = || {
        let mut sorter = Sorter::with_memory(TempDirectory::new(path.clone()).unwrap(), 0);
        ["b", "a", "c"].iter().for_each(|key| sorter.add(key.as_bytes(), b"12", None).unwrap());
        sorter
    };
    let len = {
        let _sorter = runs();
        std::fs::metadata(path.join("run-000001.sorted")).unwrap().len() as usize
    };
    for at in 0..len {
        let sorter = runs();
        let file = path.join("run-000001.sorted");
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[at] ^= 0x10;
        std::fs::write(&file, bytes).unwrap();
        let damaged = sorter.finish().and_then(|mut sorted| {
            while sorted.next()?.is_some() {}
            Ok(())
        });
        assert!(damaged.is_err(), "byte {at}");
    }
}
