//! What a command sees and changes: the records as they are, below what it has changed itself.
//!
//! A command is a function of its arguments and a view, and knows neither sockets nor the engine.
//! So it runs on a store, on a map in tests, and again from its begin if it had to wait.

mod elements;
mod ranks;

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::{Bound, ControlFlow};

use bytes::Bytes;

use super::effects::{Change, Effects};
use super::events::{KeyEvent, event};
use super::reads::{KeyPlace, KeyWalk, Reads};
use super::{Answer, Halt};
use crate::model::record::{DamagedRecord, KeyContent, KeyRecord};
use crate::model::scan::Scans;
use crate::resp::reply::Reply;

pub use self::elements::{CUT_ALONE, ElementRange, OpenCollection, VisitElement};

/// Most bytes that a command, a transaction or a script keeps in memory of what it has read and
/// changed, and what each value counts besides its own.
const HELD_MAX: usize = 1 << 30;
const VALUE_COST: usize = 64;

/// What an element takes that is changed, besides its bytes.
const CHANGE_COST: usize = 256;

/// Most steps in a thread for which others wait.
const STEPS_AT_ONCE: usize = 1 << 20;

/// Steps that a look-up takes.
const LOOKUP_STEPS: usize = 1 << 10;

/// A command of records alone: what it does with its arguments, of which the first is its name.
pub type Run = for<'a> fn(&[&'a [u8]], &mut View<'a>) -> Answer;

/// What visits keys, with their records if those were asked for, until it breaks off.
pub type VisitRecord<'a> = dyn FnMut(&[u8], Option<KeyRecord>) -> ControlFlow<()> + 'a;

/// Of which records and when views are.
#[derive(Clone, Copy)]
pub struct ViewMoment<'a> {
    /// The records.
    pub reads: &'a dyn Reads,
    /// Cursors of scans.
    pub scans: &'a Scans,
    /// The time, in milliseconds since 1970.
    pub now: u64,
    /// Classes of what is told of keys: bits of [`super::event`].
    pub told: u16,
}

impl<'a> ViewMoment<'a> {
    /// A view for a client of a database, which has changed nothing.
    pub fn view(self, database: usize) -> View<'a> {
        let Self { reads, scans, now, told } = self;
        let databases = reads.databases();
        let effects = Effects::default();
        let (sends_long, held) = (false, Cell::new(0));
        View { reads, database, now, databases, scans, told, sends_long, held, effects }
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
    /// Classes of what is told of keys: bits of [`super::event`].
    told: u16,
    /// Whether long replies are read while they are sent.
    sends_long: bool,
    /// Bytes of what was read and is kept.
    held: Cell<usize>,
    effects: Effects<'a>,
}

impl<'a> View<'a> {
    /// The view of a command by itself, whose reply may be read while it is sent.
    #[must_use]
    pub fn sending_long(self, sends_long: bool) -> Self {
        Self { sends_long, ..self }
    }

    /// The view behind what other commands have changed, which is not committed yet.
    #[must_use]
    pub fn behind(self, effects: Effects<'a>) -> Self {
        Self { effects, ..self }
    }

    /// Tells what has happened to a key of the client's database, if that is asked for.
    pub fn tell(&mut self, class: u16, name: &'static str, key: &[u8]) {
        self.tell_in(self.database, class, name, key);
    }

    /// Tells what has happened to a key of any database, if that is asked for.
    pub fn tell_in(&mut self, database: usize, class: u16, name: &'static str, key: &[u8]) {
        self.push_event(class, name, database, key, None);
    }

    fn push_event(
        &mut self,
        class: u16,
        name: &'static str,
        database: usize,
        key: &[u8],
        absent_from: Option<usize>,
    ) {
        if self.told & class != 0 {
            let key = key.to_vec();
            self.effects.events.push(KeyEvent { class, name, database, key, absent_from });
        }
    }

    /// Tells that a key is new, if what was changed so far says so, or says nothing of the key and
    /// it was not there before.
    fn tell_if_new(&mut self, database: usize, key: &[u8]) {
        if self.told & event::NEW == 0 {
            return;
        }
        let origin = self.effects.origin(database);
        let change = self.effects.keys.get(&(origin, Cow::Borrowed(key)));
        let is_known = change.is_some() || self.effects.cleared.contains(&origin);
        if matches!(change, None | Some(Change::Delete)) {
            self.push_event(event::NEW, "new", database, key, (!is_known).then_some(origin));
        }
    }

