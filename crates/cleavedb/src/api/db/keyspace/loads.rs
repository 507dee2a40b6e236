//! Bulk loads of a keyspace.

use std::time::SystemTime;

use cleavedb_base::Result;
use cleavedb_base::{Error, ErrorKind};

use super::Keyspace;
use crate::control::debug::debug;
use crate::operations::batch::Op;
use crate::settings::time::Lifetime;
use crate::writes::bulk_load::{IngestReport, Load};
use crate::writes::dictionaries::{self, Samples};

/// A bulk load under way: see [`Keyspace::bulk_load`]. Dropped before its end, it leaves nothing.
pub struct BulkLoad {
    /// `None` after a failure.
    load: Option<Load>,
    /// Values for the dictionary that the keyspace is to have, until there is one.
    samples: Option<Samples>,
    /// Declared last: it keeps the database open until the load has removed its files.
    keyspace: Keyspace,
}

debug!(BulkLoad, |_| {});

impl BulkLoad {
    /// Adds `value` under `key`, which must be greater than all keys before, bytewise. It lives as
    /// long as values of the keyspace do.
    ///
    /// After an error the load has ended, and nothing of it is stored:
    /// [`ErrorKind::InvalidArgument`] if the key is not greater, [`ErrorKind::NoSpace`] if the disk
    /// or the space limit is full.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.add(Op::put(key.as_ref(), value.as_ref()))
    }

    /// As [`BulkLoad::put`], with a value that expires at `time`; without a time it stays for good,
    /// whatever the keyspace says.
    pub fn put_until(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: Option<SystemTime>,
    ) -> Result<()> {
        self.add(Op::put_living(key.as_ref(), value.as_ref(), Lifetime::until(time)))
    }

    fn add(&mut self, op: Op<'_>) -> Result<()> {
        let put = self.load.as_mut().ok_or_else(ended)?.put(op);
        if put.is_err() {
            self.load = None;
        }
        if let (Some(samples), Some(value)) = (&mut self.samples, op.value) {
            samples.add(self.keyspace.entry(), value);
            if samples.are_all() {
                self.make_dictionary();
            }
        }
        put
    }

    /// Makes a dictionary of the first values, for those that follow. If that fails the load goes
    /// on without.
    fn make_dictionary(&mut self) {
        let samples = self.samples.take().unwrap_or_default();
        let (engine, entry) = (&self.keyspace.inner.engine, self.keyspace.entry());
        let _ = dictionaries::make_of(engine, entry, || Ok(samples));
    }

    /// Makes all of it visible at once, and durable: it is when this returns, whatever the
    /// durability of the database. After an error nothing of it is stored.
    ///
    /// Writers wait for the last part of this: a flush of what was written during another one, a
    /// sync or two, and an edit of the manifest.
    pub fn finish(mut self) -> Result<IngestReport> {
        self.load.take().ok_or_else(ended)?.finish()
    }
}

#[cold]
fn ended() -> Error {
    let what = "the bulk load has ended with an error, and nothing of it is stored; begin anew";
    Error::new(ErrorKind::InvalidArgument, what)
}

/// Bulk loads.
impl Keyspace {
    /// Stores many pairs at once, in ascending order of their keys, without the log: the fastest
    /// way to fill a database. Keys that are there are overwritten, as by a put. It is one commit:
    /// no reader sees a part of it, no crash leaves one, and it is durable.
    ///
    /// See [`Keyspace::bulk_load`], which takes the pairs one by one.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
    /// # let keyspace = db.keyspace("examples")?;
    /// let squares = (0..1000u32).map(|n| (n.to_be_bytes(), (n * n).to_string()));
    /// assert_eq!(keyspace.ingest(squares)?.entries, 1000);
    /// assert_eq!(keyspace.get(12u32.to_be_bytes())?.unwrap(), "144");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        sorted: impl IntoIterator<Item = (K, V)>,
    ) -> Result<IngestReport> {
        let mut load = self.bulk_load()?;
        for (key, value) in sorted {
            load.put(key, value)?;
        }
        load.finish()
    }

    /// Begins a bulk load, whose pairs come one by one in ascending order of their keys. They are
    /// written where flushes, compactions and collections would bring them in the end, and nothing
    /// is visible before [`BulkLoad::finish`]. A load is dropped to give it up.
    ///
    /// *What goes on meanwhile*: reads, writes and all jobs; groups of values do not split. There
    /// is one load of a database at a time: a second one fails with [`ErrorKind::Held`]. A close
    /// ends the load, unless it is finishing: then the close waits.
    ///
    /// *Order*: what is committed before the finish is older than the load, what comes after it is
    /// newer. A snapshot, a cursor or a transaction that began before the finish does not see it. A
    /// transaction that has read anything between the first and the last key of the load meets a
    /// conflict ([`ErrorKind::Conflict`]).
    ///
    /// *Memory*: as much as a MemTable, and some hundred bytes for each file. *Where it goes*: a
    /// table that shares no keys with others goes to a deep level, others to level 0. Where values
    /// are hot (`hoakv`), the finish takes all of them out of the hot store first.
    ///
    /// Fails with [`ErrorKind::NoKeyspace`] if the keyspace was dropped, and with
    /// [`ErrorKind::Corruption`] if hot values are damaged.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
    /// # let keyspace = db.keyspace("examples")?;
    /// let mut load = keyspace.bulk_load()?;
    /// load.put("apple", "red")?;
    /// load.put("banana", "yellow")?;
    /// assert!(!keyspace.contains_key("apple")?);
    /// let report = load.finish()?;
    /// assert_eq!((report.entries, report.bytes), (2, 20));
    /// assert_eq!(keyspace.get("banana")?.unwrap(), "yellow");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn bulk_load(&self) -> Result<BulkLoad> {
        self.open_engine()?;
        self.inner.writable()?;
        let engine = (*self.inner.engine).clone();
        let load = Load::begin(engine, self.entry().clone())?;
        let samples = self.entry().compressor.lacks_dictionary().then(Samples::default);
        Ok(BulkLoad { load: Some(load), samples, keyspace: self.clone() })
    }
}
