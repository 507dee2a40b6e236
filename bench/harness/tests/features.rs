//! The benchmarks of features on an engine in memory that has all of them: each passes on a right
//! one, and finds out one that is wrong.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use cleavedb_bench::capabilities::{
    Batches, Body, BulkLoad, BulkLoads, Capabilities, Codec, ConditionalWrites, Cursor, Cursors,
    Expiry, Keyspace, Keyspaces, Merges, Needs, RangeDeletes, Transaction, Transactions,
};
use cleavedb_bench::engine::VisitPair;
use cleavedb_bench::features::{FEATURES, run};
use cleavedb_bench::scratch::Scratch;
use cleavedb_bench::{Engine, Opener, Result, features};

/// What an engine does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// A batch loses its last pair.
    CutsBatches,
    /// A transaction in a hundred is acknowledged and not made.
    LosesTransactions,
    /// A swap ignores what it should find, and says that it did not swap.
    SwapsAlways,
    /// A merge in a hundred is forgotten.
    LosesMerges,
    /// A step back stays where it is.
    StaysInPrev,
    /// A delete of a range takes its end too.
    DeletesEnds,
    /// All keyspaces are one.
    MixesKeyspaces,
    /// A load loses its last pair.
    CutsLoads,
    /// Values of more than this are cut.
    CutsValues,
}

type Map = BTreeMap<Vec<u8>, (Vec<u8>, Option<Instant>)>;

/// All spaces of keys, by their names; what was written without one is in the empty name's.
type Spaces = Arc<Mutex<BTreeMap<String, Map>>>;

struct MemoryOpener {
    fault: Fault,
    stored: Mutex<BTreeMap<std::path::PathBuf, Spaces>>,
}

struct Memory {
    fault: Fault,
    spaces: Spaces,
    calls: Mutex<u64>,
}

impl Opener for MemoryOpener {
    fn name(&self) -> &str {
        "memory"
    }

    fn open(&self, directory: &Path) -> Result<Box<dyn Engine>> {
        let marker = directory.join("store");
        let mut stored = self.stored.lock().unwrap();
        if !marker.exists() {
            std::fs::write(marker, "").unwrap();
            stored.remove(directory);
        }
        let spaces = stored.entry(directory.to_owned()).or_default().clone();
        Ok(Box::new(Memory { fault: self.fault, spaces, calls: Mutex::default() }))
    }

    fn open_for(&self, directory: &Path, needs: &Needs) -> Result<Option<Box<dyn Engine>>> {
        let known = matches!(needs.codec, Codec::Plain | Codec::Lz4);
        known.then(|| self.open(directory)).transpose()
    }
}

impl Memory {
    fn with<T>(&self, space: &str, work: impl FnOnce(&mut Map) -> T) -> T {
        let mut spaces: MutexGuard<'_, _> = self.spaces.lock().unwrap();
        work(spaces.entry(space.to_owned()).or_default())
    }

    fn store(&self, space: &str, key: &[u8], value: &[u8], end: Option<Instant>) {
        let len = if self.fault == Fault::CutsValues { 500.min(value.len()) } else { value.len() };
        self.with(space, |map| map.insert(key.to_vec(), (value[..len].to_vec(), end)));
    }

    fn load(&self, space: &str, key: &[u8]) -> Option<Vec<u8>> {
        let found = self.with(space, |map| map.get(key).cloned());
        found.filter(|(_, end)| end.is_none_or(|end| Instant::now() < end)).map(|(value, _)| value)
    }

    /// Whether this call is one that goes wrong, of those that have this fault.
    fn fails(&self, fault: Fault) -> bool {
        let mut calls = self.calls.lock().unwrap();
        *calls += 1;
        self.fault == fault && calls.is_multiple_of(100)
    }
}