    /// Tells that a key has gone, as it does with the last element of its collection.
    pub fn tell_if_gone(&mut self, key: &[u8]) -> Answer<()> {
        if self.told & event::GENERIC != 0 && !self.exists(key)? {
            self.tell(event::GENERIC, "del", key);
        }
        Ok(())
    }

    /// Notes that a command keeps one more value in memory that it has read. Fails as
    /// [`View::check_held`] does.
    pub fn hold(&self, bytes: usize) -> Answer<()> {
        self.held.set(self.held.get().saturating_add(bytes).saturating_add(VALUE_COST));
        self.check_held()
    }

    /// As [`View::hold`], for what visits elements or keys: the visit breaks off, and fails.
    pub fn holding(&self, bytes: usize) -> ControlFlow<()> {
        match self.hold(bytes) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    /// Fails if too much is kept in memory of what was read and changed.
    pub fn check_held(&self) -> Answer<()> {
        match self.held.get().saturating_add(self.effects.bytes) {
            ..=HELD_MAX => Ok(()),
            _ => Err(Halt::error("ERR what is read and changed at once takes more than 1 GiB")),
        }
    }

    /// As [`View::hold`], for elements that a command is going to change.
    pub fn hold_changes(&self, elements: usize) -> Answer<()> {
        self.hold(elements.saturating_mul(CHANGE_COST))
    }

    /// Forgets what was kept, as a script does between two commands.
    pub fn let_go(&self) {
        self.held.set(0);
    }

    /// Fails with [`Halt::Wait`] where others wait for the thread, if a command takes many steps of
    /// some nanoseconds.
    pub fn take_time(&self, steps: usize) -> Answer<()> {
        match steps > STEPS_AT_ONCE && !self.reads.may_wait() {
            true => Err(Halt::Wait),
            false => Ok(()),
        }
    }

    /// As [`View::take_time`], for look-ups.
    pub fn take_lookups(&self, count: usize) -> Answer<()> {
        self.take_time(count.saturating_mul(LOOKUP_STEPS))
    }

    /// What was changed so far.
    pub fn effects(&self) -> &Effects<'a> {
        &self.effects
    }

    /// Has clients served that wait for a key of any database.
    pub fn wake(&mut self, database: usize, key: &[u8]) {
        if self.told & event::READY != 0 {
            self.effects.ready.push((self.effects.origin(database), key.to_vec()));
        }
    }

    /// Has clients served that wait for what a key had to stay.
    fn wake_if_gone(&mut self, database: usize, key: &[u8]) {
        if self.told & event::GONE != 0 {
            self.effects.ready.push((self.effects.origin(database), key.to_vec()));
        }
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
        let database = self.effects.origin(database);
        if !self.effects.is_empty() {
            match self.effects.keys.get(&(database, Cow::Borrowed(key))) {
                Some(change) => return Ok(changed(change)),
                None if self.effects.cleared.contains(&database) => return Ok(None),
                None => {}
            }
        }
        let Some(bytes) = self.reads.get(KeyPlace::Keys(database), key)? else { return Ok(None) };
        let record = KeyRecord::decode(bytes).map_err(|damaged| damaged_at(key, damaged))?;
        Ok(Some(record).filter(|record| !record.is_over(self.now)))
    }

    /// The string of a key, and until when it is there; an error if it is of another type.
    pub fn string(&self, key: &[u8]) -> Answer<Option<(Bytes, Option<u64>)>> {
        match self.record(key)? {
            None => Ok(None),
            Some(KeyRecord { content: KeyContent::String(bytes), until }) => {
                Ok(Some((bytes, until)))
            }
            Some(_) => Err(wrong_type()),
        }
    }

    /// Whether a key is there.
    pub fn exists(&self, key: &[u8]) -> Answer<bool> {
        self.record(key).map(|record| record.is_some())
    }

    /// Gives a key of the client's database a string until a time. One that is over is a deletion.
    /// What the key had before is not read: the elements of a collection are left to the sweeper.
    pub fn put(&mut self, key: &'a [u8], value: impl Into<Cow<'a, [u8]>>, until: Option<u64>) {
        let value = value.into();
        let change = match until {
            Some(until) if until <= self.now => Change::Delete,
            _ => Change::String(value, until),
        };
        self.wake_if_gone(self.database, key);
        if change != Change::Delete {
            self.tell_if_new(self.database, key);
        }
        self.change(self.database, Cow::Borrowed(key), change);
    }

