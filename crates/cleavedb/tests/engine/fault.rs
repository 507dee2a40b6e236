//! Every storage call of a recorded workload fails in turn: the answer is right or an error.
//!
//! A run fails one call, once or from there on, in one of the ways that a disk fails. Reads must be
//! right or fail, writes must be there or fail; nothing may panic or go on for ever. Then the
//! process dies, or the power fails, the disk is whole again, and the oracle looks for what was
//! acknowledged. At night each call fails in every way, once and from there on, and else in some
//! that the seed draws.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cleavedb::{Db, Durability, ErrorKind, Preset};
use cleavedb_storage::{FileKind, Storage};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::faulty::{Call as Traced, Fault, Faulty, Op as Call, Rule};
use cleavedb_storage_sim::sim::PowerLoss;
use cleavedb_testkit::budget::{first_seed, in_turn, of, seeds};
use cleavedb_testkit::session::{a_part_leaves_level0, commit, open, open_all};
use cleavedb_testkit::{Bounds, Disks, Generator, Op, Oracle, Profile, Setup, State, Write};

/// Images checked of the power loss after a run.
const POWER_IMAGES: usize = 6;

/// Operations of the workload.
const OPS: usize = 30;

fn workload(seed: u64) -> Vec<Op> {
    let ranges = seed % 2 * 20;
    let profile = Profile { kills: false, reads: true, synced: 30, ranges, ..Profile::crash() };
    let mut ops = Generator::new(seed, profile).take(OPS);
    ops.retain(|op| !matches!(op, Op::Reopen | Op::Verify));
    ops.extend([Op::Flush, Op::Collect, Op::Sync]);
    ops
}

/// The engine over a disk that fails, and what it said.
struct Run {
    db: Db,
    model: State,
    /// Hash of the state after each commit that may survive.
    hashes: Vec<u64>,
    /// Commits that must survive a kill, and a power loss.
    least: [usize; 2],
    keys: Vec<Vec<u8>>,
    /// A write failed, and it is unknown whether it will survive: no more writes are tried.
    uncertain: bool,
}

impl Run {
    fn promise(&mut self, durability: Durability) {
        // A write that failed was not promised.
        let commits = self.hashes.len() - 1 - usize::from(self.uncertain);
        if durability >= Durability::Os {
            self.least[0] = commits;
        }
        if durability == Durability::Sync {
            self.least[1] = commits;
        }
    }

    fn write(&mut self, writes: &[Write], durability: Durability) {
        if self.uncertain {
            return;
        }
        let mut after = self.model.clone();
        after.apply(writes);
        match commit(&self.db, writes, durability) {
            Ok(()) => {
                self.model = after;
                self.hashes.push(self.model.hash());
                self.promise(durability);
            }
            // Refused before anything was written: it does not show, neither now nor later.
            Err(e) if e.kind() == ErrorKind::Poisoned || self.is_absent(writes, &after) => {}
            Err(_) => {
                self.uncertain = true;
                self.hashes.push(after.hash());
            }
        }
    }

    /// Whether a failed write is certain not to be there: it changed a key, which can be read, and
    /// reads as before.
    fn is_absent(&self, writes: &[Write], after: &State) -> bool {
        let changed = |write: &&Write| after.get(&write.key) != self.model.get(&write.key);
        writes.iter().find(changed).is_some_and(|write| {
            let found = self.db.get(&write.key);
            found.is_ok_and(|found| found.as_deref() == self.model.get(&write.key))
        })
    }

    /// A read is right, or it fails; while a write is uncertain, it may show.
    fn read(&self, key: &[u8]) {
        if let Ok(found) = self.db.get(key) {
            let expected = self.model.get(key);
            assert!(
                self.uncertain || found.as_deref() == expected,
                "a read under faults gave a wrong answer for {}",
                key.escape_ascii()
            );
        }
    }

    fn op(&mut self, op: &Op) {
        let barrier = match op {
            Op::Write(writes, durability) => return self.write(writes, *durability),
            Op::Get(key) => return self.read(key),
            Op::Flush => self.db.flush(),
            Op::Compact => self.db.compact(),
            Op::Collect => self.db.collect(),
            Op::Sync => self.db.sync(),
            Op::Step(_) => {
                // A job that fails has no caller that it could tell.
                let _ = self.db.step();
                return;
            }
            _ => return,
        };
        if barrier.is_ok() {
            self.promise(Durability::Sync);
        }
    }
}