impl Engine for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store("", key, value, None);
        Ok(())
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.load("", key).map(|value| visit(&value)).is_some())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.with("", |map| map.remove(key));
        Ok(())
    }

    fn scan(&self, from: &[u8], limit: usize, visit: VisitPair<'_>) -> Result<usize> {
        self.with("", |map| {
            let pairs = map.range(from.to_vec()..).take(limit);
            Ok(pairs.map(|(key, (value, _))| visit(key, value)).count())
        })
    }

    fn wait_idle(&self) -> Result<()> {
        Ok(())
    }

    fn describe(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            batches: Some(self),
            transactions: Some(self),
            conditional_writes: Some(self),
            merges: Some(self),
            expiry: Some(self),
            range_deletes: Some(self),
            keyspaces: Some(self),
            cursors: Some(self),
            bulk_loads: Some(self),
        }
    }
}

impl Batches for Memory {
    fn write_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let cut = usize::from(self.fault == Fault::CutsBatches);
        pairs[..pairs.len() - cut].iter().try_for_each(|(key, value)| self.put(key, value))
    }
}

/// Transactions of this engine run one after another.
static ONE: Mutex<()> = Mutex::new(());

impl Transactions for Memory {
    fn transact(&self, body: Body<'_>) -> Result<u64> {
        let _one = ONE.lock().unwrap();
        let mut open = Open { store: self, writes: Vec::new() };
        body(&mut open)?;
        if !self.fails(Fault::LosesTransactions) {
            open.writes.iter().try_for_each(|(key, value)| self.put(key, value))?;
        }
        Ok(0)
    }
}

struct Open<'a> {
    store: &'a Memory,
    writes: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Transaction for Open<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.store.get(key, visit)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.writes.push((key.to_vec(), value.to_vec()));
        Ok(())
    }
}

impl ConditionalWrites for Memory {
    fn compare_and_swap(&self, key: &[u8], expected: &[u8], new: &[u8]) -> Result<bool> {
        let wrong = self.fails(Fault::SwapsAlways);
        self.with("", |map| match map.get_mut(key) {
            Some((value, _)) if value == expected || wrong => {
                *value = new.to_vec();
                Ok(!wrong)
            }
            _ => Ok(false),
        })
    }
}

impl Merges for Memory {
    fn add(&self, key: &[u8], number: u64) -> Result<()> {
        let _one = ONE.lock().unwrap();
        let lost = self.fails(Fault::LosesMerges);
        let sum = self.count(key)? + if lost { 0 } else { number };
        self.put(key, &sum.to_le_bytes())
    }

    fn count(&self, key: &[u8]) -> Result<u64> {
        let value = self.load("", key).unwrap_or_default();
        Ok(value.try_into().map_or(0, u64::from_le_bytes))
    }
}

impl Expiry for Memory {
    fn put_for(&self, key: &[u8], value: &[u8], lifetime: Duration) -> Result<()> {
        self.store("", key, value, Some(Instant::now() + lifetime));
        Ok(())
    }
}

impl RangeDeletes for Memory {
    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        let (from, to) = (Bound::Included(from.to_vec()), to.to_vec());
        let to = match self.fault {
            Fault::DeletesEnds => Bound::Included(to),
            _ => Bound::Excluded(to),
        };
        self.with("", |map| {
            let keys: Vec<_> = map.range((from, to)).map(|(key, _)| key.clone()).collect();
            keys.iter().for_each(|key| _ = map.remove(key));
        });
        Ok(())
    }
}

impl Keyspaces for Memory {
    fn keyspace(&self, name: &str) -> Result<Box<dyn Keyspace + '_>> {
        let name = if self.fault == Fault::MixesKeyspaces { "all" } else { name };
        Ok(Box::new(Space { store: self, name: name.to_owned() }))
    }
}

struct Space<'a> {
    store: &'a Memory,
    name: String,
}

impl Keyspace for Space<'_> {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store.store(&self.name, key, value, None);
        Ok(())
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.store.load(&self.name, key).map(|value| visit(&value)).is_some())
    }
}

