//! What a command sees and changes: the records as they are, below what it has changed itself.
//!
//! A command is a function of its arguments and a view, and knows neither sockets nor the engine.
//! So it runs on a store, on a map in tests, and again from its begin if it had to wait.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use bytes::Bytes;

use super::{Answer, Halt};
use crate::model::record::{DamagedRecord, KeyContent, KeyRecord, RecordHead};
use crate::model::scan::Scans;
use crate::resp::reply::Reply;

/// What visits keys with their records as they are kept, until it breaks off.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// What visits keys, with their records if those were asked for, until it breaks off.
pub type VisitRecord<'a> = dyn FnMut(&[u8], Option<KeyRecord>) -> ControlFlow<()> + 'a;

/// Records as they were before a command.
pub trait Reads {
    /// Number of databases.
    fn databases(&self) -> usize;

    /// The record of a key. It may be one that is over.
    fn get(&self, database: usize, key: &[u8]) -> Answer<Option<Bytes>>;

    /// Visits keys from `from` on in their order, with their records if `with_records`, until
    /// `visit` breaks off.
    fn walk(
        &self,
        database: usize,
        from: &[u8],
        with_records: bool,
        visit: &mut Visit<'_>,
    ) -> Answer<()>;
}

/// What becomes of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A string until a time, in milliseconds since 1970.
    Put(Cow<'a, [u8]>, Option<u64>),
    /// Nothing.
    Delete,
}

/// What commands have changed: databases that are empty but for what follows, and keys.
#[derive(Debug, Default)]
pub struct Effects<'a> {
    /// Databases of which all else is gone.
    pub cleared: Vec<usize>,
    /// The keys of each database.
    pub keys: BTreeMap<(usize, Cow<'a, [u8]>), Change<'a>>,
}

impl Effects<'_> {
    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.cleared.is_empty() && self.keys.is_empty()
    }

    /// A copy that borrows nothing.
    pub fn to_owned(&self) -> Effects<'static> {
        let owned = |bytes: &Cow<'_, [u8]>| Cow::Owned(bytes.to_vec());
        let keys = self.keys.iter().map(|((database, key), change)| {
            let change = match change {
                Change::Put(value, until) => Change::Put(owned(value), *until),
                Change::Delete => Change::Delete,
            };
            ((*database, owned(key)), change)
        });
        Effects { cleared: self.cleared.clone(), keys: keys.collect() }
    }
}

/// No records: a command that asks for one would have to wait for it.
pub struct Blind {
    /// Number of databases.
    pub databases: usize,
}

impl Reads for Blind {
    fn databases(&self) -> usize {
        self.databases
    }

    fn get(&self, _: usize, _: &[u8]) -> Answer<Option<Bytes>> {
        Err(Halt::Wait)
    }

    fn walk(&self, _: usize, _: &[u8], _: bool, _: &mut Visit<'_>) -> Answer<()> {
        Err(Halt::Wait)
    }
}

/// What a command sees and changes.
pub struct View<'a> {
    reads: &'a dyn Reads,
    /// The database of the client.
    pub database: usize,
    /// The time of the command, in milliseconds since 1970.
    pub now: u64,
    /// Number of databases.
    pub databases: usize,
    /// Cursors of scans.
    pub scans: &'a Scans,
    effects: Effects<'a>,
}

impl<'a> View<'a> {
    /// A view of these records, which has changed nothing.
    pub fn new(reads: &'a dyn Reads, scans: &'a Scans, database: usize, now: u64) -> Self {
        let databases = reads.databases();
        Self { reads, database, now, databases, scans, effects: Effects::default() }
    }

    /// The view behind what other commands have changed, which is not committed yet.
    #[must_use]
    pub fn behind(self, effects: Effects<'a>) -> Self {
        Self { effects, ..self }
    }

