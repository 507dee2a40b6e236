//! What an import stores its items in: batches, or, with `--bulk`, loads of all items, sorted.

use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use cleavedb::{BulkLoad, Db, KEY_LEN_MAX, Keyspace, KeyspaceOptions, VALUE_LEN_MAX};

use crate::args::BulkArgs;
use crate::expiry::Lasts;
use crate::failure::{Failure, Result};
use crate::global::Global;
use crate::interrupt;
use crate::keyspaces::{differs, make};
use crate::loader::Loader;
use crate::progress::Progress;
use crate::sort::{SortedItem, Sorter};

/// When a value expires that never does, in milliseconds since 1970.
const NEVER: u64 = u64::MAX - 1;

/// Takes the items of an import.
pub(super) trait ImportTarget {
    /// Makes sure of a keyspace; returns what differs from its options, in words.
    fn declare(&mut self, name: &str, options: KeyspaceOptions) -> Result<Option<String>>;
    /// Goes on with the keyspace of this name, or with that of the arguments.
    fn enter(&mut self, keyspace: Option<&str>) -> Result<()>;
    /// Takes an item, which may expire.
    fn take(&mut self, key: &[u8], value: &[u8], expires: Option<Lasts>) -> Result<()>;
    /// Takes a key, and the file of this length that has its value.
    fn take_file(&mut self, key: &[u8], file: File, len: u64) -> Result<()>;
    /// Items and bytes so far.
    fn taken(&self) -> (u64, u64);
}

/// Stores items in batches.
pub(super) struct InBatches {
    pub(super) loader: Loader,
    /// The keyspace of the arguments.
    usual: Keyspace,
    /// The others so far, and the name of the current one.
    known: HashMap<String, Keyspace>,
    current: Option<String>,
}

impl InBatches {
    /// Stores in `keyspace`, and in those that the source names.
    pub(super) fn new(keyspace: &Keyspace) -> Self {
        let (loader, usual) = (Loader::new(keyspace), keyspace.clone());
        Self { loader, usual, known: HashMap::new(), current: None }
    }
}

impl ImportTarget for InBatches {
    fn declare(&mut self, name: &str, options: KeyspaceOptions) -> Result<Option<String>> {
        let db = self.usual.database();
        let what = differs(&db, name, options)?;
        self.known.insert(name.to_owned(), make(&db, name, options)?);
        Ok(what)
    }

    fn enter(&mut self, keyspace: Option<&str>) -> Result<()> {
        if self.current.as_deref() == keyspace {
            return Ok(());
        }
        self.current = keyspace.map(str::to_owned);
        let Some(name) = keyspace else {
            self.loader.enter(&self.usual);
            return Ok(());
        };
        if !self.known.contains_key(name) {
            let made = make(&self.usual.database(), name, KeyspaceOptions::default())?;
            self.known.insert(name.to_owned(), made);
        }
        self.loader.enter(&self.known[name]);
        Ok(())
    }

    fn take(&mut self, key: &[u8], value: &[u8], expires: Option<Lasts>) -> Result<()> {
        match expires {
            None => self.loader.put(key, value)?,
            Some(Lasts(until)) => self.loader.put_until(key, value, until)?,
        }
        Ok(())
    }

    fn take_file(&mut self, key: &[u8], file: File, _: u64) -> Result<()> {
        Ok(self.loader.put_reader(key, file)?)
    }

    fn taken(&self) -> (u64, u64) {
        (self.loader.items, self.loader.bytes)
    }
}

/// Items to be sorted, and the keyspaces to load them into.
pub(super) struct SortedImport {
    /// The keyspace of the arguments.
    usual: Keyspace,
    /// Keyspaces that the source names. None is made before all items were read.
    named: Vec<(String, KeyspaceOptions)>,
    /// The current one: 0 is that of the arguments, 1 the first that the source names.
    current: u32,
    sorter: Option<Sorter>,
    items: u64,
    bytes: u64,
    loaded: u64,
}

impl SortedImport {
    /// Sorts in the directory of the arguments. The caller has opened the database, so that no
    /// other import uses the same files.
    pub(super) fn new(keyspace: &Keyspace, bulk: &BulkArgs, global: &Global) -> Result<Self> {
        let database = fs::canonicalize(&global.db).map_err(Failure::file("find", &global.db))?;
        let directory = match &bulk.temp {
            None => database.join("import.sort"),
            Some(temp) => temp.join(name_of(&database)),
        };
        let sorter = Some(Sorter::new(directory)?);
        let (usual, named) = (keyspace.clone(), Vec::new());
        Ok(Self { usual, named, current: 0, sorter, items: 0, bytes: 0, loaded: 0 })
    }

    /// The keyspace of the arguments.
    pub(super) fn keyspace(&self) -> &Keyspace {
        &self.usual
    }

    /// Items that are stored.
    pub(super) fn loaded(&self) -> u64 {
        self.loaded
    }

