//! Cursor: a position among the keys of a range, as of one moment, that moves both ways.
//!
//! The entries round the position are kept in a *row*, and the iterator over the index stands at
//! one end of it. A step inside the row, such as one back after one forth, does not move the
//! iterator: to turn it round costs a search in every table. Values are read only when they are
//! asked for ([`values`]).

mod moment;
mod values;
mod timed;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use cleavedb_base::limits::KEYSPACE_PREFIX_LEN;
use cleavedb_base::sync::Mutex;
use cleavedb_base::{EncodedKey, Error, Result, SeqNo};
use cleavedb_index::VisibleIter;
use cleavedb_storage::Reach;
use cleavedb_storage::process::Own;

use crate::control::debug::debug;
use crate::control::latency::Operation;
use crate::engine::Engine;
use crate::operations::bounds::{Bounds, successor};
use crate::operations::direction::Direction;
use crate::operations::recent_writes::ReadSet;
use crate::reads::item::Item;
use crate::reads::pending_writes::PendingWrites;
use crate::reads::read;
use crate::store::snapshot::{HeldBy, HeldSnapshot, ReadPoint};

use self::moment::Moment;
use self::values::{CursorEntry, ReadAhead};

/// Entries that a cursor keeps behind its position, so that it can go back to them cheaply.
const PASSED_MAX: usize = 8;

/// Where a cursor is.
enum Place {
    /// Nowhere: the first step goes to the first key, or to the last one.
    Start,
    /// On this entry of the row.
    On(usize),
    /// In front of the first key.
    InFront,
    /// Behind the last key.
    Behind,
    /// The cursor met this error.
    Failed(Error),
}

/// A position among the keys of a range, as of one moment; it can be moved to any key, and to the
/// next and the previous one. Values are read when [`Cursor::value`] asks for them, and ahead of it
/// if each of several in a row is asked for.
///
/// A new cursor is on no key: [`Cursor::next`] moves it to the first one, [`Cursor::prev`] to the
/// last. At either end of the range it is on no key again, and the opposite step returns to the
/// range. After an error it stays where it is, fails with the same error, and can be moved by
/// [`Cursor::seek`] and the like, which search anew.
///
/// It sees the database as of its creation, or as of its snapshot, and keeps the files that it
/// needs until it is dropped; see [`crate::Db::close`].
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
/// for (key, value) in [("apple", "red"), ("banana", "yellow"), ("cherry", "dark red")] {
///     db.put(key, value)?;
/// }
/// let mut cursor = db.cursor(..);
/// assert!(cursor.seek("b")?);
/// assert_eq!(cursor.key(), Some(&b"banana"[..]));
/// assert_eq!(cursor.value()?.unwrap(), "yellow");
/// assert!(cursor.prev()?);
/// assert_eq!(cursor.key(), Some(&b"apple"[..]));
/// assert!(!cursor.prev()?);
/// assert_eq!(cursor.key(), None);
///
/// // All keys; no value is read.
/// let mut keys = 0;
/// while cursor.next()? {
///     keys += 1;
/// }
/// assert_eq!(keys, 3);
/// # Ok::<(), cleavedb::Error>(())
/// ```
pub struct Cursor {
    moment: Moment,
    bounds: Bounds,
    /// Made when it is first moved.
    iter: Option<VisibleIter>,
    /// Neighbouring entries, in the order of keys.
    row: VecDeque<CursorEntry>,
    /// The end of the row at which the iterator stands: on its entry, or past the last key there.
    edge: Direction,
    place: Place,
    /// Entries that are kept behind the position.
    passed_max: usize,
    /// A key that is not reached, nor any beyond it: see [`Cursor::stop_at`].
    stop: Option<Vec<u8>>,
    ahead: ReadAhead,
    /// What it goes past, if it is that of a transaction.
    reads: Option<Arc<Mutex<ReadSet>>>,
}

debug!(Cursor, |cursor| { key: cursor.key().map(Bytes::copy_from_slice) });

impl Cursor {
    /// A cursor as of `snapshot`, or as of now; if it is refused, one that only returns the error.
    pub(crate) fn new(
        engine: Own<Arc<Engine>>,
        bounds: Bounds,
        snapshot: Option<Arc<HeldSnapshot>>,
        refused: Option<Error>,
    ) -> Self {
        // The snapshot before the read state, which has all of its versions then.
        let visible = || engine.commit.visible();
        let now = || Arc::new(engine.snapshots.take(HeldBy::Cursor, visible, &engine.time));
        let held = snapshot.or_else(|| refused.is_none().then(now));
        let none = ReadPoint { seq: 0, time: 0 };
        let at = held.as_ref().map_or(none, |held| held.at);
        let state = Own::new(engine.state.load_full());
        let cursor = Self::of(
            Moment { engine, state, at, reach: Reach::Device, held, pending: None },
            bounds,
        );
        let place = refused.map_or(Place::Start, Place::Failed);
        Self { place, ..cursor }
    }