fn keys_of(ops: &[Op]) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = ops
        .iter()
        .filter_map(|op| match op {
            Op::Write(writes, _) => Some(writes.iter().map(|write| write.key.clone())),
            _ => None,
        })
        .flatten()
        .collect();
    keys.sort();
    keys.dedup();
    keys
}

/// Runs `ops` with what `plan` fails on disk `number`; then checks what survives. Returns the
/// number of calls on that disk.
fn run(setup: &Setup, ops: &[Op], number: usize, plan: impl Fn(&Faulty)) -> u64 {
    let disks = Disks::new(setup);
    let faulty = Arc::new(Faulty::over(&disks.sims()[number]));
    plan(&faulty);
    let mut storages = disks.storages();
    storages[number] = faulty.clone();
    let keys = keys_of(ops);
    let empty = State::default();
    let mut ended = (vec![empty.hash()], [0, 0]);
    if let Ok(db) = open_all(&storages, setup) {
        let hashes = vec![empty.hash()];
        let mut run = Run { db, model: empty, hashes, least: [0; 2], keys, uncertain: false };
        ops.iter().for_each(|op| run.op(op));
        run.keys.iter().for_each(|key| run.read(key));
        ended = (run.hashes, run.least);
        // The process dies: what its handles do from now on changes nothing.
        let _ = disks.kill();
    }
    let calls = faulty.calls();
    check(setup, &disks, &keys_of(ops), &ended.0, ended.1);
    calls
}

fn check(setup: &Setup, disks: &Disks, keys: &[Vec<u8>], hashes: &[u64], least: [usize; 2]) {
    let oracle = Oracle { setup, hashes, keys };
    let most = hashes.len() - 1;
    let killed = Bounds { least: least[0], most };
    let outcome = oracle.check(&disks.images(), killed, false);
    outcome.unwrap_or_else(|failure| panic!("after a kill: {failure}"));
    let mut replay = disks.replay();
    replay.advance(disks.time());
    let options = PowerLoss { states_max: POWER_IMAGES, ..PowerLoss::default() };
    for images in replay.power_loss(&options) {
        let outcome = oracle.check(&images, Bounds { least: least[1], most }, false);
        outcome.unwrap_or_else(|failure| panic!("after a power loss: {failure}"));
    }
}

fn every_call_fails(setup: &Setup, seed: u64) {
    (0..setup.disks()).for_each(|number| every_call_on(number, setup, seed));
}

fn every_call_on(number: usize, setup: &Setup, seed: u64) {
    let start = std::time::Instant::now();
    let ops = workload(seed);
    let calls = run(setup, &ops, number, |_| {});
    let (mut runs, mut failures) = (0, first_seed());
    for call in 0..calls {
        for fault in Fault::ALL {
            for sticky in [false, true] {
                // Neighbours are mostly calls of the same kind: each fails in the ways in which the
                // one before it did not. No number here has a factor of the number of ways.
                failures += 1;
                if !failures.is_multiple_of(of(47, 5, 1)) {
                    continue;
                }
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    run(setup, &ops, number, |faulty| match sticky {
                        true => faulty.fail_from(call, fault),
                        false => faulty.fail_call(call, fault),
                    })
                }));
                assert!(
                    outcome.is_ok(),
                    "{setup}, seed {seed}: call {call} of disk {number} fails with {fault:?}, \
                     sticky {sticky}"
                );
                runs += 1;
            }
        }
    }
    println!("{setup}: {calls} calls of disk {number}, {runs} runs, {:?}", start.elapsed());
}

/// Workloads of a preset whose calls are failed.
fn every_call_of(preset: Preset, window_survives: bool) {
    let setup = Setup::tiny(preset, window_survives);
    seeds(of(1, 2, 10)).for_each(|seed| every_call_fails(&setup, seed));
}

#[test]
fn every_call_of_lsm() {
    every_call_of(Preset::Lsm, true);
}

#[test]
fn every_call_of_ohdb() {
    every_call_of(Preset::Ohdb, true);
}

/// One workload for each preset, in which parts of level 0 leave it: the calls of everything else
/// fail in the tests of the presets.
#[test]
fn every_call_in_partitions() {
    for setup in in_turn(Setup::partitioned().into()) {
        let leaves = |seed: &u64| a_part_leaves_level0(&setup, &workload(*seed)).unwrap();
        let seed = seeds(60).find(leaves).expect("one of the workloads makes a part leave");
        every_call_fails(&setup, seed);
    }
}

#[test]
fn every_call_on_two_disks() {
    let setups = in_turn(Setup::two_disks().into());
    setups.iter().for_each(|setup| every_call_fails(setup, first_seed()));
}

