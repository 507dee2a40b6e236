//! Damage to any byte of a store: the right value, or an error; never a wrong value, never silence.
//!
//! A small store with files of every kind is closed, then damaged: a bit of one byte in some is
//! flipped, files are cut at some lengths and exchanged. At night that is every byte where no other
//! setup has the same kinds of files, and every length of short files. Of each
//! damaged store every key is read, forwards, backwards and one by one. Exceptions, by design: the
//! lock file and the reserve have no content, and the window has no meaning after a clean close.
//! Bit rot in the very last batch of an unclean end looks like a torn write; the open says how many
//! bytes it gave up.

use std::sync::Arc;

use cleavedb::{Durability, ErrorKind, Preset};
use cleavedb_storage::{FileKind, Name};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::Image;
use cleavedb_testkit::budget::{first_seed, in_turn, of};
use cleavedb_testkit::session::open;
use cleavedb_testkit::{Op, Session, Setup, State, Write};

/// Bytes from one damage to the next: quickly, for a change, and at night. Odd, so that all parts
/// of a header are met.
type Stride = [usize; 3];

/// Where no other setup has the same records and tables.
const DENSE: Stride = [351, 41, 1];

/// Where the records and tables are those of another setup, which has more bytes flipped.
const SPARSE: Stride = [811, 93, 7];

/// Where only the bounds of tables are others: files differ in nothing but what they hold.
const SPARSER: Stride = [1511, 183, 31];

/// Between lengths at which a short and a long file are cut.
const SHORT_CUTS: Stride = [311, 33, 1];
const CUTS: Stride = [2911, 291, 11];

/// Between bytes of a log that was not closed.
const SYNCED_LOG: Stride = [471, 51, 1];

fn step([quick, change, night]: Stride) -> usize {
    of(quick, change, night)
}

/// Places of a damage in a file of `len` bytes, each `step` bytes: the seed draws the first.
fn places(len: u64, step: usize) -> impl Iterator<Item = u64> {
    (first_seed() % step as u64..len).step_by(step)
}

fn put(i: u32, len: usize) -> Op {
    let key = format!("key{:03}", i * 7919 % 60).into_bytes();
    let value = cleavedb_testkit::generator::value(u64::from(i), len);
    Op::Write(vec![Write::put(&key, value)], Durability::Os)
}

/// A store of at least 64 KiB, with logs, segments, tables on several levels, and its content.
fn store(setup: &Setup, clean: bool) -> (Image, State) {
    let sim = Sim::new();
    let mut session = Session::on(&sim, setup, State::default()).unwrap();
    let mut ops: Vec<Op> = (0..60).map(|i| put(i, 200 + 40 * i as usize)).collect();
    ops.push(Op::Collect);
    ops.extend((60..93).map(|i| put(i, 900)));
    ops.push(Op::Write(vec![Write::delete(b"key001"), Write::delete(b"key007")], Durability::Os));
    ops.push(Op::Flush);
    if !clean {
        ops.extend((90..110).map(|i| put(i, 300)));
        ops.push(Op::Sync);
        ops.push(put(111, 10));
    }
    ops.iter().for_each(|op| session.run(op).unwrap());
    let state = session.model().clone();
    session.leave(clean).unwrap();
    let image = sim.image();
    let bytes: u64 = image.list().iter().map(|(_, len)| len).sum();
    assert!(bytes >= 64 << 10, "the store has {bytes} bytes");
    (image, state)
}

/// Level 0 in partitions, with values of the store on both sides of the threshold.
fn partitioned() -> [Setup; 4] {
    Setup::partitioned().map(|mut setup| {
        setup.options.min_separated = Some(1000);
        setup
    })
}

/// Every design, and with level 0 in partitions or with blobs: of the latter one damage in seven.
fn designs() -> impl Iterator<Item = (Setup, usize)> {
    let designs = Setup::designs().into_iter().map(|setup| (setup, 1));
    let blobs = [Preset::WiscKey, Preset::HashKv].map(|it| Setup::tiny(it, true).with_blobs());
    designs.chain(partitioned().into_iter().chain(blobs).map(|setup| (setup, 7)))
}

/// What an open and a read of everything found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// All is as it was.
    Right,
    /// The store, or some of it, is refused.
    Refused,
}