    fn change(&mut self, database: usize, key: Cow<'a, [u8]>, change: Change<'a>) {
        self.effects.change((self.effects.origin(database), key), change);
    }

    /// Gives a key of any database a record, and a collection to clients that wait for it; if the
    /// record is over, the key is removed with it. A collection may have had another key, which is
    /// then to be removed by [`View::forget`].
    pub fn put_record(&mut self, database: usize, key: impl Into<Cow<'a, [u8]>>, it: KeyRecord) {
        let (key, mut it) = (key.into(), it);
        match &mut it.content {
            KeyContent::Collection(collection) => {
                collection.is_unregistered = true;
                self.wake(database, &key);
            }
            KeyContent::String(_) => self.wake_if_gone(database, &key),
        }
        self.rewrite(database, key, it);
    }

    /// Gives a key of any database its record as it is by now, with no more elements than it had;
    /// if the record is over, the key is removed with it.
    pub fn rewrite(&mut self, database: usize, key: impl Into<Cow<'a, [u8]>>, it: KeyRecord) {
        let (key, is_over) = (key.into(), it.is_over(self.now));
        if is_over {
            self.wake_if_gone(database, &key);
        }
        let change = match it.content {
            KeyContent::Collection(collection) if is_over => {
                self.effects.drop_collection(collection.id);
                Change::Delete
            }
            KeyContent::Collection(collection) => {
                if collection.is_unregistered {
                    let owner = Some((self.effects.origin(database), key.clone()));
                    self.effects.owners.insert(collection.id, owner);
                }
                Change::Collection(collection, it.until)
            }
            KeyContent::String(_) if is_over => Change::Delete,
            KeyContent::String(value) => Change::String(value.to_vec().into(), it.until),
        };
        if !is_over {
            self.tell_if_new(database, &key);
        }
        self.change(database, key, change);
    }

    /// Removes a key of the client's database, and says whether it was there.
    pub fn delete(&mut self, key: &'a [u8]) -> Answer<bool> {
        self.delete_in(self.database, key)
    }

    /// Removes a key of any database, and says whether it was there.
    pub fn delete_in(&mut self, database: usize, key: &'a [u8]) -> Answer<bool> {
        let was_there = self.make_room_in(database, key)?;
        if was_there {
            self.wake_if_gone(database, key);
            self.change(database, Cow::Borrowed(key), Change::Delete);
        }
        Ok(was_there)
    }

    /// Removes the elements of a key of the client's database, which gets another value then: it is
    /// no new key.
    pub fn make_room(&mut self, key: &[u8]) -> Answer<()> {
        self.make_room_in(self.database, key).map(|_| ())
    }

    fn make_room_in(&mut self, database: usize, key: &[u8]) -> Answer<bool> {
        let found = self.record_in(database, key)?;
        if let Some(KeyRecord { content: KeyContent::Collection(collection), .. }) = found {
            self.effects.drop_collection(collection.id);
        }
        Ok(found.is_some())
    }

    /// Removes a key of the client's database, but not its elements, which another key has by now.
    pub fn forget(&mut self, key: &'a [u8]) {
        self.wake_if_gone(self.database, key);
        self.change(self.database, Cow::Borrowed(key), Change::Delete);
    }

    /// Removes all keys of a database. The elements of their collections are left to the sweeper.
    pub fn clear(&mut self, database: usize) {
        let database = self.effects.origin(database);
        // What was changed before stays a change: clients may watch it.
        let of_database = self.effects.keys.iter_mut().filter(|((of, _), _)| *of == database);
        let mut dropped = Vec::new();
        for (_, change) in of_database {
            if let Change::Collection(collection, _) = change {
                dropped.push(collection.id);
            }
            *change = Change::Delete;
        }
        dropped.into_iter().for_each(|id| self.effects.drop_collection(id));
        if !self.effects.cleared.contains(&database) {
            self.effects.cleared.push(database);
        }
    }

    /// Removes all keys of all databases, with their elements.
    pub fn clear_all(&mut self) {
        (0..self.databases).for_each(|database| self.clear(database));
        let Effects { elements, ranked, owners, dropped, cuts, is_flushed, .. } = &mut self.effects;
        elements.clear();
        cuts.clear();
        ranked.clear();
        owners.clear();
        dropped.clear();
        *is_flushed = true;
    }

    /// Gives two databases the keys of each other.
    pub fn swap(&mut self, first: usize, second: usize) {
        self.effects.swap(self.databases, first, second);
    }

