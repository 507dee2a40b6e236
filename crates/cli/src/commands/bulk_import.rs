//! `import --bulk`: sorts all items, and loads them at once.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cleavedb::{IngestReport, KEY_LEN_MAX, Keyspace, VALUE_LEN_MAX};

use crate::args::BulkArgs;
use crate::failure::{Failure, Result};
use crate::global::Global;
use crate::interrupt;
use crate::loader::Loader;
use crate::progress::Progress;
use crate::sort::{Item, Sorter};

/// Takes the items of an import.
pub(super) trait Target {
    /// Takes an item, which may expire.
    fn take(&mut self, key: &[u8], value: &[u8], expires: Option<SystemTime>) -> Result<()>;
    /// Takes a key, and the file of this length that has its value.
    fn take_file(&mut self, key: &[u8], file: File, len: u64) -> Result<()>;
    /// Items and bytes so far.
    fn taken(&self) -> (u64, u64);
}

impl Target for Loader {
    fn take(&mut self, key: &[u8], value: &[u8], expires: Option<SystemTime>) -> Result<()> {
        match expires {
            None => self.put(key, value)?,
            expires => self.put_until(key, value, expires)?,
        }
        Ok(())
    }

    fn take_file(&mut self, key: &[u8], file: File, _: u64) -> Result<()> {
        Ok(self.put_reader(key, file)?)
    }

    fn taken(&self) -> (u64, u64) {
        (self.items, self.bytes)
    }
}

/// Items to be sorted, and the keyspace to load them into.
pub(super) struct SortedImport {
    keyspace: Keyspace,
    sorter: Option<Sorter>,
    items: u64,
    bytes: u64,
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
        Ok(Self { keyspace: keyspace.clone(), sorter, items: 0, bytes: 0 })
    }

    /// The keyspace.
    pub(super) fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Sorts and loads all items.
    pub(super) fn finish(&mut self, progress: &Progress) -> Result<IngestReport> {
        let Some(sorter) = self.sorter.take() else { return Ok(IngestReport::default()) };
        progress.say("sorting".to_owned());
        let mut sorted = sorter.finish()?;
        let mut load = self.keyspace.bulk_load()?;
        let mut bytes = 0;
        while let Some(Item { key, value, expires }) = sorted.next()? {
            match expires.map(|millis| UNIX_EPOCH + Duration::from_millis(millis)) {
                None => load.put(&key, &value)?,
                expires => load.put_until(&key, &value, expires)?,
            }
            bytes += (key.len() + value.len()) as u64;
            progress.loaded(bytes, self.bytes);
            interrupt::check()?;
        }
        progress.say("making it visible".to_owned());
        Ok(load.finish()?)
    }
}

impl Target for SortedImport {
    fn take(&mut self, key: &[u8], value: &[u8], expires: Option<SystemTime>) -> Result<()> {
        // Before the sort, so that the error names the place in the input.
        if key.len() > KEY_LEN_MAX || value.len() > VALUE_LEN_MAX {
            let what = "a key is longer than 65,533 bytes, or a value than 1 GiB";
            return Err(cleavedb::Error::new(cleavedb::ErrorKind::InvalidArgument, what).into());
        }
        let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = expires.map(|time| since(time).as_millis().min(u128::from(u64::MAX) - 1));
        if let Some(sorter) = &mut self.sorter {
            sorter.add(key, value, millis.map(|millis| millis as u64))?;
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
