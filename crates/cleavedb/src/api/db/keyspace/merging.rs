//! Merges: writes that change what is there without reading it.

use bytes::Bytes;
use cleavedb_base::{EncodedKey, ErrorKind, Result};

use super::Keyspace;
use crate::background::operand_chains;
use crate::engine::Engine;
use crate::operations::batch::Op;
use crate::operations::encoded_op::EncodedOp;
use crate::operations::expiry::may_expire;
use crate::operations::ops::Ops;
use crate::reads::read;
use crate::reads::read::operands::{Unmerged, get_unmerged};
use crate::reads::search::UserKey;
use crate::settings::merge::Operand;
use crate::settings::options::Durability;
use crate::settings::time::Lifetime;
use crate::writes::write;
use crate::writes::write::Terms;

impl Keyspace {
    /// Changes the value of `key` by `operand`, with the database's default durability.
    ///
    /// The change is written without a read, as a put is, and never conflicts with another: of
    /// counters that many threads count up, nothing is lost. Reads apply it, and so do flushes and
    /// compactions, which make one of many. Of a key that has many operands a merge puts the value,
    /// as a write of its own ([`crate::Db::changes`] tells it). A merge into a key that is not
    /// there begins with no value.
    ///
    /// An operand, with the name of its operator, has at most 64 KiB, and stays in the index until
    /// it meets the value. A value that expires ([`crate::PutOptions::ttl`]) keeps its expiry and
    /// goes with all that has changed it; a merge after that begins anew, with a value that lives
    /// as its keyspace says ([`crate::KeyspaceOptions::ttl`]). A merge reads, as
    /// [`Keyspace::update`] does, if its key is hot (`hoakv`) or may have a value that expires. It
    /// may in a keyspace with a time to live, while values of its keyspace that expire are in
    /// memory, and while there are some in a table whose keys lie round it. So counters that do not
    /// expire are faster in a keyspace where nothing does. Of merges that meet at one key none
    /// fails for the others.
    ///
    /// Fails with [`crate::ErrorKind::Merge`] if the open does not know the operator
    /// ([`crate::Options::merge_operators`]), and with [`crate::ErrorKind::InvalidArgument`] if it
    /// does not accept the operand.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
    /// use cleavedb::Operand;
    ///
    /// db.merge("visits", &Operand::add(1))?;
    /// db.merge("visits", &Operand::add(41))?;
    /// assert_eq!(db.get("visits")?.unwrap(), "42");
    ///
    /// db.put("log", "one")?;
    /// db.merge("log", &Operand::append(", two"))?;
    /// assert_eq!(db.get("log")?.unwrap(), "one, two");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: &Operand) -> Result<()> {
        self.merge_with(key, operand, self.inner.engine.options.durability)
    }

    /// As [`Keyspace::merge`], with another durability.
    pub fn merge_with(
        &self,
        key: impl AsRef<[u8]>,
        operand: &Operand,
        durability: Durability,
    ) -> Result<()> {
        let (key, stored) = (key.as_ref(), operand.stored()?);
        Op::put(key, &stored).check()?;
        let engine = self.inner.writable()?;
        let reads = || may_expire(&engine.state, self.entry(), key);
        if !self.is_hot(engine, key) && !reads() {
            engine.merges.operators().check_stored(&stored)?;
            let op = EncodedOp::of_merge(key, &stored, self.entry().id);
            operand_chains::note_long(engine, op.encoded_key.as_bytes(), op.hash);
            let bytes = (key.len() + stored.len()) as u64;
            let terms = Terms { must_read: Some(&reads), ..self.terms() };
            match write::write(engine, Ops::Few(&[op]), bytes, durability, terms) {
                Err(e) if e.kind() == ErrorKind::Conflict => {}
                written => {
                    return written.and_then(|_| self.database().shorten_chains(engine, 1));
                }
            }
        }
        self.database().merge_reading(engine, durability, |transaction| {
            transaction.keyspace(self).merge(key, operand)
        })
    }

    /// As [`Keyspace::get`]; of a key whose reads fail with [`crate::ErrorKind::Merge`], since a
    /// merge cannot be applied to what was there or its operator is not known, the value below
    /// that merge. A put of the key, or a delete, mends it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
    /// # let keyspace = db.keyspace("examples")?;
    /// use cleavedb::Operand;
    ///
    /// keyspace.put("name", "Ada")?;
    /// keyspace.merge("name", &Operand::add(1))?;
    /// assert!(keyspace.get("name").is_err());
    /// let name = keyspace.get_below_failed_merge("name")?.unwrap();
    /// keyspace.put("name", &name)?;
    /// assert_eq!(keyspace.get("name")?.unwrap(), "Ada");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn get_below_failed_merge(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        let key = UserKey::new(self.entry().id, &key);
        self.read(|engine| read::get_below_failed_merge(engine, key))
    }

    /// The operands of `key`, and the value below them.
    pub(in crate::api::db) fn unmerged(&self, key: &[u8]) -> Result<Unmerged> {
        let at = self.snapshot().at()?;
        let key = EncodedKey::new(self.entry().id, key);
        self.read(|engine| get_unmerged(engine, key.as_bytes(), at))
    }

    /// Stores what [`Self::unmerged`] has found under a key that is not there; nothing asks whether
    /// the operators are known.
    pub(in crate::api::db) fn put_unmerged(&self, key: &[u8], unmerged: &Unmerged) -> Result<()> {
        let engine = self.inner.writable()?;
        let below = unmerged.below.as_ref().map(|below| {
            let op = Op::put_living(key, &below.value, Lifetime::until(below.until.time()));
            EncodedOp::new(op, self.entry(), &engine.time)
        });
        let operands = unmerged.operands.iter();
        let operands = operands.map(|stored| EncodedOp::of_merge(key, stored, self.entry().id));
        let ops = Vec::from_iter(below.into_iter().chain(operands));
        let bytes = ops.iter().map(EncodedOp::len).sum();
        let durability = engine.options.durability;
        write::write(engine, Ops::Few(&ops), bytes, durability, self.terms()).map(drop)
    }

    fn is_hot(&self, engine: &Engine, key: &[u8]) -> bool {
        let Some(store) = &engine.apart.hot else { return false };
        store.find(store.key(EncodedKey::new(self.entry().id, key).as_bytes())).is_some()
    }
}