#[test]
fn every_call_of_wisckey() {
    every_call_of(Preset::WiscKey, true);
}

#[test]
fn every_call_of_hashkv() {
    every_call_of(Preset::HashKv, true);
}

#[test]
fn every_call_of_an_index_beside_long_values() {
    every_call_fails(&Setup::long_values(Preset::Lsm, true), first_seed());
}

#[test]
fn every_call_of_hashkv_with_tagging() {
    every_call_fails(&Setup::tagged(true), first_seed());
}

#[test]
fn every_call_of_a_hot_store() {
    every_call_fails(&Setup::hot(true), first_seed());
}

#[test]
fn every_call_of_ktstore() {
    every_call_of(Preset::KtStore, true);
}

#[test]
fn every_call_of_wisckey_without_a_lasting_window() {
    every_call_of(Preset::WiscKey, false);
}

/// A store of some keys over a disk that can be made to fail.
fn store(setup: &Setup) -> (Arc<Faulty>, Sim, Db) {
    let sim = Sim::new();
    sim.set_window_survives(setup.window_survives);
    let faulty = Arc::new(Faulty::over(&sim));
    let storage: Arc<dyn Storage> = faulty.clone();
    let db = open(storage, setup).unwrap();
    for i in 0..60u8 {
        db.put_with([b'k', i], vec![i; 1500], Durability::Os).unwrap();
    }
    (faulty, sim, db)
}

/// "A failed sync poisons the database: reads go on, writes fail with the cause, nothing is
/// retried, nothing is deleted" (invariant 9).
#[test]
fn a_failed_sync_poisons_writes_and_leaves_reads() {
    for preset in Preset::ALL {
        for fault in [Fault::Io, Fault::NoSpace] {
            let (faulty, _, db) = store(&Setup::tiny(preset, true));
            faulty.fail_next(Rule::both(Call::Sync, FileKind::Log), fault);
            assert!(db.put_with(b"new", b"value", Durability::Sync).is_err());
            faulty.heal();
            let before = faulty.calls();
            let error = db.put_with(b"more", b"value", Durability::Os).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
            assert_eq!(db.sync().unwrap_err().kind(), ErrorKind::Poisoned);
            assert!(db.flush().is_err() && db.collect().is_err());
            assert_eq!(db.get([b'k', 7]).unwrap().unwrap(), vec![7; 1500]);
            let changed = faulty.trace().into_iter().filter(|call| call.number >= before);
            let changing = [Call::WriteAt, Call::Sync, Call::Remove, Call::Rename, Call::SyncDir];
            assert_eq!(changed.filter(|call| changing.contains(&call.op)).count(), 0);
        }
    }
}

/// Whether a call that fails leaves it open what the disk holds of something that counts: of the
/// log, the manifest or a directory. All else can be done again.
fn leaves_doubt(call: &Traced) -> bool {
    let kind = call.name.map(|name| name.kind());
    let counts = matches!(kind, Some(FileKind::Log | FileKind::Manifest));
    let of_content = matches!(call.op, Call::WriteAt | Call::Sync) && counts;
    let renames = call.op == Call::Rename && kind == Some(FileKind::CurrentNew);
    call.op == Call::SyncDir || of_content || renames
}

/// "Only where a write is in doubt may the store refuse writes": any other call of a flush, a
/// compaction or a collection fails once, and the store takes writes and does the job later.
#[test]
fn a_call_of_a_job_that_fails_once_refuses_no_writes() {
    for setup in Setup::designs() {
        let due = || {
            let (faulty, _, db) = store(&setup);
            (0..60).step_by(2).for_each(|i| db.put([b'k', i], [i; 1400]).unwrap());
            (faulty, db)
        };
        let jobs = |db: &Db| [db.flush(), db.compact(), db.collect(), db.wait_idle()];
        let (faulty, db) = due();
        let before = faulty.calls();
        jobs(&db).into_iter().for_each(Result::unwrap);
        let calls: Vec<Traced> = faulty.trace().into_iter().collect();
        let calls = calls.iter().filter(|call| call.number >= before && !leaves_doubt(call));
        for call in calls {
            // Only a call that opens a file can find too many open.
            let faults: &[Fault] = match call.op {
                Call::Open | Call::Create => &[Fault::Io, Fault::TooManyFiles],
                _ => &[Fault::Io],
            };
            for &fault in faults {
                let (faulty, db) = due();
                faulty.fail_call(call.number, fault);
                let told = jobs(&db).into_iter().filter_map(Result::err).next();
                let put = db.put(b"new", b"value");
                assert!(put.is_ok(), "{setup}: {call} fails with {fault:?}: {told:?}, {put:?}");
                jobs(&db).into_iter().for_each(Result::unwrap);
                let metrics = db.metrics();
                assert!(metrics.failures.is_empty(), "{setup}: {call}: {:?}", metrics.failures);
                let problems = db.verify().unwrap().problems;
                assert!(problems.is_empty(), "{setup}: {call} fails with {fault:?}: {problems:?}");
                for i in 0..60u8 {
                    let len = if i % 2 == 0 { 1400 } else { 1500 };
                    assert_eq!(db.get([b'k', i]).unwrap().unwrap(), vec![i; len]);
                }
            }
        }
    }
}