    /// The place of a keyspace, which is added if it is new.
    fn place_of(&mut self, name: &str, options: KeyspaceOptions) -> u32 {
        let found = self.named.iter().position(|(known, _)| known == name);
        let at = found.unwrap_or_else(|| {
            self.named.push((name.to_owned(), options));
            self.named.len() - 1
        });
        at as u32 + 1
    }

    /// Sorts and loads all items, keyspace by keyspace; returns how many, and their bytes.
    pub(super) fn finish(&mut self, progress: &Progress) -> Result<(u64, u64)> {
        let Some(sorter) = self.sorter.take() else { return Ok((0, 0)) };
        progress.say("sorting".to_owned());
        let mut sorted = sorter.finish()?;
        let db: Db = self.usual.database();
        let made = self.named.iter().map(|(name, options)| make(&db, name, *options));
        let mut keyspaces = vec![self.usual.clone()];
        keyspaces.extend(made.collect::<Result<Vec<_>>>()?);
        let (mut bytes, mut stored) = (0, 0);
        let mut under_way: Option<(u32, BulkLoad)> = None;
        let mut end = |load: Option<(u32, BulkLoad)>| -> Result<()> {
            let Some((_, load)) = load else { return Ok(()) };
            progress.say("making it visible".to_owned());
            let report = load.finish()?;
            self.loaded += report.entries;
            stored += report.bytes;
            Ok(())
        };
        while let Some(SortedItem { key, value, expires }) = sorted.next()? {
            let (at, key) = split(&key);
            let load = match &mut under_way {
                Some((current, load)) if *current == at => load,
                _ => {
                    end(under_way.take())?;
                    &mut under_way.insert((at, keyspaces[at as usize].bulk_load()?)).1
                }
            };
            let until = |millis| UNIX_EPOCH + Duration::from_millis(millis);
            match expires {
                None => load.put(key, &value)?,
                Some(NEVER) => load.put_until(key, &value, None)?,
                Some(millis) => load.put_until(key, &value, Some(until(millis)))?,
            }
            bytes += (key.len() + value.len()) as u64;
            progress.loaded(bytes, self.bytes);
            interrupt::check()?;
        }
        end(under_way)?;
        Ok((self.loaded, stored))
    }
}

/// The place of the keyspace of a sorted item, and its key there.
fn split(sorted: &[u8]) -> (u32, &[u8]) {
    let (place, key) = sorted.split_first_chunk().unwrap_or((&[0; 4], sorted));
    (u32::from_be_bytes(*place), key)
}

impl ImportTarget for SortedImport {
    fn declare(&mut self, name: &str, options: KeyspaceOptions) -> Result<Option<String>> {
        self.place_of(name, options);
        differs(&self.usual.database(), name, options)
    }

    fn enter(&mut self, keyspace: Option<&str>) -> Result<()> {
        self.current = match keyspace {
            Some(name) => self.place_of(name, KeyspaceOptions::default()),
            None => 0,
        };
        Ok(())
    }

    fn take(&mut self, key: &[u8], value: &[u8], expires: Option<Lasts>) -> Result<()> {
        // Before the sort, so that the error names the place in the input.
        if key.len() > KEY_LEN_MAX || value.len() > VALUE_LEN_MAX {
            let what = "a key is longer than 65,533 bytes, or a value than 1 GiB";
            return Err(cleavedb::Error::new(cleavedb::ErrorKind::InvalidArgument, what).into());
        }
        // The greatest number stands for a keyspace that decides.
        let millis = expires.map(|Lasts(until)| {
            let since = until.map(|time| time.duration_since(UNIX_EPOCH).unwrap_or_default());
            since.map_or(NEVER, |since| since.as_millis().min(u128::from(NEVER)) as u64)
        });
        if let Some(sorter) = &mut self.sorter {
            let key = [&self.current.to_be_bytes(), key].concat();
            sorter.add(&key, value, millis)?;
        }
        self.items += 1;
        self.bytes += (key.len() + value.len()) as u64;
        Ok(())
    }

    fn take_file(&mut self, key: &[u8], file: File, len: u64) -> Result<()> {
        if len > VALUE_LEN_MAX as u64 {
            let what = "a bulk load takes values of up to 1 GiB; import without --bulk";
            return Err(cleavedb::Error::new(cleavedb::ErrorKind::InvalidArgument, what).into());
        }
        let mut value = Vec::with_capacity(len as usize);
        let read = file.take(VALUE_LEN_MAX as u64).read_to_end(&mut value);
        read.map_err(|e| cleavedb::Error::io("read a file", e))?;
        self.take(key, &value, None)
    }

    fn taken(&self) -> (u64, u64) {
        (self.items, self.bytes)
    }
}

/// The name of the files of a database in a directory for many: the same at each import.
fn name_of(database: &PathBuf) -> String {
    let mut hasher = DefaultHasher::new();
    database.hash(&mut hasher);
    format!("cleave-import-{:016x}.sort", hasher.finish())
}
