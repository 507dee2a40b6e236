//! Sorts items by their keys, in bounded memory: as many as fit are sorted and written to a file, a
//! *run*, and runs are merged. Of items with the same key the last one wins.
//!
//! Not more than [`RUNS_MAX`] runs of one length are kept: they are merged into a longer one, so
//! that few files are open at once.

mod directory;
mod run;
mod merge;

use std::path::PathBuf;

use self::directory::TempDirectory;
use self::merge::Merge;
use self::run::{RunReader, SortRunWriter};
use crate::failure::Result;
use crate::interrupt;

/// Bytes of items in memory, with [`ItemInMemory`] for each.
const MEMORY: usize = 64 << 20;

/// Runs that are merged at once.
const RUNS_MAX: usize = 64;

/// An item: key, value, and when it expires, in milliseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SortedItem {
    /// The key of the item.
    pub key: Vec<u8>,
    /// The value of the item.
    pub value: Vec<u8>,
    /// When it expires; `None` if the keyspace decides.
    pub expires: Option<u64>,
}

/// Where an item lies in memory.
struct ItemInMemory {
    begin: usize,
    key_len: usize,
    value_len: usize,
    expires: Option<u64>,
}

/// Takes items in any order.
pub struct Sorter {
    directory: TempDirectory,
    memory: usize,
    bytes: Vec<u8>,
    places: Vec<ItemInMemory>,
    /// Runs by length, the shortest first; of each length the oldest first. Longer ones are older.
    levels: Vec<Vec<RunReader>>,
}

impl Sorter {
    /// A sorter with its files in `directory`, which it makes and removes, with what a killed one
    /// has left there. No other sorter may use it.
    pub fn new(directory: PathBuf) -> Result<Self> {
        Ok(Self::with_memory(TempDirectory::new(directory)?, MEMORY))
    }

    fn with_memory(directory: TempDirectory, memory: usize) -> Self {
        let (bytes, places, levels) = (Vec::new(), Vec::new(), Vec::new());
        Self { directory, memory, bytes, places, levels }
    }

    /// Adds an item.
    pub fn add(&mut self, key: &[u8], value: &[u8], expires: Option<u64>) -> Result<()> {
        let taken = self.bytes.len() + self.places.len() * size_of::<ItemInMemory>();
        if !self.places.is_empty() && taken + key.len() + value.len() > self.memory {
            self.write_run()?;
        }
        let (begin, key_len, value_len) = (self.bytes.len(), key.len(), value.len());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.places.push(ItemInMemory { begin, key_len, value_len, expires });
        Ok(())
    }

    /// Sorts the items in memory. Of those with the same key the last one stays.
    fn sort(&mut self) {
        let Self { bytes, places, .. } = self;
        let key = |place: &ItemInMemory| &bytes[place.begin..place.begin + place.key_len];
        // Newer items lie behind older ones.
        places.sort_unstable_by(|a, b| key(a).cmp(key(b)).then(b.begin.cmp(&a.begin)));
        places.dedup_by(|later, kept| key(later) == key(kept));
    }

    /// Writes what is in memory to a run.
    fn write_run(&mut self) -> Result<()> {
        self.sort();
        let mut writer = SortRunWriter::new(&mut self.directory)?;
        for place in self.places.drain(..) {
            let (key, value, expires) = item(&self.bytes, &place);
            writer.add(key, value, expires)?;
        }
        self.bytes.clear();
        self.push(writer.finish()?, 0)
    }

    /// Adds a run to a level, whose runs are merged into one of the next level if it is full.
    fn push(&mut self, run: RunReader, level: usize) -> Result<()> {
        if self.levels.len() == level {
            self.levels.push(Vec::new());
        }
        self.levels[level].push(run);
        if self.levels[level].len() < RUNS_MAX {
            return Ok(());
        }
        let mut merge = Merge::new(std::mem::take(&mut self.levels[level]))?;
        let mut writer = SortRunWriter::new(&mut self.directory)?;
        while let Some(SortedItem { key, value, expires }) = merge.next()? {
            writer.add(&key, &value, expires)?;
            interrupt::check()?;
        }
        let merged = writer.finish()?;
        drop(merge);
        self.push(merged, level + 1)
    }

    /// All items, sorted.
    pub fn finish(mut self) -> Result<Sorted> {
        if self.levels.is_empty() {
            self.sort();
            let places = std::mem::take(&mut self.places).into_iter();
            return Ok(Sorted(Items::InMemory(self.bytes, places)));
        }
        if !self.places.is_empty() {
            self.write_run()?;
        }
        let runs = self.levels.into_iter().rev().flatten().collect();
        Ok(Sorted(Items::InRuns(Merge::new(runs)?, self.directory)))
    }
}

/// Items in ascending order of their keys, each key once.
pub struct Sorted(Items);

enum Items {
    /// Items that fit in memory.
    InMemory(Vec<u8>, std::vec::IntoIter<ItemInMemory>),
    /// Items that lie in files of this directory, which is removed with them.
    InRuns(Merge, #[expect(dead_code, reason = "held until the runs are read")] TempDirectory),
}

impl Sorted {
    /// The next item; `None` at the end.
    pub fn next(&mut self) -> Result<Option<SortedItem>> {
        match &mut self.0 {
            Items::InRuns(merge, _) => merge.next(),
            Items::InMemory(bytes, places) => Ok(places.next().map(|place| {
                let (key, value, expires) = item(bytes, &place);
                SortedItem { key: key.to_vec(), value: value.to_vec(), expires }
            })),
        }
    }
}

/// The item at `place`.
fn item<'b>(bytes: &'b [u8], place: &ItemInMemory) -> (&'b [u8], &'b [u8], Option<u64>) {
    let (key, rest) = bytes[place.begin..].split_at(place.key_len);
    (key, &rest[..place.value_len], place.expires)
}

#[cfg(test)]
mod tests;
