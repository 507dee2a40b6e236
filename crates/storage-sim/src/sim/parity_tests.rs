//! The simulator behaves as the disk does: the same script, the same answers.

use std::io;
use std::sync::Arc;

use cleavedb_base::FileNumber;
use cleavedb_base::limits::BLOCK;
use cleavedb_storage::aligned::AlignedBuf;
use cleavedb_storage::api::write_all_at;
use cleavedb_storage::log::WriteBack;
use cleavedb_storage::{
    Access, Disk, File, FileKind, FoundWindow, LeftWindow, LockMode, Mode, Name, RemoveMode,
    Storage,
};

use super::{Rng, Sim};
use crate::log::{WINDOW, log_of};
use crate::modelled::{Clock, Profile, SimulatedDevice};

fn log(number: u64) -> Name {
    Name::numbered(FileKind::Log, FileNumber(number))
}

/// An answer as both sides can give it: errors by kind and number.
fn told<T: std::fmt::Debug>(answer: io::Result<T>) -> String {
    match answer {
        Ok(value) => format!("{value:?}"),
        Err(e) => format!("{:?} {:?}", e.kind(), e.raw_os_error()),
    }
}

/// Random calls on three names; all answers in order.
fn script(storage: &dyn Storage, seed: u64) -> Vec<String> {
    let mut rng = Rng::new(seed);
    let mut files: Vec<(Name, Mode, Arc<dyn File>)> = Vec::new();
    let mut answers = Vec::new();
    for _ in 0..300 {
        let (name, other) = (log(rng.below(3)), log(rng.below(3)));
        let offset = rng.below(3 * BLOCK as u64);
        let index = rng.index(files.len().max(1));
        let what = rng.below(13);
        let answer = match (what, files.get(index).map(|(_, _, file)| file)) {
            (0, _) | (1.., None) => {
                let mode = [Mode::Read, Mode::ReadWrite, Mode::CreateNew][rng.index(3)];
                let opened = storage.open(&name, mode, Access::Random);
                told(opened.map(|file| files.push((name, mode, file))))
            }
            (1, _) => told(storage.rename(&name, &other)),
            (2, _) => told(storage.remove(&name, RemoveMode::Paced)),
            (3, _) => told(storage.list().map(|mut names| {
                names.sort_unstable();
                names
            })),
            (4, _) => told(storage.sync_dir()),
            (5, _) => {
                let mode = [LockMode::Exclusive, LockMode::Shared][rng.index(2)];
                told(storage.lock(mode).map(drop))
            }
            (6, Some(file)) => told(file.truncate(offset)),
            (7, Some(file)) => told(file.len()),
            (8, Some(file)) => told(file.allocate(offset)),
            (9, Some(file)) => told(file.sync()),
            (12, Some(file)) => told(file.punch(offset, rng.below(2 * BLOCK as u64))),
            (10, Some(file)) => {
                let mut bytes = vec![0; rng.index(2 * BLOCK)];
                rng.fill(&mut bytes);
                told(file.write_at(&bytes, offset))
            }
            (_, Some(file)) => {
                let mut bytes = vec![0; rng.index(2 * BLOCK)];
                told(file.read_at(&mut bytes, offset)) + &format!("{bytes:?}")
            }
        };
        answers.push(format!("{what}: {answer}"));
        // A handle for reading may have lost its file: the simulator always says so, the disk if it
        // was closed meanwhile.
        let lost = match what {
            1 => vec![name, other],
            2 => vec![name],
            _ => Vec::new(),
        };
        files.retain(|(of, mode, _)| *mode != Mode::Read || !lost.contains(of));
    }
    answers
}

#[test]
fn disk_and_simulator_give_the_same_answers() {
    for seed in 0..30 {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path(), false).unwrap();
        let sim = Sim::new();
        sim.set_write_once(false);
        let (real, simulated) = (script(&disk, seed), script(&sim, seed));
        for (i, (real, simulated)) in real.iter().zip(&simulated).enumerate() {
            assert_eq!(real, simulated, "answer {i}, seed {seed}");
        }
    }
}

#[test]
fn a_modelled_device_changes_time_and_no_answer() {
    for (seed, profile) in (0..30).zip(Profile::ALL.into_iter().cycle()) {
        let [plain, below] = [(); 2].map(|()| Sim::new());
        plain.set_write_once(false);
        below.set_write_once(false);
        let clock = Clock::virtual_time();
        let modelled =
            SimulatedDevice::new(Arc::new(below), profile, clock.clone(), 8 * BLOCK as u64);
        assert_eq!(script(&modelled, seed), script(&plain, seed), "seed {seed}");
        assert!(!clock.now().is_zero(), "seed {seed}");
    }
}

#[test]
fn disk_and_simulator_keep_windows_alike() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::open(dir.path(), false).unwrap();
    let sim = Sim::new();
    let len = 4 * BLOCK;
    let left = [&disk as &dyn Storage, &sim].map(|storage| {
        let (log, mut appender) = log_of(storage, len, WriteBack::Eager);
        // Enough to come around the log buffer.
        for byte in 0..200 {
            let (reserved, mut slot) = log.reserve(&mut appender, 100).unwrap();
            slot.push(&[byte; 100]);
            log.set_written_upto(reserved.end);
            log.drain_to(reserved.end).unwrap();
        }
        let survives = log.buffer().survives();
        drop((log, appender));
        survives.then(|| {
            let found = LeftWindow::find(storage, WINDOW, true).unwrap();
            let FoundWindow::Ours(left) = found else { panic!("the window is there") };
            let mut kept = vec![0; len];
            left.load(0, &mut kept).unwrap();
            assert_eq!(left.len(), len as u64);
            kept
        })
    });
    match left {
        [None, _] => eprintln!("skipped: this machine cannot map a file"),
        [real, simulated] => assert_eq!(real, simulated),
    }
}

