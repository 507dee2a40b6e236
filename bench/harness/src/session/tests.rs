//! Sessions on an engine in memory that forgets or leaves out what a test says.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::Session;
use crate::config::Config;
use crate::counters::SPACE_LIMIT;
use crate::engine::{Engine, Opener, VisitPair};
use crate::error::Result;
use crate::observer::Silent;
use crate::result::{PhaseResult, Verification};
use crate::scratch::Scratch;
use crate::workload::select;

/// What an engine does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Stores before the last one of the run keep six records.
    ForgetsEarly,
    /// Scans find nothing.
    ScansNothing,
    /// Scans leave out the record that they start at.
    ScansFromNext,
    /// Scans end one record too early.
    ScansShort,
    /// Takes 64 KiB of the disk, and says that it must not take more than this.
    Limit(u64),
}

struct Memory {
    fault: Fault,
    map: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    forgets: bool,
}

/// Opens an engine for each of `left` stores.
struct Stores {
    fault: Fault,
    left: Arc<Mutex<u32>>,
}

impl Opener for Stores {
    fn name(&self) -> &str {
        "memory"
    }

    fn open(&self, directory: &Path) -> Result<Box<dyn Engine>> {
        if let Fault::Limit(_) = self.fault {
            std::fs::write(directory.join("file"), [1; 64 << 10]).unwrap();
        }
        let mut left = self.left.lock().unwrap();
        *left -= 1;
        let forgets = self.fault == Fault::ForgetsEarly && *left > 0;
        Ok(Box::new(Memory { fault: self.fault, map: Mutex::default(), forgets }))
    }
}

impl Engine for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut map = self.map.lock().unwrap();
        map.insert(key.to_vec(), value.to_vec());
        if self.forgets && map.len() == 7 {
            map.pop_first();
        }
        Ok(())
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.map.lock().unwrap().get(key).map(|value| visit(value)).is_some())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.map.lock().unwrap().remove(key);
        Ok(())
    }

    fn scan(&self, from: &[u8], limit: usize, visit: VisitPair<'_>) -> Result<usize> {
        // The check of the whole store is not what is tested.
        let fault = if limit == usize::MAX { Fault::None } else { self.fault };
        let map = self.map.lock().unwrap();
        let (from, limit) = match fault {
            Fault::ScansNothing => (Bound::Included(from), 0),
            Fault::ScansFromNext => (Bound::Excluded(from), limit),
            Fault::ScansShort => (Bound::Included(from), limit - 1),
            _ => (Bound::Included(from), limit),
        };
        let range = map.range::<[u8], _>((from, Bound::Unbounded));
        Ok(range.take(limit).map(|(key, value)| visit(key, value)).count())
    }

    fn wait_idle(&self) -> Result<()> {
        Ok(())
    }

    fn describe(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn counters(&self) -> Vec<(String, f64)> {
        let Fault::Limit(bytes) = self.fault else { return Vec::new() };
        vec![(SPACE_LIMIT.to_owned(), bytes as f64)]
    }
}

fn run(
    fault: Fault,
    config: Config,
    names: &[&str],
    stores: u32,
) -> (Vec<PhaseResult>, Verification) {
    let home = tempfile::tempdir().unwrap();
    let scratch = Scratch::claim(&home.path().join("bench")).unwrap();
    let opener = Stores { fault, left: Arc::new(Mutex::new(stores)) };
    let mut session = Session::new(&opener, &scratch, config, None, &Silent).unwrap();
    let workloads = select(names).unwrap();
    let phases = workloads.iter().map(|workload| session.run(workload).unwrap()).collect();
    let found = session.verify().unwrap();
    session.close().unwrap();
    (phases, found)
}

#[test]
fn a_store_is_verified_before_it_is_emptied() {
    let names = ["load", "load"];
    let config = Config::new(500, 50);
    let (_, found) = run(Fault::None, config.clone(), &names, 2);
    assert!(found.passed() && (found.records, found.compared) == (1000, 1000), "{found:?}");
    let (_, found) = run(Fault::ForgetsEarly, config.clone(), &names, 2);
    assert_eq!((found.missing, found.records), (494, 506), "{found:?}");
    let unverified = Config { verify: false, ..config };
    let (_, found) = run(Fault::ForgetsEarly, unverified, &names, 2);
    assert!(found.passed() && found.records == 500, "{found:?}");
}

#[test]
fn a_scan_that_shows_too_little_is_wrong_at_once() {
    let config = Config { threads: 2, ..Config::new(500, 50) };
    for name in ["ycsb-e", "scan-100"] {
        let wrong = |fault| {
            let (phases, found) = run(fault, config.clone(), &["load", name], 1);
            assert!(found.passed(), "{found:?}");
            phases[1].problems()
        };
        assert_eq!(wrong(Fault::None), 0, "{name}");
        for fault in [Fault::ScansNothing, Fault::ScansFromNext, Fault::ScansShort] {
            assert!(wrong(fault) > 0, "{fault:?} in {name}");
        }
    }
}

#[test]
fn a_short_piece_has_a_sample() {
    let config = Config { in_pieces: true, ..Config::new(500, 50) };
    let (phases, _) = run(Fault::None, config, &["load"], 1);
    assert!(phases[0].pieces.len() > 1 && phases[0].samples.len() >= phases[0].pieces.len());
}

#[test]
fn an_engine_that_exceeds_its_own_limit_is_wrong() {
    for (limit, wrong) in [(1 << 30, false), (1 << 10, true)] {
        let (phases, _) = run(Fault::Limit(limit), Config::new(500, 50), &["load"], 1);
        assert_eq!(phases[0].problems() > 0, wrong, "{limit}");
        let told = phases[0].checks.first_problem.as_ref().is_some_and(|p| p.contains("limit"));
        assert_eq!(told, wrong, "{limit}");
    }
}
