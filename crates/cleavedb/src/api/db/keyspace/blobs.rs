//! Values that are written from a reader, and read in parts.

use std::io::Read;

use bytes::Bytes;
use cleavedb_base::{Error, Result};

use super::Keyspace;
use crate::operations::batch::Op;
use crate::reads::read;
use crate::reads::search::UserKey;
use crate::reads::value_reader::ValueReader;
use crate::settings::put_options::PutOptions;
use crate::writes::blobs::{self, BlobTarget};

/// Large values: written and read in bounded memory.
///
/// What [`Keyspace::put_reader`] stores is a value like any other for reads, scans, snapshots,
/// deletes, expiry, backups. If it has at least [`crate::Tuning::blob_bytes`] bytes it is a
/// *blob*: it is written once, to a file of its own, and never moved; it is not compressed, no
/// cache keeps it, and filters are not asked about it. When nothing sees it any more, its file is
/// removed. A blob may have up to 1 TiB. Reads that return values as a whole fail for values of
/// more than 1 GiB with [`crate::ErrorKind::InvalidArgument`].
impl Keyspace {
    /// Stores all that `reader` has under `key`, with the database's default durability, and
    /// returns the length of the value. It takes about [`crate::Tuning::blob_bytes`] of memory.
    ///
    /// Others see the value, whole, once the call returns. If `reader` fails, or the process dies
    /// before, nothing is stored. The commit is one of its own: a batch or a transaction cannot
    /// have a blob.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
    /// # let keyspace = db.keyspace("examples")?;
    /// use std::io::{Read, Seek, SeekFrom, copy, repeat, sink};
    ///
    /// // 10 MB, which are nowhere in memory at once.
    /// let video = repeat(7).take(10_000_000);
    /// assert_eq!(keyspace.put_reader("video", video)?, 10_000_000);
    ///
    /// let mut reader = keyspace.get_reader("video")?.unwrap();
    /// reader.seek(SeekFrom::Start(9_000_000))?;
    /// assert_eq!(copy(&mut reader, &mut sink())?, 1_000_000);
    /// assert_eq!(keyspace.get_range("video", 5_000_000, 3)?.unwrap(), [7, 7, 7].as_slice());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put_reader(&self, key: impl AsRef<[u8]>, reader: impl Read) -> Result<u64> {
        self.put_reader_with(key, reader, PutOptions::new())
    }

    /// As [`Keyspace::put_reader`], with a durability or other [`PutOptions`]. A blob itself is
    /// synced with each durability; its time to live begins with its commit.
    pub fn put_reader_with(
        &self,
        key: impl AsRef<[u8]>,
        mut reader: impl Read,
        options: impl Into<PutOptions>,
    ) -> Result<u64> {
        self.put_from(key.as_ref(), &mut reader, options.into())
    }

    fn put_from(
        &self,
        key: &[u8],
        reader: &mut dyn Read,
        PutOptions { durability, lifetime }: PutOptions,
    ) -> Result<u64> {
        Op::delete(key).check()?;
        let durability = durability.unwrap_or(self.inner.engine.options.durability);
        self.open_engine()?;
        let engine = self.inner.writable()?;
        // Before the reader is asked for anything.
        engine.check_open()?;
        let mut first = Vec::new();
        let failed = |e| Error::io("read the value that is to be stored", e);
        let least = engine.options.tuning.blob_bytes.max(1);
        (&mut *reader).take(least).read_to_end(&mut first).map_err(failed)?;
        let target = BlobTarget { keyspace: self.entry(), key, lifetime, durability };
        if (first.len() as u64) < least || target.is_over(&engine.time) {
            // A value whose time is over is read to its end, and leaves a delete.
            let rest = std::io::copy(reader, &mut std::io::sink()).map_err(failed)?;
            self.write_one(Op { key, value: Some(&first), lifetime }, durability)?;
            return Ok(first.len() as u64 + rest);
        }
        blobs::put(engine, target, &first, reader, self.terms())
    }

    /// A reader of the value of `key`, or `None`. It reads the value as of now, whatever is written
    /// later.
    pub fn get_reader(&self, key: impl AsRef<[u8]>) -> Result<Option<ValueReader>> {
        let key = UserKey::new(self.entry().id, &key);
        let found = self.read(|engine| read::find_value(engine, key, None))?;
        Ok(found.map(ValueReader::new))
    }

    /// `len` bytes of the value of `key` from `offset` on, or `None` without the key. There are
    /// fewer bytes if the value ends before. Of a blob only the pieces of 64 KiB are read that have
    /// them, of another value all is read.
    pub fn get_range(
        &self,
        key: impl AsRef<[u8]>,
        offset: u64,
        len: usize,
    ) -> Result<Option<Bytes>> {
        let key = UserKey::new(self.entry().id, &key);
        let range = offset..offset.saturating_add(len as u64);
        self.read(|engine| {
            let found = read::find_value(engine, key, None)?;
            found.map(|found| found.value.range(range.clone())).transpose()
        })
    }
}