impl Cursors for Memory {
    fn cursor(&self) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(Position { store: self, key: Vec::new() }))
    }
}

struct Position<'a> {
    store: &'a Memory,
    key: Vec<u8>,
}

impl Position<'_> {
    fn go(&mut self, found: Option<Vec<u8>>) -> Result<bool> {
        let there = found.is_some();
        self.key = found.unwrap_or_default();
        Ok(there)
    }
}

impl Cursor for Position<'_> {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        let found =
            self.store.with("", |map| map.range(key.to_vec()..).next().map(|p| p.0.clone()));
        self.go(found)
    }

    fn next(&mut self) -> Result<bool> {
        let above = (Bound::Excluded(self.key.clone()), Bound::Unbounded);
        let found = self.store.with("", |map| map.range(above).next().map(|p| p.0.clone()));
        self.go(found)
    }

    fn prev(&mut self) -> Result<bool> {
        if self.store.fault == Fault::StaysInPrev {
            return Ok(true);
        }
        let below = ..self.key.clone();
        let found = self.store.with("", |map| map.range(below).next_back().map(|p| p.0.clone()));
        self.go(found)
    }

    fn show(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let value = self.store.load("", &self.key).unwrap_or_default();
        visit(&self.key, &value);
        Ok(())
    }
}

impl BulkLoads for Memory {
    fn bulk_load(&self) -> Result<Box<dyn BulkLoad + '_>> {
        Ok(Box::new(Load { store: self, pairs: Vec::new() }))
    }
}

struct Load<'a> {
    store: &'a Memory,
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl BulkLoad for Load<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.pairs.push((key.to_vec(), value.to_vec()));
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        if self.store.fault == Fault::CutsLoads {
            self.pairs.pop();
        }
        self.pairs.iter().try_for_each(|(key, value)| self.store.put(key, value))
    }
}

fn measure(feature: &str, fault: Fault) -> Result<Vec<cleavedb_bench::result::FeatureResult>> {
    let home = tempfile::tempdir().unwrap();
    let scratch = Scratch::claim(&home.path().join("data")).unwrap();
    let opener = MemoryOpener { fault, stored: Mutex::default() };
    let asked = format!("{feature}/1000").parse::<features::Asked>().unwrap();
    run(asked, &opener, &scratch, 7)
}

#[test]
fn every_feature_is_measured_and_yields_its_figures() {
    for feature in FEATURES {
        let results = measure(feature.name, Fault::None).unwrap();
        assert!(!results.is_empty());
        for result in results {
            assert_eq!((&*result.engine, &*result.feature), ("memory", feature.name));
            let named = |name: &String| feature.figures.contains(&name.as_str());
            assert!(result.figures.keys().all(named), "{result:?}");
            assert!(result.figures.len() * 2 > feature.figures.len(), "{result:?}");
        }
    }
}

#[test]
fn what_an_engine_does_wrong_is_found_out() {
    let wrong = [
        ("batches", Fault::CutsBatches),
        ("transactions", Fault::LosesTransactions),
        ("conditional-writes", Fault::SwapsAlways),
        ("merges", Fault::LosesMerges),
        ("cursors", Fault::StaysInPrev),
        ("range-deletes", Fault::DeletesEnds),
        ("keyspaces", Fault::MixesKeyspaces),
        ("bulk-loads", Fault::CutsLoads),
        ("compression", Fault::CutsValues),
    ];
    for (feature, fault) in wrong {
        let error = measure(feature, fault).unwrap_err().to_string();
        assert!(error.contains("check of the results"), "{fault:?}: {error}");
    }
}

#[test]
fn what_may_be_asked_for_is_said() {
    let refused = |text: &str| text.parse::<features::Asked>().unwrap_err();
    assert!(refused("nonsense").contains("known: batches, transactions"));
    assert!(refused("merges/0").contains("merges/10"));
}
