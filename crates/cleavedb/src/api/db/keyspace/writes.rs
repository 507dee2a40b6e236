//! The writes of a keyspace, one key at a time.

use cleavedb_base::Result;

use super::Keyspace;
use crate::operations::batch::{Change, Op, check_end};
use crate::operations::bounds::{Bounds, KeyRange};
use crate::operations::encoded_op::EncodedOp;
use crate::operations::ops::Ops;
use crate::settings::options::Durability;
use crate::settings::put_options::PutOptions;
use crate::writes::{dictionaries, write};

impl Keyspace {
    /// Stores `value` under `key`, with the database's default durability.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let op = Op::put(key.as_ref(), value.as_ref());
        self.write_one(op, self.inner.engine.options.durability)
    }

    /// Stores `value` under `key`, with a durability or other [`PutOptions`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: impl Into<PutOptions>,
    ) -> Result<()> {
        let PutOptions { durability, lifetime } = options.into();
        let op = Op { lifetime, ..Op::put(key.as_ref(), value.as_ref()) };
        self.write_one(op, durability.unwrap_or(self.inner.engine.options.durability))
    }

    /// Removes `key`, if it exists, with the database's default durability.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, self.inner.engine.options.durability)
    }

    /// Removes `key`, if it exists.
    pub fn delete_with(&self, key: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        self.write_one(Op::delete(key.as_ref()), durability)
    }

    /// Removes all keys of a range, with the database's default durability; see [`KeyRange`]. That
    /// is one small write, whatever it removes: tables and groups that have nothing else leave
    /// unread, and the space of other values is reclaimed as that of deleted ones is.
    ///
    /// Until then each such range takes about 200 bytes of memory and the lengths of its ends.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
    /// use cleavedb::Prefix;
    ///
    /// for key in ["log/1", "log/2", "log/3", "user/1"] {
    ///     db.put(key, "value")?;
    /// }
    /// db.delete_range(.."log/3")?;
    /// assert_eq!(db.range(..).count(), 2);
    /// db.delete_range(Prefix("log/"))?;
    /// assert_eq!(db.first_key_value()?.unwrap().key, "user/1");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        self.delete_range_with(range, self.inner.engine.options.durability)
    }

    /// As [`Keyspace::delete_range`], with another durability.
    pub fn delete_range_with(&self, range: impl KeyRange, durability: Durability) -> Result<()> {
        let Bounds { lower, upper, .. } = Bounds::to_change(self.entry().id, &range)?;
        let engine = self.open_engine()?;
        if lower >= upper {
            return Ok(());
        }
        check_end(&lower).and_then(|()| check_end(&upper))?;
        self.inner.writable()?;
        let change = std::iter::once((Change::Range(&lower, &upper), self.entry()));
        write::write_changes(engine, change, durability, self.terms()).map(drop)
    }

    #[inline]
    pub(super) fn write_one(&self, op: Op<'_>, durability: Durability) -> Result<()> {
        op.check()?;
        let engine = self.inner.writable()?;
        let ops = [EncodedOp::new(op, self.entry(), &engine.time)];
        write::write(engine, Ops::Few(&ops), op.len(), durability, self.terms())?;
        dictionaries::make_due(engine);
        Ok(())
    }
}