    /// Visits keys of the client's database from `from` on in their order, with their records if
    /// `with_records`, until `visit` breaks off.
    pub fn walk(&self, from: &[u8], with_records: bool, visit: &mut VisitRecord<'_>) -> Answer<()> {
        let (effects, origin) = (&self.effects, self.effects.origin(self.database));
        let changes = effects.keys.range((origin, Cow::Borrowed(from))..);
        let changes = changes.take_while(|((of, _), _)| *of == origin);
        let changes = changes.map(|((_, key), change)| (&**key, change));
        let mut failed = None;
        let mut visit = |key: &[u8], found: KeyFound<'_, Change<'_>>| match found {
            KeyFound::Changed(change) => match changed(change) {
                Some(record) => visit(key, Some(record)),
                None => ControlFlow::Continue(()),
            },
            KeyFound::Stored(_) if !with_records => visit(key, None),
            KeyFound::Stored(bytes) => match KeyRecord::decode(Bytes::copy_from_slice(bytes)) {
                Ok(record) if record.is_over(self.now) => ControlFlow::Continue(()),
                Ok(record) => visit(key, Some(record)),
                Err(damaged) => {
                    failed = Some(damaged_at(key, damaged));
                    ControlFlow::Break(())
                }
            },
        };
        let space = KeyPlace::Keys(origin);
        let range = (Bound::Included(from), Bound::Unbounded);
        let walk = KeyWalk { space, range, is_reversed: false, with_values: with_records };
        let is_cleared = effects.cleared.contains(&origin);
        merged(self.reads, (!is_cleared).then_some(walk), changes, &mut visit)?;
        failed.map_or_else(|| self.check_held(), Err)
    }
}

/// A key as it is stored, or as it was changed since.
enum KeyFound<'a, T> {
    Stored(&'a [u8]),
    Changed(&'a T),
}

/// What visits keys, as they are stored or were changed, until it breaks off.
type VisitFound<'a, T> = dyn FnMut(&[u8], KeyFound<'_, T>) -> ControlFlow<()> + 'a;

/// Visits the keys of `walk`, if there is one, and those of `changes`, which replace them, in their
/// order, until `visit` breaks off.
fn merged<'a, T: 'a>(
    reads: &dyn Reads,
    walk: Option<KeyWalk<'_>>,
    changes: impl Iterator<Item = (&'a [u8], &'a T)>,
    visit: &mut VisitFound<'_, T>,
) -> Answer<()> {
    let (mut changes, mut broke) = (changes.peekable(), false);
    if let Some(walk) = walk {
        reads.walk(walk, &mut |key, bytes| {
            // Changed keys in front of it come first, and a changed one replaces it.
            let comes_first = |other: &[u8]| match walk.is_reversed {
                true => other >= key,
                false => other <= key,
            };
            let mut is_changed = false;
            while let Some((other, change)) = changes.next_if(|(other, _)| comes_first(other)) {
                is_changed = other == key;
                if visit(other, KeyFound::Changed(change)).is_break() {
                    broke = true;
                    return ControlFlow::Break(());
                }
            }
            let flow = match is_changed {
                true => ControlFlow::Continue(()),
                false => visit(key, KeyFound::Stored(bytes)),
            };
            broke = flow.is_break();
            flow
        })?;
    }
    while !broke && let Some((key, change)) = changes.next() {
        broke = visit(key, KeyFound::Changed(change)).is_break();
    }
    Ok(())
}

/// The record of a changed key.
fn changed(change: &Change<'_>) -> Option<KeyRecord> {
    let (content, until) = match change {
        Change::Delete => return None,
        Change::String(value, until) => (KeyContent::String(Bytes::copy_from_slice(value)), *until),
        Change::Collection(collection, until) => (KeyContent::Collection(*collection), *until),
    };
    Some(KeyRecord { until, content })
}

/// The error of a command for another type than the key has.
pub fn wrong_type() -> Halt {
    Halt::error("WRONGTYPE Operation against a key holding the wrong kind of value")
}

/// The error of a record that cannot be read.
fn damaged_at(key: &[u8], damaged: DamagedRecord) -> Halt {
    let what = match damaged {
        DamagedRecord::Short => "ends early".to_owned(),
        DamagedRecord::Long => "is too long".to_owned(),
        DamagedRecord::Type(other) => format!("has the unknown type {other}"),
    };
    let key = key.escape_ascii();
    Halt::Error(Reply::error(format!(
        "ERR damaged: the record of key '{key}' {what}; was the store written by another program?"
    )))
}