/// A window that could not grow as far as asked had another length for recovery after a kill than
/// for the writer.
#[test]
fn a_window_that_grows_in_part_loses_nothing() {
    for preset in [Preset::HashKv, Preset::KtStore] {
        let setup = Setup::log_in_window(preset);
        let sim = Sim::new();
        let faulty = Arc::new(Faulty::over(&sim));
        let db = open(faulty.clone(), &setup).unwrap();
        db.put(b"first", b"value").unwrap();
        faulty.fail_matching(Rule::both(Call::Allocate, FileKind::Window), Fault::Short);
        for i in 0..60u8 {
            db.put_with([b'k', i], vec![i; 2000], Durability::Os).unwrap();
        }
        let killed = sim.kill();
        drop(db);
        let db = open(Arc::new(killed), &setup).unwrap();
        assert_eq!(db.recovery_report().operations_lost, 0, "{preset}");
        for i in 0..60u8 {
            assert_eq!(db.get([b'k', i]).unwrap().unwrap(), vec![i; 2000], "{preset}: {i}");
        }
    }
}

/// A store that was closed, in another directory since if it is a `copy`, over a disk that can be
/// made to fail.
fn closed(setup: &Setup, copy: bool) -> (Arc<Faulty>, Sim, Db) {
    let sim = Sim::new();
    let db = open(Arc::new(sim.clone()), setup).unwrap();
    db.put(b"old", b"value").unwrap();
    db.close().unwrap();
    if copy {
        sim.set_directory_id(2);
    }
    let faulty = Arc::new(Faulty::over(&sim));
    let db = open(faulty.clone(), setup).unwrap();
    (faulty, sim, db)
}

/// A process that had no descriptor left for the manifest at its first write took none any more,
/// and each try of a copy went on a long way in the numbers of files.
#[test]
fn a_first_write_that_fails_refuses_no_others() {
    for (setup, copy) in Setup::designs().iter().flat_map(|setup| [(setup, false), (setup, true)]) {
        let highest = |sim: &Sim| {
            let files = sim.list().unwrap();
            files.iter().map(|(name, _)| name.number().0).max().unwrap()
        };
        let (faulty, sim, db) = closed(setup, copy);
        let before = faulty.calls();
        db.put(b"new", b"value").unwrap();
        let (files, number) = (sim.list().unwrap().len(), highest(&sim));
        let calls = faulty.trace().into_iter().filter(|call| call.number >= before);
        for call in calls.filter(|call| !leaves_doubt(call)) {
            for fault in [Fault::Io, Fault::TooManyFiles] {
                let (faulty, sim, db) = closed(setup, copy);
                for _ in 0..3 {
                    faulty.fail_call(faulty.calls() + call.number - before, fault);
                    let _ = db.put(b"new", b"value");
                    faulty.heal();
                }
                // Later tries make fewer calls, so that another one fails.
                let mut failed = faulty.trace().into_iter().filter(|call| call.fault.is_some());
                if failed.any(|call| leaves_doubt(&call)) {
                    continue;
                }
                let put = db.put(b"new", b"value");
                assert!(put.is_ok(), "{setup}, {copy}: {call} fails with {fault:?}: {put:?}");
                assert!(sim.list().unwrap().len() <= files + 1, "{setup}: {call}: files are left");
                assert!(highest(&sim) < number + 100, "{setup}: {call}: numbers are wasted");
                db.close().unwrap();
                let db = open(faulty, setup).unwrap();
                for key in [b"old", b"new"] {
                    assert_eq!(db.get(key).unwrap().unwrap(), "value", "{setup}: {call}");
                }
            }
        }
    }
}