/// Opens and reads everything.
///
/// # Panics
/// If a value is wrong, or missing in silence.
fn examine(setup: &Setup, image: &Image, state: &State, what: &dyn Fn() -> String) -> Found {
    let sim = Sim::from_image(image.clone());
    sim.stop_recording();
    let db = match open(Arc::new(sim), setup) {
        Ok(db) => db,
        Err(e) => {
            // Io: a file that a shortened manifest still names may be gone.
            let reported = [
                ErrorKind::Corruption,
                ErrorKind::NewerFormat,
                ErrorKind::NotADatabase,
                ErrorKind::Io,
            ];
            assert!(reported.contains(&e.kind()), "{}: open failed with {e}", what());
            return Found::Refused;
        }
    };
    let mut found = Found::Right;
    let mut refused = |error: cleavedb::Error| {
        assert_eq!(error.kind(), ErrorKind::Corruption, "{}: {error}", what());
        found = Found::Refused;
    };
    for (key, value) in state.iter() {
        match db.get(key) {
            Ok(got) => assert!(got.as_deref() == Some(value), "{}: get is wrong", what()),
            Err(e) => refused(e),
        }
    }
    for backward in [false, true] {
        let range = db.range(..);
        let items: Vec<_> = if backward { range.rev().collect() } else { range.collect() };
        let whole = items.iter().all(Result::is_ok);
        assert!(!whole || items.len() == state.len(), "{}: a scan lost keys", what());
        let mut expected: Box<dyn Iterator<Item = _>> = Box::new(state.iter());
        if backward {
            expected = Box::new(state.iter().rev());
        }
        for (item, (key, value)) in items.into_iter().zip(expected) {
            match item {
                Ok(item) => {
                    assert!(item.key == key && item.value == value, "{}: scan is wrong", what());
                }
                Err(e) => refused(e),
            }
        }
    }
    // A check may find more than reads meet, never less.
    let report = db.verify();
    let sound = report.is_ok_and(|report| report.problems.is_empty());
    assert!(found == Found::Right || !sound, "{}: the check missed what reads met", what());
    found
}

fn damageable(image: &Image) -> Vec<(Name, u64)> {
    let means = |kind| !matches!(kind, FileKind::Window | FileKind::Lock | FileKind::Reserve);
    image.list().into_iter().filter(|(name, _)| means(name.kind())).collect()
}

/// Flips a bit of one byte in each `stride`.
fn flip_bytes(setup: &Setup, stride: Stride) {
    let step = step(stride);
    let start = std::time::Instant::now();
    let (image, state) = store(setup, true);
    let (mut flips, mut refused) = (0, 0);
    for (name, len) in damageable(&image) {
        for offset in places(len, step) {
            let bit = offset * 8 + offset % 8;
            let mut damaged = image.clone();
            damaged.flip_bit(&name, bit);
            let what = || format!("{setup}: bit {bit} of {name}");
            refused += u32::from(examine(setup, &damaged, &state, &what) == Found::Refused);
            flips += 1;
        }
    }
    println!("{setup}: {flips} flips, {refused} refused, {:?}", start.elapsed());
}

#[test]
fn a_bit_of_many_bytes_of_lsm() {
    flip_bytes(&Setup::tiny(Preset::Lsm, true), DENSE);
}

#[test]
fn a_bit_of_many_bytes_of_ohdb() {
    flip_bytes(&Setup::tiny(Preset::Ohdb, true), SPARSE);
}

#[test]
fn a_bit_of_some_bytes_in_partitions() {
    in_turn(partitioned().into()).iter().for_each(|setup| flip_bytes(setup, SPARSER));
}

#[test]
fn a_bit_of_many_bytes_of_wisckey() {
    flip_bytes(&Setup::tiny(Preset::WiscKey, true), DENSE);
}

#[test]
fn a_bit_of_many_bytes_of_hashkv() {
    flip_bytes(&Setup::tiny(Preset::HashKv, true), DENSE);
}

#[test]
fn a_bit_of_many_bytes_of_hashkv_with_tagging() {
    flip_bytes(&Setup::tagged(true), SPARSE);
}

#[test]
fn a_bit_of_many_bytes_of_ktstore() {
    flip_bytes(&Setup::tiny(Preset::KtStore, true), SPARSE);
}

