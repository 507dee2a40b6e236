//! A toy store with bugs to choose from: the enumerator must catch each, and pass the store that
//! has none.
//!
//! Records are appended to a log; `current` names the log and is replaced by rename when a new log
//! begins, which starts with a copy of the records so far.

use std::io;
use std::sync::Arc;

use cleavedb_base::FileNumber;
use cleavedb_base::checksum::check32;
use cleavedb_storage::api::write_all_at;
use cleavedb_storage::{Access, File, FileKind, Mode, Name, RemoveMode, Storage};

use super::{DirectoryOrder, PowerLoss, Rng, SECTOR, Sim};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    NoSyncDir,
    AckBeforeSync,
    NoChecksum,
    RenameBeforeSync,
    NameNotDurable,
    RetriedSync,
}

const RECORD: usize = 300;

fn log_name(number: u64) -> Name {
    Name::numbered(FileKind::Log, FileNumber(number))
}

fn encode(number: usize) -> Vec<u8> {
    let mut record = vec![0; RECORD];
    Rng::new(number as u64).fill(&mut record[4..]);
    record[4] = number as u8 + 1;
    let check = check32(&record[4..], number as u64);
    record[..4].copy_from_slice(&check.to_le_bytes());
    record
}

struct Toy<'a> {
    sim: &'a Sim,
    bug: Bug,
    log: Arc<dyn File>,
    number: u64,
    records: usize,
}

impl<'a> Toy<'a> {
    fn create(sim: &'a Sim, bug: Bug) -> io::Result<Self> {
        let log = sim.open(&log_name(0), Mode::CreateNew, Access::Random)?;
        let mut toy = Self { sim, bug, log, number: 0, records: 0 };
        toy.switch()?;
        Ok(toy)
    }

    fn append(&mut self) -> io::Result<()> {
        let offset = (self.records * RECORD) as u64;
        write_all_at(&*self.log, &encode(self.records), offset)?;
        self.records += 1;
        if self.bug == Bug::RetriedSync && self.records.is_multiple_of(3) {
            // The first sync fails; the toy tries once more and believes the answer.
            self.sim.lose_sync(&log_name(self.number));
        }
        if self.bug == Bug::AckBeforeSync { Ok(()) } else { self.log.sync() }
    }

    fn switch(&mut self) -> io::Result<()> {
        self.number += 1;
        self.log = self.sim.open(&log_name(self.number), Mode::CreateNew, Access::Random)?;
        let copy: Vec<u8> = (0..self.records).flat_map(encode).collect();
        write_all_at(&*self.log, &copy, 0)?;
        self.log.sync()?;
        let [current, new] = [FileKind::Current, FileKind::CurrentNew].map(Name::fixed);
        let file = self.sim.open(&new, Mode::CreateNew, Access::Random)?;
        write_all_at(&*file, &[self.number as u8], 0)?;
        if self.bug != Bug::RenameBeforeSync {
            file.sync()?;
        }
        if !matches!(self.bug, Bug::NameNotDurable | Bug::NoSyncDir) {
            self.sim.sync_dir()?;
        }
        self.sim.rename(&new, &current)?;
        if self.bug != Bug::NoSyncDir {
            self.sim.sync_dir()?;
        }
        self.sim.remove(&log_name(self.number - 1), RemoveMode::Immediate)
    }
}

fn read(sim: &Sim, name: &Name) -> Option<Vec<u8>> {
    sim.image().read(name)
}

/// The records that a reopened store finds, or what is wrong with it.
fn recover(sim: &Sim, bug: Bug) -> Result<usize, String> {
    let Some(current) = read(sim, &Name::fixed(FileKind::Current)) else { return Ok(0) };
    let number = current.first().ok_or("current is empty")?;
    let log = read(sim, &log_name(u64::from(*number))).ok_or("the log is missing")?;
    let mut count = 0;
    for record in log.chunks_exact(RECORD) {
        let check = check32(&record[4..], count as u64).to_le_bytes();
        let valid = if bug == Bug::NoChecksum { record[4] != 0 } else { record[..4] == check };
        if !valid {
            break;
        }
        if record != encode(count) {
            return Err(format!("record {count} was never written"));
        }
        count += 1;
    }
    Ok(count)
}

/// Runs the toy and checks every crash: the states looked at until one was wrong, and what was.
fn hunt(bug: Bug, directory: DirectoryOrder) -> (usize, Option<String>) {
    let sim = Sim::new();
    let mut toy = Toy::create(&sim, bug).unwrap();
    let mut acknowledged = vec![(sim.history_len(), 0)];
    for i in 1..=32 {
        toy.append().unwrap();
        acknowledged.push((sim.history_len(), toy.records));
        if i % 8 == 0 {
            toy.switch().unwrap();
        }
    }
    let issued = toy.records;
    let mut replay = sim.replay(SECTOR);
    let options = PowerLoss { directory, states_max: 500, seed: 1 };
    let mut states = 0;
    for point in 0..=replay.last_point() {
        replay.advance(point);
        let due = acknowledged.iter().take_while(|(p, _)| *p <= point).last().map_or(0, |a| a.1);
        for image in std::iter::once(replay.process_kill()).chain(replay.power_loss(&options)) {
            states += 1;
            let wrong = match recover(&Sim::from_image(image), bug) {
                Err(wrong) => wrong,
                Ok(found) if found < due => format!("{found} records of {due} acknowledged"),
                Ok(found) if found > issued => format!("{found} records of {issued} issued"),
                Ok(_) => continue,
            };
            return (states, Some(wrong));
        }
    }
    (states, None)
}

#[test]
fn a_correct_store_passes_every_crash() {
    for directory in [DirectoryOrder::Prefix, DirectoryOrder::Subset] {
        let (states, wrong) = hunt(Bug::None, directory);
        assert_eq!(wrong, None);
        assert!(states > 1000, "{states}");
    }
}

#[test]
fn each_bug_is_caught_under_the_strict_directory() {
    let bugs = [
        Bug::NoSyncDir,
        Bug::AckBeforeSync,
        Bug::NoChecksum,
        Bug::RenameBeforeSync,
        Bug::NameNotDurable,
        Bug::RetriedSync,
    ];
    for bug in bugs {
        let (states, wrong) = hunt(bug, DirectoryOrder::Subset);
        let wrong = wrong.unwrap_or_else(|| panic!("{bug:?} passed {states} states"));
        println!("{bug:?}: {wrong}, after {states} states");
    }
}

#[test]
fn only_the_strict_directory_shows_a_name_that_is_not_durable() {
    assert!(hunt(Bug::NameNotDurable, DirectoryOrder::Prefix).1.is_none());
    assert!(hunt(Bug::NoSyncDir, DirectoryOrder::Prefix).1.is_some());
}