    /// What was changed.
    pub fn into_effects(self) -> Effects<'a> {
        self.effects
    }

    /// The record of a key of the client's database, if that is there.
    pub fn record(&self, key: &[u8]) -> Answer<Option<KeyRecord>> {
        self.record_in(self.database, key)
    }

    /// The record of a key of any database, if that is there.
    pub fn record_in(&self, database: usize, key: &[u8]) -> Answer<Option<KeyRecord>> {
        if !self.effects.is_empty() {
            match self.effects.keys.get(&(database, Cow::Borrowed(key))) {
                Some(Change::Delete) => return Ok(None),
                Some(Change::Put(value, until)) => {
                    let content = KeyContent::String(Bytes::copy_from_slice(value));
                    return Ok(Some(KeyRecord { until: *until, content }));
                }
                None if self.effects.cleared.contains(&database) => return Ok(None),
                None => {}
            }
        }
        let Some(bytes) = self.reads.get(database, key)? else { return Ok(None) };
        let record = KeyRecord::decode(bytes).map_err(|damaged| damaged_at(key, damaged))?;
        Ok(Some(record).filter(|record| !record.is_over(self.now)))
    }

    /// The string of a key, and until when it is there; an error if it is of another type.
    pub fn string(&self, key: &[u8]) -> Answer<Option<(Bytes, Option<u64>)>> {
        Ok(self.record(key)?.map(|record| match record.content {
            KeyContent::String(bytes) => (bytes, record.until),
        }))
    }

    /// Whether a key is there.
    pub fn exists(&self, key: &[u8]) -> Answer<bool> {
        self.record(key).map(|record| record.is_some())
    }

    /// Gives a key of the client's database a string until a time. One that is over is a deletion.
    pub fn put(&mut self, key: &'a [u8], value: impl Into<Cow<'a, [u8]>>, until: Option<u64>) {
        self.put_in(self.database, key, value, until);
    }

    /// Gives a key of any database a string until a time.
    pub fn put_in(
        &mut self,
        database: usize,
        key: impl Into<Cow<'a, [u8]>>,
        value: impl Into<Cow<'a, [u8]>>,
        until: Option<u64>,
    ) {
        let change = match until {
            Some(until) if until <= self.now => Change::Delete,
            _ => Change::Put(value.into(), until),
        };
        self.effects.keys.insert((database, key.into()), change);
    }

    /// Removes a key of the client's database, and says whether it was there.
    pub fn delete(&mut self, key: &'a [u8]) -> Answer<bool> {
        let was_there = self.exists(key)?;
        if was_there {
            self.effects.keys.insert((self.database, Cow::Borrowed(key)), Change::Delete);
        }
        Ok(was_there)
    }

    /// Removes all keys of a database.
    pub fn clear(&mut self, database: usize) {
        // What was changed before stays a change: clients may watch it.
        let of_database = self.effects.keys.iter_mut().filter(|((of, _), _)| *of == database);
        of_database.for_each(|(_, change)| *change = Change::Delete);
        if !self.effects.cleared.contains(&database) {
            self.effects.cleared.push(database);
        }
    }

    /// All keys of a database, with their records.
    pub fn all(&mut self, database: usize) -> Answer<Vec<(Vec<u8>, KeyRecord)>> {
        let (own, mut found) = (std::mem::replace(&mut self.database, database), Vec::new());
        let walked = self.walk(b"", true, &mut |key, record| {
            found.extend(record.map(|record| (key.to_vec(), record)));
            ControlFlow::Continue(())
        });
        self.database = own;
        walked.map(|()| found)
    }

    /// Visits keys of the client's database from `from` on in their order, with their records if
    /// `with_records`, until `visit` breaks off.
    pub fn walk(&self, from: &[u8], with_records: bool, visit: &mut VisitRecord<'_>) -> Answer<()> {
        let (database, effects) = (self.database, &self.effects);
        let changed = effects.keys.range((database, Cow::Borrowed(from))..);
        let mut changed = changed.take_while(|((of, _), _)| *of == database).peekable();
        let of_change = |change: &Change<'_>| match change {
            Change::Delete => None,
            Change::Put(value, until) => {
                let content = KeyContent::String(Bytes::copy_from_slice(value));
                Some(KeyRecord { until: *until, content })
            }
        };
        let mut failed = None;
        let mut broke = false;
        if !effects.cleared.contains(&database) {
            self.reads.walk(database, from, with_records, &mut |key, bytes| {
                // Changed keys in front of it come first, and a changed one replaces it.
                let mut is_changed = false;
                while let Some(((_, other), change)) =
                    changed.next_if(|((_, other), _)| &**other <= key)
                {
                    is_changed = &**other == key;
                    if let Some(record) = of_change(change)
                        && visit(other, Some(record)).is_break()
                    {
                        broke = true;
                        return ControlFlow::Break(());
                    }
                }
                if is_changed {
                    return ControlFlow::Continue(());
                }
                let record = match with_records {
                    true => match KeyRecord::decode(Bytes::copy_from_slice(bytes)) {
                        Ok(record) if record.is_over(self.now) => return ControlFlow::Continue(()),
                        Ok(record) => Some(record),
                        Err(damaged) => {
                            failed = Some(damaged_at(key, damaged));
                            return ControlFlow::Break(());
                        }
                    },
                    false => None,
                };
                let flow = visit(key, record);
                broke = flow.is_break();
                flow
            })?;
        }
        if let Some(failed) = failed {
            return Err(failed);
        }
        for ((_, key), change) in changed.take_while(|_| !broke) {
            if let Some(record) = of_change(change)
                && visit(key, Some(record)).is_break()
            {
                break;
            }
        }
        Ok(())
    }
}

/// The error of a record that cannot be read.
fn damaged_at(key: &[u8], damaged: DamagedRecord) -> Halt {
    let what = match damaged {
        DamagedRecord::Short => "ends early".to_owned(),
        DamagedRecord::Type(other) => format!("has the unknown type {other}"),
    };
    let key = key.escape_ascii();
    Halt::Error(Reply::error(format!(
        "ERR damaged: the record of key '{key}' {what}; was the store written by another program?"
    )))
}

/// The bytes of a record in front of its value.
pub(super) fn head(until: Option<u64>) -> RecordHead {
    RecordHead::of_string(until)
}