/// A flush that had written everything and could not open it for reading left it all behind, and
/// wrote it again at the next try, and the next.
#[test]
fn what_a_flush_cannot_open_again_goes() {
    for preset in [Preset::HashKv, Preset::KtStore] {
        let setup = Setup::tiny(preset, true);
        let due = || {
            let (faulty, sim, db) = store(&setup);
            db.flush().unwrap();
            (0..9).for_each(|i| db.put([b'm', i], [i; 1500]).unwrap());
            (faulty, sim, db)
        };
        let (faulty, _, db) = due();
        let before = faulty.calls();
        db.flush().unwrap();
        let opens = faulty.trace().into_iter().filter(|call| {
            let group = call.name.is_some_and(|name| name.kind() == FileKind::Group);
            let opens = matches!(call.op, Call::Open | Call::Create);
            call.number >= before && opens && group
        });
        let opens: Vec<Call> = opens.map(|call| call.op).collect();
        assert!(opens.len() >= 2, "a file is made, and opened for reading");
        for open in opens {
            let (faulty, sim, db) = due();
            let files = || {
                let written = |kind| matches!(kind, FileKind::Group | FileKind::Table);
                let listed = sim.list().unwrap().into_iter().map(|(name, _)| name);
                listed.filter(|name| written(name.kind())).collect::<Vec<_>>()
            };
            let there = files();
            faulty.fail_matching(Rule::both(open, FileKind::Group), Fault::Io);
            assert!(db.flush().is_err());
            assert_eq!(files(), there, "{preset}: {open:?}");
        }
    }
}

/// "Space is full; writing resumes without reopening once there is room again."
#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    for preset in Preset::ALL {
        let groups = [(Call::Create, FileKind::Group), (Call::WriteAt, FileKind::Group)];
        let has_groups = matches!(preset, Preset::HashKv | Preset::KtStore);
        let calls = [
            (Call::Allocate, FileKind::Log),
            (Call::Create, FileKind::Table),
            (Call::WriteAt, FileKind::Table),
        ];
        for (op, kind) in calls.into_iter().chain(groups.into_iter().filter(|_| has_groups)) {
            let (faulty, sim, db) = store(&Setup::tiny(preset, true));
            faulty.fail_matching(Rule::both(op, kind), Fault::NoSpace);
            let mut refused = 0;
            for i in 0..200u8 {
                match db.put_with([b'n', i], vec![i; 1500], Durability::Os) {
                    Ok(()) => assert_eq!(db.get([b'n', i]).unwrap().unwrap(), vec![i; 1500]),
                    Err(e) => {
                        assert_eq!(e.kind(), ErrorKind::NoSpace, "{op:?} of {kind:?}: {e}");
                        assert_eq!(db.get([b'n', i]).unwrap(), None, "a refused write shows");
                        refused += 1;
                    }
                }
            }
            assert!(refused > 0, "{preset}: {op:?} of {kind:?} never stopped a writer");
            faulty.heal();
            db.put_with(b"again", b"value", Durability::Sync).unwrap();
            db.flush().unwrap();
            assert!(db.verify().unwrap().problems.is_empty());
            let next = sim.kill();
            drop(db);
            let db = open(Arc::new(next), &Setup::tiny(preset, true)).unwrap();
            assert_eq!(db.get(b"again").unwrap().unwrap(), "value");
            assert_eq!(db.get([b'k', 7]).unwrap().unwrap(), vec![7; 1500]);
        }
    }
}

/// A read that the device refuses is an error, never an absent key, and a scan does not skip it.
#[test]
fn a_failed_read_is_an_error_and_not_an_absence() {
    for preset in Preset::ALL {
        let setup = Setup::tiny(preset, true);
        let (faulty, _, db) = store(&setup);
        db.compact().unwrap();
        for kind in [FileKind::Table, FileKind::Log, FileKind::Segment, FileKind::Group] {
            faulty.fail_matching(Rule::both(Call::ReadAt, kind), Fault::Io);
            let mut failed = 0;
            for i in 0..60u8 {
                match db.get([b'k', i]) {
                    Ok(value) => assert_eq!(value.unwrap(), vec![i; 1500]),
                    Err(e) => {
                        assert_eq!(e.kind(), ErrorKind::Io);
                        failed += 1;
                    }
                }
            }
            let items: Vec<_> = db.range(..).collect();
            let whole = items.len() == 60 && items.iter().all(Result::is_ok);
            assert!(whole || items.last().is_some_and(Result::is_err), "a scan hid a failure");
            // Blocks of tables may be in the cache for one and not for the other.
            assert!(failed == 0 || !whole || matches!(preset, Preset::Lsm | Preset::Ohdb));
            faulty.heal();
        }
        assert!(db.range(..).all(|item| item.is_ok()));
    }
}
