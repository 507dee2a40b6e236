//! Dumps: of whole stores, whose every byte they account for, and of damaged ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use cleavedb::dump::{Dump, DumpFact, DumpKind, DumpRequest, Dumped};
use cleavedb::{Db, Durability, Error, Preset};
use cleavedb_storage_sim::sim::Rng;
use cleavedb_testkit::Setup;
use cleavedb_testkit::budget::{of, seeds};

use crate::salvage::{contents, copy, files, for_each_preset};

const KINDS: [DumpKind; 4] = [DumpKind::Manifest, DumpKind::Log, DumpKind::Table, DumpKind::Values];

/// What dumps of all kinds have said.
#[derive(Default)]
struct Said {
    /// How often each kind of line came.
    lines: BTreeMap<&'static str, usize>,
    /// Keys of records and entries.
    keys: BTreeSet<Vec<u8>>,
    damage: Vec<Error>,
}

impl Said {
    fn of(dir: &Path) -> Self {
        let mut said = Self::default();
        for kind in KINDS {
            said.add(dir, kind, None);
        }
        said
    }

    fn add(&mut self, dir: &Path, kind: DumpKind, file: Option<&str>) {
        let file = file.map(Into::into);
        let request = DumpRequest { kind, file, values: true, state: true };
        let Ok(dump) = Dump::open(dir, None) else { return };
        dump.read(&request, &mut |dumped| {
            match dumped {
                Dumped::Damage(error) => self.damage.push(error),
                Dumped::Line(line) => {
                    *self.lines.entry(line.what).or_default() += 1;
                    let keys = line.facts.iter().filter_map(|(name, fact)| match fact {
                        DumpFact::Key(key) if *name == "key" => Some(key.to_vec()),
                        _ => None,
                    });
                    self.keys.extend(keys);
                }
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    }

    fn has(&self, what: &str) -> bool {
        self.lines.contains_key(what)
    }
}

#[test]
fn a_whole_store_is_shown_without_damage_and_stays_as_it_is() {
    for_each_preset(|preset, whole, _, state| {
        let before = contents(whole);
        let said = Said::of(whole);
        assert!(contents(whole) == before, "{preset}: nothing is changed");
        assert!(said.damage.is_empty(), "{preset}: {:?}", said.damage);
        assert!(state.keys().all(|key| said.keys.contains(key)), "{preset}: every key is there");
        let put = if preset == Preset::WiscKey { "put separated" } else { "put" };
        for what in ["current", "edit", "state", "table added", put, "delete", "block", "end"] {
            assert!(said.has(what), "{preset}: {what} is not in {:?}", said.lines);
        }
        let groups = matches!(preset, Preset::HashKv | Preset::KtStore | Preset::HoaKv);
        assert_eq!(said.has("extent") && said.has("group begun"), groups, "{preset}");
    });
}

#[test]
fn key_blocks_are_shown_and_their_damage_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Setup::tiny(Preset::KtStore, true).options).unwrap();
    for round in 0..3 {
        (0..25u8).for_each(|key| db.put_with([key], vec![round; 20_000], Durability::Os).unwrap());
        db.flush().unwrap();
    }
    db.compact().unwrap();
    db.collect().unwrap();
    db.close().unwrap();
    let said = Said::of(dir.path());
    assert!(said.damage.is_empty(), "{:?}", said.damage);
    assert!(said.has("key block"), "{:?}", said.lines);
    for (path, mut bytes) in contents(dir.path()) {
        if path.extension().is_some_and(|e| e == "grp") {
            // A key block ends an extent.
            let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
            bytes[end] ^= 1;
            fs::write(path, bytes).unwrap();
        }
    }
    let said = Said::of(dir.path());
    assert!(!said.damage.is_empty() && !said.has("key block"), "{:?}", said.damage);
}

#[test]
fn every_flipped_byte_of_a_table_is_named() {
    for_each_preset(|preset, _, broken, _| {
        for path in files(broken).iter().filter(|path| path.extension().is_some_and(|e| e == "tbl"))
        {
            let name = path.file_name().unwrap().to_str().unwrap();
            let whole = fs::read(path).unwrap();
            for at in
                (0..whole.len()).step_by(of(971, 291, 97)).chain(whole.len() - 64..whole.len())
            {
                let mut damaged = whole.clone();
                damaged[at] ^= 4;
                fs::write(path, damaged).unwrap();
                let mut said = Said::default();
                said.add(broken, DumpKind::Table, Some(name));
                let [error] = &said.damage[..] else {
                    panic!("{preset}, {name}, byte {at}: {:?}", said.damage);
                };
                assert_eq!(error.fact("file"), Some(name), "{error}");
                let offset: usize = error.fact("offset").unwrap().parse().unwrap();
                assert!(offset <= at, "{preset}, byte {at}: {error}");
            }
            fs::write(path, whole).unwrap();
        }
    });
}

#[test]
fn a_damaged_record_is_named_and_those_behind_it_are_shown() {
    for_each_preset(|preset, _, broken, _| {
        let values =
            |path: &&std::path::PathBuf| path.extension().is_some_and(|e| e == "seg" || e == "grp");
        for path in files(broken).iter().filter(values) {
            let name = path.file_name().unwrap().to_str().unwrap();
            let mut before = Said::default();
            before.add(broken, DumpKind::Values, Some(name));
            let whole = fs::read(path).unwrap();
            let first = if name.ends_with(".grp") { 4096 } else { 76 };
            // A header, and a value.
            for at in [first + 5, first + 24 + 9] {
                let mut damaged = whole.clone();
                damaged[at] ^= 4;
                fs::write(path, damaged).unwrap();
                let mut said = Said::default();
                said.add(broken, DumpKind::Values, Some(name));
                let named = |e: &Error| e.fact("file") == Some(name);
                assert!(!said.damage.is_empty() && said.damage.iter().all(named), "{preset}, {at}");
                let offset: usize = said.damage[0].fact("offset").unwrap().parse().unwrap();
                assert!((first..=at).contains(&offset), "{preset}, {at}: {:?}", said.damage);
                assert!(said.keys.len() + 1 >= before.keys.len(), "{preset}: all others are shown");
            }
            fs::write(path, whole).unwrap();
        }
    });
}

#[test]
fn a_manifest_with_damaged_edits_is_read_to_its_end() {
    for_each_preset(|preset, _, broken, _| {
        let is_manifest =
            |path: &&std::path::PathBuf| path.extension().is_some_and(|e| e == "manifest");
        let path = files(broken).iter().find(is_manifest).unwrap().clone();
        let mut whole = Said::default();
        whole.add(broken, DumpKind::Manifest, None);
        let bytes = fs::read(&path).unwrap();
        let mut one = bytes.clone();
        one[30] ^= 1;
        fs::write(&path, &one).unwrap();
        let mut said = Said::default();
        said.add(broken, DumpKind::Manifest, None);
        assert_eq!(said.lines, whole.lines, "{preset}: the other copy serves");
        assert_eq!(said.damage.len(), 1, "{preset}: {:?}", said.damage);
        let half = u32::from_le_bytes(bytes[16..20].try_into().unwrap()) as usize + 24;
        one[30 + half] ^= 1;
        fs::write(&path, &one).unwrap();
        let mut said = Said::default();
        said.add(broken, DumpKind::Manifest, None);
        assert_eq!(said.lines["edit"] + 1, whole.lines["edit"], "{preset}");
        assert!(!said.has("state"), "{preset}: without each edit there is none");
        assert_eq!(said.damage[0].fact("offset"), Some("0"), "{:?}", said.damage);
    });
}

#[test]
fn no_damage_makes_a_dump_panic() {
    for_each_preset(|preset, whole, broken, _| {
        let names: Vec<_> =
            files(whole).iter().map(|path| path.file_name().unwrap().to_owned()).collect();
        for seed in seeds(of(20, 30, 600)) {
            let mut rng = Rng::new(seed ^ (preset as u64) << 32);
            copy(whole, broken);
            for _ in 0..1 + rng.below(3) {
                let name = &names[rng.below(names.len() as u64) as usize];
                let other = &names[rng.below(names.len() as u64) as usize];
                let mut bytes = fs::read(broken.join(name)).unwrap();
                damage(&mut bytes, &fs::read(whole.join(other)).unwrap(), &mut rng);
                fs::write(broken.join(name), bytes).unwrap();
            }
            Said::of(broken);
        }
    });
}

/// Damages a file: bits, a range, its length, or bytes of another file.
fn damage(bytes: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let len = bytes.len() as u64;
    let at = rng.below(len + 1) as usize;
    match rng.below(6) {
        0 => bytes.truncate(at),
        1 => bytes.extend((0..rng.below(9000)).map(|_| rng.below(256) as u8)),
        2 => *bytes = other.to_vec(),
        3 => {
            let end = (at + rng.below(9000) as usize).min(bytes.len());
            bytes[at..end].fill(rng.below(3) as u8 * 0x7f);
        }
        4 => {
            let count = (bytes.len() - at).min(other.len());
            bytes[at..at + count].copy_from_slice(&other[..count]);
        }
        _ => {
            for _ in 0..1 + rng.below(20) {
                if let Some(byte) = bytes.get_mut(rng.below(len.max(1)) as usize) {
                    *byte ^= 1 << rng.below(8);
                }
            }
        }
    }
}