#[test]
fn a_bit_of_many_bytes_of_hot_segments() {
    flip_bytes(&Setup::hot(true), SPARSE);
}

#[test]
fn cuts_at_many_lengths() {
    for (setup, sparse) in designs() {
        let (image, state) = store(&setup, true);
        for (name, len) in damageable(&image) {
            let step = sparse * step(if len < 2048 { SHORT_CUTS } else { CUTS });
            // The first and the last bytes of a file are its header and its footer.
            let ends = (0..len).filter(|at| *at < 32 || len - at < 64);
            for at in places(len, step).chain(ends.step_by(of(7, 3, 1))) {
                let mut damaged = image.clone();
                damaged.truncate(&name, at);
                examine(&setup, &damaged, &state, &|| format!("{setup}: {name} cut at {at}"));
            }
        }
    }
}

/// The log that a lost edit was to pass by is in no file: what is there proves the loss.
#[test]
fn edits_that_are_lost_are_noticed_although_the_log_has_holes() {
    for preset in [Preset::HashKv, Preset::KtStore] {
        let setup = Setup::log_in_window(preset);
        let sim = Sim::new();
        let mut session = Session::on(&sim, &setup, State::default()).unwrap();
        for of_flush in 0..3 {
            let puts = (0..20).map(|i| put(20 * of_flush + i, 900));
            puts.chain([Op::Flush]).for_each(|op| session.run(&op).unwrap());
        }
        let state = session.model().clone();
        session.leave(true).unwrap();
        let image = sim.image();
        let manifests = image.list().into_iter().filter(|(it, _)| it.kind() == FileKind::Manifest);
        let [(name, len)] = manifests.collect::<Vec<_>>()[..] else { panic!("one manifest") };
        let mut refused = 0;
        for at in (0..len).step_by(11) {
            let mut damaged = image.clone();
            damaged.truncate(&name, at);
            let what = || format!("{setup}: the manifest cut at {at}");
            refused += usize::from(examine(&setup, &damaged, &state, &what) == Found::Refused);
        }
        assert!(refused > 0, "{setup}");
    }
}

#[test]
fn files_that_are_missing_or_exchanged() {
    for (setup, _) in designs() {
        let (image, state) = store(&setup, true);
        let files = damageable(&image);
        for (a, _) in &files {
            let mut damaged = image.clone();
            damaged.remove(a);
            let sim = Sim::from_image(damaged);
            let refused = open(Arc::new(sim), &setup)
                .and_then(|db| {
                    let report = db.verify()?;
                    report.problems.into_iter().next().map_or(Ok(()), Err)
                })
                .is_err();
            assert!(refused || a.kind() == FileKind::Log, "{setup}: {a} is missing in silence");
            for (b, _) in files.iter().filter(|(b, _)| b.kind() == a.kind() && b > a) {
                let mut damaged = image.clone();
                damaged.swap(a, b);
                examine(&setup, &damaged, &state, &|| format!("{setup}: {a} and {b} exchanged"));
            }
        }
    }
}

/// After an unclean end the log holds what nothing else does: damage in front of what was synced
/// later is noticed (invariant 8).
#[test]
fn a_bit_of_many_bytes_of_a_synced_log() {
    for (setup, sparse) in designs() {
        let stride = sparse * step(SYNCED_LOG);
        let (image, state) = store(&setup, false);
        let (mut flips, mut cut) = (0, 0);
        for (name, len) in damageable(&image) {
            if name.kind() != FileKind::Log {
                continue;
            }
            for offset in places(len, stride) {
                let mut damaged = image.clone();
                damaged.flip_bit(&name, offset * 8 + offset % 8);
                let what = || format!("{setup}: byte {offset} of {name} after a kill");
                let sim = Sim::from_image(damaged.clone());
                sim.stop_recording();
                flips += 1;
                // The last batch may be given up, if the open says so.
                if let Ok(db) = open(Arc::new(sim), &setup)
                    && db.recovery_report().bytes_cut > 0
                {
                    cut += 1;
                    continue;
                }
                examine(&setup, &damaged, &state, &what);
            }
        }
        println!("{setup}: {flips} flips of a log, {cut} with bytes cut");
    }
}
