//! Work on ranges of keys as a whole: how much they hold, and that their dead data leaves.

use cleavedb_base::{Error, ErrorKind, Result};

use super::Keyspace;
use crate::background::range_collection;
use crate::background::{maintenance, range_work};
use crate::operations::bounds::{Bounds, KeyRange};
use crate::reads::range_size::{RangeSize, approximate_size};
use crate::writes::dictionaries;

#[cold]
fn held_by_dictionary() -> Error {
    let what = "the dictionary with which values of the keyspace are compressed may have pieces of \
                what was deleted; copy what is to stay to another keyspace, drop this one, and \
                call collect_dropped";
    Error::new(ErrorKind::Held, what)
}

impl Keyspace {
    /// Merges what tables have of a range into one level, which drops entries that no snapshot
    /// sees, as [`crate::Db::compact`] does for all. It takes the tables that meet the range on
    /// each level, those below that they overlap, and the part of level 0 that shares keys with
    /// them.
    ///
    /// Fails with [`crate::ErrorKind::NoSpace`] if there is no room for that, with
    /// [`crate::ErrorKind::Corruption`] if one of the tables is damaged, and with
    /// [`crate::ErrorKind::InvalidArgument`] if the ends of the range are reversed.
    pub fn compact_range(&self, range: impl KeyRange) -> Result<()> {
        self.open_engine()?;
        let bounds = Bounds::to_change(self.entry().id, &range)?;
        let engine = self.inner.writable()?;
        maintenance::flush_all(engine)?;
        let upto = engine.commit.visible();
        range_work::compact_range(engine, &bounds, upto)
    }

    /// Removes what was deleted or overwritten in a range, before the call, from the disk: once
    /// this returns `Ok`, none of these keys and values is left in any file of the database, and
    /// no crash brings one back. For laws that ask for that; space needs no call.
    ///
    /// Called on a keyspace that was dropped, it removes what the keyspace had;
    /// [`crate::Db::collect_dropped`] needs no handle.
    ///
    /// So are values that have expired, but for those that a reader which is still held saw before
    /// they did.
    ///
    /// *What may be left*: bounds of range deletes, until their records go; bounds between groups,
    /// each the beginning of a key, or a whole one; names of keyspaces. Data that was in a file of
    /// the database and left it before this call, or that is in a checkpoint or a copy, is out of
    /// its reach, and so is what the file system and the device keep of blocks that were freed.
    ///
    /// A keyspace with a dictionary ([`crate::ValueCompression::ZstdDictionary`]) is refused, since
    /// the dictionary may have pieces of what was deleted, and others need it: copy what is to stay
    /// to another keyspace, drop this one, and call [`crate::Db::collect_dropped`].
    ///
    /// *What it costs*: everything in MemTables is flushed, up to the whole window is overwritten
    /// ([`crate::Tuning::window_bytes`]), and a manifest is written. The index is compacted as by
    /// [`Keyspace::compact_range`]. Of `lsm` and `ohdb` no more, but for files with long values. Of
    /// `ktstore` the key blocks of the groups that meet the range are read, and those of `hashkv`
    /// and `hoakv`'s hot store all; groups with something dead of the range are collected. Of
    /// `wisckey`, and of segments and files with long values, every file is read, and those with
    /// something dead of the range are collected: files and groups that hold nothing of it are not
    /// rewritten.
    ///
    /// Fails with [`crate::ErrorKind::Held`], before it does anything, if a snapshot, a
    /// transaction, a cursor or a range is held that began before the last write, and at its end if
    /// one that began meanwhile holds a file that was dropped: part of it may be done then, and the
    /// next call does the rest. Fails with [`crate::ErrorKind::NoSpace`] if the disk has no room,
    /// with [`crate::ErrorKind::Corruption`] if a file that had to be read is damaged, and with
    /// [`crate::ErrorKind::InvalidArgument`] if the ends of the range are reversed.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
    /// # let keyspace = db.keyspace("examples")?;
    /// use cleavedb::Prefix;
    ///
    /// keyspace.put("user:7:name", "Ada")?;
    /// keyspace.delete_range(Prefix("user:7:"))?;
    /// keyspace.collect_range(Prefix("user:7:"))?;
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn collect_range(&self, range: impl KeyRange) -> Result<()> {
        self.inner.engine.gate.check_open()?;
        let mut ranges = vec![Bounds::to_change(self.entry().id, &range)?];
        let engine = self.inner.writable()?;
        if !self.entry().compressor.dictionaries().is_empty() {
            if self.entry().check().is_ok() {
                return Err(held_by_dictionary().with("keyspace", self.name()));
            }
            ranges.push(dictionaries::all());
        }
        range_collection::collect_ranges(engine, &ranges)
    }

    /// About how many keys a range has, and what they take. No value is read: it costs two blocks
    /// of the index for each table that an end of the range lies in, a sample of 4,096 entries of
    /// each MemTable, and little else, whatever the range holds.
    ///
    /// A range that never had a key is exactly empty. Otherwise it is an estimate: a version that
    /// was overwritten, or that a collection has moved, counts until compactions drop it, and keys
    /// and values between the ends of the range count as if all in a table were alike. Of ranges of
    /// a hundred keys and more, in a store without overwritten versions, it was within a factor of
    /// 1.1 of the keys and 1.3 of their bytes after [`crate::Db::compact`], and of 2 at any other
    /// time, by every preset and every test setup.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
    /// # let keyspace = db.keyspace("examples")?;
    /// keyspace.put("user:7:name", "Ada")?;
    /// assert_eq!(keyspace.approximate_size(cleavedb::Prefix("user:7:"))?.entries, 1);
    /// assert_eq!(keyspace.approximate_size(cleavedb::Prefix("user:8:"))?.entries, 0);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn approximate_size(&self, range: impl KeyRange) -> Result<RangeSize> {
        self.read(|engine| approximate_size(engine, &Bounds::of(self.entry().id, &range)))
    }
}