    fn of(moment: Moment, bounds: Bounds) -> Self {
        let ahead = ReadAhead::new(&moment.engine.options.layout());
        Self {
            moment,
            bounds,
            iter: None,
            row: VecDeque::new(),
            edge: Direction::Forward,
            place: Place::Start,
            passed_max: PASSED_MAX,
            stop: None,
            ahead,
            reads: None,
        }
    }

    /// A cursor over the same range as of the same moment.
    pub(crate) fn twin(&self) -> Self {
        let Moment { engine, state, at, reach, held, pending } = &self.moment;
        let moment = Moment {
            engine: engine.clone(),
            state: Own::new(Arc::clone(state)),
            at: *at,
            reach: *reach,
            held: held.clone(),
            pending: pending.clone(),
        };
        let place = match &self.place {
            Place::Failed(error) => Place::Failed(error.clone()),
            _ => Place::Start,
        };
        let twin = Self::of(moment, self.bounds.clone());
        let (ahead, reads) = (self.ahead.restarted(), self.reads.clone());
        Self { passed_max: self.passed_max, place, ahead, reads, ..twin }
    }

    /// The cursor; fails if `check` refuses the sequence number that it reads at.
    pub(crate) fn checked(mut self, check: impl FnOnce(SeqNo) -> Result<()>) -> Self {
        if let (Err(e), Place::Start) = (check(self.moment.at.seq), &self.place) {
            self.place = Place::Failed(e);
        }
        self
    }

    /// The cursor, which will only go on in one direction.
    pub(crate) fn one_way(self) -> Self {
        Self { passed_max: 0, ..self }
    }

    /// The cursor, which has not been moved yet, and fails with [`crate::ErrorKind::WouldWait`]
    /// where it would have to wait for the device.
    pub(crate) fn resident(mut self) -> Self {
        self.moment.reach = Reach::Memory;
        self
    }

    /// The cursor with the writes of a transaction, which adds what it goes past to `reads`.
    pub(crate) fn within(mut self, writes: PendingWrites, reads: Arc<Mutex<ReadSet>>) -> Self {
        self.moment.pending = Some(writes).filter(|writes| !writes.is_empty());
        // An empty range has nothing to go past, and its ends are the wrong way round.
        let reads = (self.bounds.lower < self.bounds.upper).then_some(reads);
        Self { reads, ..self }
    }

    /// Says how many values will be taken.
    pub(crate) fn expect(&mut self, values: usize) {
        self.ahead.expect(values);
    }

    /// Ends the range, in the direction of the steps, in front of this tree key.
    pub(crate) fn stop_at(&mut self, encoded_key: &[u8]) {
        let stop = self.stop.get_or_insert_default();
        stop.clear();
        stop.extend_from_slice(encoded_key);
    }

    /// The key that it is on; `None` if it is on none. It is borrowed from the cursor, which
    /// [`Cursor::value`] changes: [`Cursor::item`] returns both.
    pub fn key(&self) -> Option<&[u8]> {
        self.current().and_then(|entry| entry.encoded_key.get(KEYSPACE_PREFIX_LEN..))
    }

    /// Whether it is on a key.
    pub fn is_valid(&self) -> bool {
        self.current().is_some()
    }

    fn current(&self) -> Option<&CursorEntry> {
        match self.place {
            Place::On(at) => self.row.get(at),
            _ => None,
        }
    }

    /// Moves to the next key. Returns whether there is one; if not, it is behind the last key.
    #[expect(clippy::should_implement_trait, reason = "one of two directions; it lends its key")]
    pub fn next(&mut self) -> Result<bool> {
        self.timed(Operation::Next, |cursor| cursor.go(Direction::Forward))
    }

    /// Moves to the previous key. Returns whether there is one; if not, it is in front of the first
    /// key.
    pub fn prev(&mut self) -> Result<bool> {
        self.timed(Operation::Next, |cursor| cursor.go(Direction::Backward))
    }