#[test]
fn disk_and_simulator_write_directly_alike() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::open(dir.path(), false).unwrap();
    let sim = Sim::new();
    for storage in [&disk as &dyn Storage, &sim] {
        let file = storage.open(&log(1), Mode::CreateNew, Access::Direct).unwrap();
        let mut buf = AlignedBuf::default();
        buf.extend_from_slice(b"direct");
        buf.pad_to(file.alignment());
        write_all_at(&*file, &buf, 0).unwrap();
        file.sync().unwrap();
        let mut back = AlignedBuf::zeroed(BLOCK);
        let len = file.read_at(&mut back, 0).unwrap();
        assert_eq!(back[..len], buf[..]);
    }
}

#[test]
fn direct_access_that_is_not_aligned_is_refused() {
    // A real file system may be lenient, so this is the simulator's duty alone.
    let sim = Sim::new();
    let file = sim.open(&log(1), Mode::CreateNew, Access::Direct).unwrap();
    let mut buf = AlignedBuf::zeroed(4 * file.alignment());
    let unit = file.alignment();
    let refused = |answer: io::Result<usize>| answer.unwrap_err().kind();
    assert_eq!(refused(file.write_at(&buf[..unit], 1)), io::ErrorKind::InvalidInput, "offset");
    assert_eq!(refused(file.write_at(&buf[..3], 0)), io::ErrorKind::InvalidInput, "length");
    assert_eq!(refused(file.write_at(&buf[1..=unit], 0)), io::ErrorKind::InvalidInput, "buffer");
    assert_eq!(refused(file.read_at(&mut buf[..3], 0)), io::ErrorKind::InvalidInput, "read");
    assert_eq!(file.write_at(&buf[..unit], 0).unwrap(), unit);
}

#[test]
fn a_locked_directory_is_locked_for_everybody() {
    let dir = tempfile::tempdir().unwrap();
    let [one, two] = [(); 2].map(|()| Disk::open(dir.path(), false).unwrap());
    let sim = Sim::new();
    let pairs: [(&dyn Storage, &dyn Storage); 2] = [(&one, &two), (&sim, &sim.clone())];
    for (first, second) in pairs {
        let refused = |storage: &dyn Storage, mode| {
            let error = storage.lock(mode).err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        };
        let modes = [LockMode::Exclusive, LockMode::Shared];
        let lock = first.lock(LockMode::Exclusive).unwrap();
        for mode in modes {
            refused(second, mode);
            refused(first, mode);
        }
        drop(lock);
        let readers = [first, second, first].map(|storage| storage.lock(LockMode::Shared).unwrap());
        for reader in readers {
            refused(second, LockMode::Exclusive);
            assert!(second.lock(LockMode::Shared).is_ok());
            drop(reader);
        }
        assert!(modes.into_iter().all(|mode| second.lock(mode).is_ok()));
    }
}

#[test]
fn a_full_simulator_refuses_what_a_full_disk_would() {
    let sim = Sim::new();
    sim.set_capacity(1000);
    let file = sim.open(&log(1), Mode::CreateNew, Access::Random).unwrap();
    assert_eq!(file.allocate(1001).unwrap_err().kind(), io::ErrorKind::StorageFull);
    file.allocate(600).unwrap();
    assert_eq!(sim.free_space().unwrap(), 400);
    let second = sim.open(&log(2), Mode::CreateNew, Access::Random).unwrap();
    assert_eq!(second.write_at(&[1; 500], 0).unwrap(), 400, "as much as fits");
    assert_eq!(second.write_at(&[1], 400).unwrap_err().kind(), io::ErrorKind::StorageFull);
    write_all_at(&*file, &[1; 600], 0).expect("reserved space is there");
    sim.remove(&log(2), RemoveMode::Paced).unwrap();
    assert_eq!(sim.free_space().unwrap(), 0, "an open file keeps its space");
    drop(second);
    assert_eq!(sim.free_space().unwrap(), 400);
}

#[test]
#[should_panic(expected = "write-once is broken: a write of 000001.log at 2")]
fn a_write_below_the_synced_length_panics() {
    let sim = Sim::new();
    let file = sim.open(&log(1), Mode::CreateNew, Access::Random).unwrap();
    write_all_at(&*file, b"abc", 0).unwrap();
    file.sync().unwrap();
    write_all_at(&*file, b"d", 3).unwrap();
    write_all_at(&*file, b"e", 3).expect("what is not synced may be rewritten");
    let _ = file.write_at(b"x", 2);
}

#[test]
#[should_panic(expected = "write-once is broken: a truncation of 000001.log at 2")]
fn a_truncation_below_the_synced_length_panics() {
    let sim = Sim::new();
    let file = sim.open(&log(1), Mode::CreateNew, Access::Random).unwrap();
    write_all_at(&*file, b"abc", 0).unwrap();
    file.sync().unwrap();
    let _ = file.truncate(2);
}
