//! The keyspaces of a database: found, created, listed and dropped.

use std::sync::Arc;

use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{EncodedKey, Error, ErrorKind, KeyspaceId, Result, SeqNo};

use super::keyspace::check_separates;
use super::{Db, Keyspace};
use crate::background::range_collection;
use crate::engine::range_deletes::RangeDeletes;
use crate::engine::range_tombstones;
use crate::operations::batch::Op;
use crate::operations::bounds::Bounds;
use crate::operations::catalog::{self, CatalogEntry, DEFAULT_NAME, KeyspaceRef};
use crate::operations::encoded_op::EncodedOp;
use crate::operations::ops::Ops;
use crate::settings::keyspace_options::KeyspaceOptions;
use crate::settings::options::Durability;
use crate::writes::dictionaries;
use crate::writes::write::{self, Terms};

impl Db {
    fn handle(&self, entry: &Arc<CatalogEntry>) -> Keyspace {
        Keyspace { inner: self.default.inner.clone(), reference: KeyspaceRef(entry.clone()) }
    }

    /// The keyspace `name`, which is created if there is none; `default` is the one that every
    /// database has. A database that was opened for reading only has no new ones: fails with
    /// [`ErrorKind::NoKeyspace`] then. [`Db::find_keyspace`] creates nothing.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        self.keyspace_with(name, KeyspaceOptions::default())
    }

    /// As [`Db::keyspace`]; a keyspace that is created gets these options, as by
    /// [`Db::create_keyspace`]. One that is there keeps its own.
    pub fn keyspace_with(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        if let Some(found) = self.find_keyspace(name)? {
            return Ok(found);
        }
        if self.engine().gate.check_writable().is_err() {
            let what = "there is no keyspace of that name, and the database was opened for reading \
                        only";
            return Err(Error::new(ErrorKind::NoKeyspace, what).with("keyspace", name));
        }
        match self.create_keyspace(name, options) {
            // Another thread was faster.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => self.keyspace_with(name, options),
            created => created,
        }
    }

    /// The keyspace `name`; `None` if there is none.
    pub fn find_keyspace(&self, name: &str) -> Result<Option<Keyspace>> {
        self.default.read(|engine| {
            if name == DEFAULT_NAME {
                return Ok(Some(self.default.database().default));
            }
            Ok(engine.catalog.named().get(name).map(|entry| self.handle(entry)))
        })
    }

    /// Creates a keyspace. Its name has 1 to 255 bytes. A database has at most 65,534 keyspaces,
    /// and each is created as fast as the first.
    /// Fails with [`ErrorKind::AlreadyExists`] if there is one of that name, and with
    /// [`ErrorKind::InvalidOptions`] if its options do not fit the layout of the database.
    ///
    /// It is as durable as a write to it: one that survives a crash finds its keyspace.
    pub fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let engine = self.default.open_engine()?;
        catalog::check_name(name)?;
        if options.min_separated.is_some() {
            check_separates(engine)?;
        }
        let _held = engine.events.hold();
        let _changing = engine.catalog.change()?;
        if engine.catalog.named().get(name).is_some() {
            let what = "there is a keyspace of that name; open it, or drop it first";
            return Err(Error::new(ErrorKind::AlreadyExists, what).with("keyspace", name));
        }
        // Of a keyspace that was dropped something may be left as long as its range tombstone is.
        let deleted = engine.state.load().deleted.clone();
        let is_left = |id: KeyspaceId| {
            let first = EncodedKey::new(id, b"");
            deleted.covers(first.as_bytes(), 0, SEQ_MAX) && !planted(Bug::KeyspaceIdReused)
        };
        let id = engine.catalog.named().free_id(is_left)?;
        let (key, stored) = (catalog::name_key(name), catalog::encode(id, options));
        let seq = self.default.inner.write_system(&key, &stored)?;
        let entry = Arc::new(engine.catalog.entry(id, name, options).since(seq));
        engine.catalog.named().insert(entry.clone());
        Ok(self.handle(&entry))
    }

    /// All keyspaces but the default one, in the order of their names.
    pub fn keyspaces(&self) -> Result<Vec<Keyspace>> {
        self.default.read(|engine| {
            let named = engine.catalog.named();
            Ok(named.all().map(|entry| self.handle(entry)).collect())
        })
    }

    /// As [`Keyspace::collect_range`] on every keyspace that was dropped, by this open or before:
    /// nothing of them is left in any file once this returns.
    pub fn collect_dropped(&self) -> Result<()> {
        self.default.open_engine()?;
        let engine = self.default.inner.writable()?;
        dictionaries::forget(engine)?;
        let gaps = engine.catalog.named().gaps();
        let mut ranges: Vec<Bounds> =
            gaps.into_iter().map(|(first, last)| Bounds::of_all(first, last)).collect();
        ranges.push(dictionaries::all());
        range_collection::collect_ranges(engine, &ranges)?;
        // A job forgets tombstones that it made needless after its end, which is what waits see.
        range_tombstones::forget(engine);
        Ok(())
    }

    /// Drops the keyspace `name` and everything in it, in one step, however much that is, that
    /// survives power loss. Snapshots taken before still see it. Fails with
    /// [`ErrorKind::NoKeyspace`] if there is none.
    ///
    /// Background work then gives its space back, once no snapshot needs it. Tables that have
    /// nothing else leave, and those with other keys are rewritten. Values in the index go with
    /// them (`lsm`, `ohdb`). Of values outside it (`wisckey`, `hashkv`, `ktstore`, `hoakv`) files
    /// and extents without anything alive are dropped unread, and what lies among values of other
    /// keyspaces is collected when dead values exceed [`crate::Options::space_amplification`].
    /// Values in the hot store of `hoakv` leave it as any that are not used any more. So the
    /// space of a small keyspace may stay until more is dead: [`Db::collect`] gives back at once
    /// what lies outside the index, [`Db::compact`] what lies in it, and [`Db::collect_dropped`]
    /// leaves nothing in any file.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        let engine = self.default.open_engine()?;
        catalog::check_name(name)?;
        let _held = engine.events.hold();
        let _changing = engine.catalog.change()?;
        let found = engine.catalog.named().get(name).cloned();
        let Some(entry) = found else {
            let what = "there is no keyspace of that name";
            return Err(Error::new(ErrorKind::NoKeyspace, what).with("keyspace", name));
        };
        let _no_dictionaries = engine.catalog.dictionaries.hold()?;
        let numbered = |first: SeqNo| entry.drop_at(first);
        let terms = Terms { numbered: Some(&numbered), ..Terms::default() };
        let engine = self.default.inner.writable()?;
        let (key, Bounds { lower, upper, .. }) =
            (catalog::name_key(name), Bounds::of(entry.id, &..));
        let mut ranges = RangeDeletes::new(engine);
        ranges.add(1, &lower, &upper, true);
        ranges.tidy();
        let name_op = Op::delete(&key);
        let dropped = dictionaries::dropped(engine, &entry);
        let mut ops = vec![EncodedOp::of_system(name_op, true)];
        ops.extend(ranges.ops());
        ops.extend(dropped.iter().map(|it| EncodedOp::of_system(it.op(), true)));
        let of_dictionaries: u64 = dropped.iter().map(|it| it.op().len()).sum();
        let bytes = name_op.len() + (lower.len() + upper.len()) as u64 + of_dictionaries;
        ops.extend(ranges.removals());
        // Durable, so that jobs may drop what it leaves, which they are woken for.
        let ops = Ops::Few(&ops);
        write::write_ranges(engine, ops, bytes, &ranges, Durability::Sync, terms)?;
        ranges.done();
        engine.catalog.named().remove(&entry);
        dictionaries::are_dropped(engine, &dropped);
        Ok(())
    }
}