    /// Moves to the first key at or after `key`. Returns whether there is one; if not, it is behind
    /// the last key.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = EncodedKey::new(self.bounds.keyspace, key.as_ref());
        self.sought(Direction::Forward, key.as_bytes(), |iter| iter.seek(key.as_bytes()))
    }

    /// Moves to the last key at or before `key`. Returns whether there is one; if not, it is in
    /// front of the first key.
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = EncodedKey::new(self.bounds.keyspace, key.as_ref());
        let above = successor(key.as_bytes().to_vec());
        self.sought(Direction::Backward, key.as_bytes(), |iter| iter.seek_before(&above))
    }

    /// Moves to the first key. Returns whether there is one.
    pub fn seek_to_first(&mut self) -> Result<bool> {
        let from = self.bounds.lower.clone();
        self.sought(Direction::Forward, &from, VisibleIter::seek_first)
    }

    /// Moves to the last key. Returns whether there is one.
    pub fn seek_to_last(&mut self) -> Result<bool> {
        let from = self.bounds.upper.clone();
        self.sought(Direction::Backward, &from, VisibleIter::seek_last)
    }

    /// The value of the key that it is on, as [`crate::Keyspace::get`] returns it; `None` if it is
    /// on no key. Asked again, it is not read again, unless it has more than 1 MiB.
    pub fn value(&mut self) -> Result<Option<Bytes>> {
        match &self.place {
            Place::Failed(error) => return Err(error.clone()),
            Place::Start | Place::InFront | Place::Behind => return Ok(None),
            Place::On(_) => self.moment.engine.gate.check_held()?,
        }
        let Some((at, value)) = self.read_value()? else { return Ok(None) };
        self.row[at].set_value(&value);
        Ok(Some(value))
    }

    /// The key that it is on and its value; `None` if it is on no key.
    pub fn item(&mut self) -> Result<Option<Item>> {
        let Some(value) = self.value()? else { return Ok(None) };
        let key = Bytes::copy_from_slice(self.key().unwrap_or_default());
        Ok(Some(Item { key, value }))
    }

    /// As [`Cursor::item`] with the tree key, of a cursor that does not go back: what it returns is
    /// moved out of the cursor, which saves a copy.
    #[inline]
    pub(crate) fn take(&mut self, keys_only: bool) -> Result<Option<(Bytes, Bytes)>> {
        let found = match self.place {
            Place::On(at) if keys_only => Some((at, Bytes::new())),
            _ => self.read_value()?,
        };
        Ok(found.map(|(at, value)| {
            let key = &mut self.row[at].encoded_key;
            // The cursor of a transaction needs its key for what it goes past next.
            let key = if self.reads.is_some() { key.clone() } else { std::mem::take(key) };
            (key, value)
        }))
    }

    /// The place in the row of the current entry, if there is one, and its value.
    fn read_value(&mut self) -> Result<Option<(usize, Bytes)>> {
        let Place::On(at) = self.place else { return Ok(None) };
        let found = self.value_at(at).map_err(|e| self.moment.engine.explained(e))?;
        // Behind the read: see `Gate::check_held`.
        self.moment.engine.gate.check_held()?;
        Ok(Some(found))
    }

    /// Moves to what `search` finds: the first entry from the tree key `from` on in a direction.
    fn sought(
        &mut self,
        toward: Direction,
        from: &[u8],
        search: impl FnOnce(&mut VisibleIter) -> Result<()>,
    ) -> Result<bool> {
        // A cursor that was refused stays so.
        if self.moment.held.is_some() && matches!(self.place, Place::Failed(_)) {
            self.place = Place::Start;
        }
        self.timed(Operation::Seek, |cursor| {
            cursor.row.clear();
            cursor.ahead.turn(toward);
            cursor.edge = toward;
            search(cursor.opened())?;
            let found = cursor.push(toward);
            cursor.place = match toward {
                _ if found => Place::On(0),
                Direction::Forward => Place::Behind,
                Direction::Backward => Place::InFront,
            };
            cursor.note_read(from);
            Ok(found)
        })
    }

    /// Steps, and notes what it has gone past.
    #[inline]
    fn go(&mut self, to: Direction) -> Result<bool> {
        if self.reads.is_none() {
            return self.step(to);
        }
        let from = match (&self.place, to) {
            (Place::Start, Direction::Backward) => self.bounds.upper.clone(),
            _ => self.tree_key().to_vec(),
        };
        let moved = self.step(to)?;
        self.note_read(&from);
        Ok(moved)
    }

    /// Notes all keys between `from` and where it is now as read, if it is that of a transaction.
    fn note_read(&self, from: &[u8]) {
        if let Some(reads) = &self.reads {
            let to = self.tree_key();
            reads.lock().add_range(from.min(to), from.max(to));
        }
    }

    /// The tree key that it is on, or the end of the range that it is at.
    fn tree_key(&self) -> &[u8] {
        match self.place {
            Place::On(at) => &self.row[at].encoded_key,
            Place::Behind => &self.bounds.upper,
            Place::Start | Place::InFront | Place::Failed(_) => &self.bounds.lower,
        }
    }

    /// The iterator, opened if it is not.
    #[inline]
    fn opened(&mut self) -> &mut VisibleIter {
        let (moment, bounds) = (&self.moment, &self.bounds);
        self.iter.get_or_insert_with(|| moment.open(bounds))
    }

    #[inline]
    fn step(&mut self, to: Direction) -> Result<bool> {
        self.ahead.step(to);
        let next = match (&self.place, to) {
            (Place::On(at), _) => self.neighbour(*at, to)?,
            (Place::InFront, Direction::Backward) | (Place::Behind, Direction::Forward) => None,
            (Place::InFront, _) if !self.row.is_empty() => Some(0),
            (Place::Behind, _) if !self.row.is_empty() => Some(self.row.len() - 1),
            _ => self.end_facing(to)?,
        };
        let next = next.filter(|next| !self.is_stopped(to, &self.row[*next].encoded_key));
        self.place = match (next, to) {
            (Some(at), _) => Place::On(self.trim(at)),
            (None, Direction::Forward) => Place::Behind,
            (None, Direction::Backward) => Place::InFront,
        };
        Ok(next.is_some())
    }

    /// The place in the row of the neighbour of the entry `at`, if there is one.
    #[inline]
    fn neighbour(&mut self, at: usize, to: Direction) -> Result<Option<usize>> {
        Ok(match to {
            Direction::Forward if at + 1 < self.row.len() => Some(at + 1),
            Direction::Backward if at > 0 => Some(at - 1),
            Direction::Forward => self.extend(to)?.then_some(at + 1),
            // The new entry is in front of all others.
            Direction::Backward => self.extend(to)?.then_some(0),
        })
    }

    /// The place in the row of the first key of the range in direction `to`.
    fn end_facing(&mut self, to: Direction) -> Result<Option<usize>> {
        let (moment, bounds) = (&self.moment, &self.bounds);
        let iter = self.iter.get_or_insert_with(|| moment.open(bounds));
        moment.seek_end(iter, bounds, to)?;
        self.edge = to;
        Ok(self.push(to).then_some(0))
    }

    /// Moves the iterator to the neighbour of the row in direction `to`, and adds that to the row:
    /// a new front entry shifts the others. Returns whether there is one.
    fn extend(&mut self, to: Direction) -> Result<bool> {
        let moved = match (self.edge == to, to) {
            (true, Direction::Forward) => self.opened().next(),
            (true, Direction::Backward) => self.opened().prev(),
            (false, Direction::Forward) => {
                let last = self.row.back().map_or(&[][..], |entry| &entry.encoded_key);
                let above = successor(last.to_vec());
                self.opened().seek(&above)
            }
            (false, Direction::Backward) => {
                let first = self.row.front().map_or_else(Bytes::new, |e| e.encoded_key.clone());
                self.opened().seek_before(&first)
            }
        };
        self.edge = to;
        moved.map(|()| self.push(to))
    }

    /// Adds the entry of the iterator to the row, if it is on one. Returns whether it is.
    #[inline]
    fn push(&mut self, to: Direction) -> bool {
        let Some(iter) = &mut self.iter else { return false };
        // What has met many dead entries may seal a MemTable, which waits for a commit.
        if self.moment.reach == Reach::Device {
            read::met_dead(&self.moment.engine, iter.take_dead());
        }
        if !iter.valid() {
            return false;
        }
        let entry = CursorEntry::of(iter);
        match to {
            Direction::Forward => self.row.push_back(entry),
            Direction::Backward => self.row.push_front(entry),
        }
        true
    }

    /// Drops entries far behind the entry `at`. Returns its place in the row then.
    #[inline]
    fn trim(&mut self, at: usize) -> usize {
        // The iterator stands at the other end.
        match self.edge {
            Direction::Forward => {
                let passed = at.saturating_sub(self.passed_max);
                for _ in 0..passed {
                    self.row.pop_front();
                }
                at - passed
            }
            Direction::Backward => {
                self.row.truncate(at + 1 + self.passed_max);
                at
            }
        }
    }

    /// Whether a key lies at or beyond the place where steps in this direction are to stop.
    #[inline]
    fn is_stopped(&self, to: Direction, encoded_key: &[u8]) -> bool {
        self.stop.as_deref().is_some_and(|stop| match to {
            Direction::Forward => encoded_key >= stop,
            Direction::Backward => encoded_key <= stop,
        })
    }
}
