//! Values of a cursor's entries: read when they are asked for, and ahead of that where the caller
//! asks for one after the other.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use cleavedb_base::{EntryKind, Error, Expiry, Lasting, Result, SeqNo, ValuePointer};
use cleavedb_index::VisibleIter;
use cleavedb_storage::Reach;
use cleavedb_values::{Chunk, OwnedRecord, ValueLayout};

use super::moment::Moment;
use super::{Cursor, Place};
use crate::operations::direction::Direction;
use crate::reads::value_reader::{FoundValue, ValueReader};

/// Bytes of the longest value that a cursor keeps.
const KEPT_MAX: usize = 1 << 20;

/// Values that are read ahead after the second that was asked for.
const AHEAD_MIN: usize = 16;

/// How far values are read ahead.
#[derive(Clone, Copy)]
struct Window {
    /// Most values.
    items: usize,
    /// Most bytes of values.
    bytes: u64,
}

impl Window {
    /// For scattered values: the number that a device fetches in parallel.
    const SCATTERED: Self = Self { items: 128, bytes: 4 << 20 };
    /// For neighbouring values: a second window costs a seek for each file that has some.
    const IN_ORDER: Self = Self { items: 1 << 16, bytes: 32 << 20 };
}

/// How many values to read at once.
pub(super) struct ReadAhead {
    window: Window,
    /// Number of values that will be asked for, if the caller has said it.
    expected: usize,
    /// Direction of the last step.
    heading: Direction,
    /// Values that were asked for, at one step after the other in that direction.
    asked: usize,
    /// Whether the last one of them is that of the current entry.
    asked_here: bool,
}

impl ReadAhead {
    pub(super) fn new(layout: &ValueLayout) -> Self {
        let in_order = layout.groups.is_some_and(|groups| groups.partition.keeps_order());
        let window = if in_order { Window::IN_ORDER } else { Window::SCATTERED };
        Self { window, expected: 0, heading: Direction::Forward, asked: 0, asked_here: false }
    }

    /// The read-ahead for another cursor, which has asked for nothing yet.
    pub(super) fn restarted(&self) -> Self {
        Self { asked: 0, asked_here: false, ..*self }
    }

    pub(super) fn expect(&mut self, values: usize) {
        self.expected = values;
    }

    /// A new position, from which steps may go on in this direction.
    pub(super) fn turn(&mut self, to: Direction) {
        (self.heading, self.asked, self.asked_here) = (to, 0, false);
    }

    #[inline]
    pub(super) fn step(&mut self, to: Direction) {
        if to != self.heading || !self.asked_here {
            self.asked = 0;
        }
        (self.heading, self.asked_here) = (to, false);
    }

    /// The value of the current entry is asked for.
    #[inline]
    fn ask(&mut self) {
        self.asked += usize::from(!std::mem::replace(&mut self.asked_here, true));
    }

    /// Number of values to read from the current one on: the expected ones, or else half of those
    /// that were asked for, so that unneeded reads stay a fraction of the needed ones.
    fn values(&self) -> usize {
        match self.expected.saturating_sub(self.asked - 1) {
            0 if self.asked < 2 => 1,
            0 => (self.asked / 2).clamp(AHEAD_MIN, self.window.items),
            expected => expected.min(self.window.items),
        }
    }
}

/// An entry, and as much of its value as is known.
pub(super) struct CursorEntry {
    pub(super) encoded_key: Bytes,
    seq: SeqNo,
    /// Until when its value is there; one with a marker has one that stays.
    until: Expiry,
    value: EntryValue,
}

enum EntryValue {
    Known(Bytes),
    /// The index does not say where it lies.
    Unreadable(Error),
    /// Where the index says that it lies.
    Pointer(ValuePointer),
    /// The value of a key with a marker, which is not looked up yet.
    Marker,
    /// The value of a key that merges have changed.
    Merged,
    /// Where it lies, and the chunk with which it is read, if its neighbours are read with it.
    Place(ValuePointer, Option<Arc<Chunk>>),
    /// Where the newest version of a key with a marker lies, if the read state has it.
    Apart(Option<ValuePointer>, Option<Arc<Chunk>>),
}

impl CursorEntry {
    /// The entry that `iter` is on.
    #[inline]
    pub(super) fn of(iter: &VisibleIter) -> Self {
        let value = match iter.kind() {
            EntryKind::Pointer => {
                let pointer = ValuePointer::decode(iter.value());
                pointer.map_or_else(EntryValue::Unreadable, EntryValue::Pointer)
            }
            EntryKind::Marker => EntryValue::Marker,
            kind if !kind.hides_older() => EntryValue::Merged,
            _ => EntryValue::Known(iter.keep_value()),
        };
        let (encoded_key, until) = (Bytes::copy_from_slice(iter.key()), iter.until());
        Self { encoded_key, seq: iter.seq(), until, value }
    }

    /// Keeps its value for the next call, unless it is long: a cursor keeps several entries.
    pub(super) fn set_value(&mut self, value: &Bytes) {
        if value.len() <= KEPT_MAX {
            self.value = EntryValue::Known(value.clone());
        }
    }

    /// Where its value is to be read, as far as it is known, and not yet with others.
    fn wanted(&self) -> Option<ValuePointer> {
        match &self.value {
            EntryValue::Place(pointer, None) => Some(*pointer),
            EntryValue::Apart(pointer, None) => *pointer,
            _ => None,
        }
    }

    /// Bytes of its value, as far as they are known.
    fn len(&self) -> u64 {
        match &self.value {
            EntryValue::Known(value) => value.len() as u64,
            EntryValue::Pointer(pointer) | EntryValue::Place(pointer, _) => u64::from(pointer.len),
            EntryValue::Apart(pointer, _) => pointer.map_or(0, |pointer| u64::from(pointer.len)),
            EntryValue::Marker | EntryValue::Merged | EntryValue::Unreadable(_) => 0,
        }
    }
}

impl Cursor {
    /// When the value of the key that it is on expires; `None` if it does not, or if the cursor is
    /// on no key. The value is not read.
    pub fn expiry(&self) -> Option<SystemTime> {
        if let Place::On(at) = self.place { self.row[at].until.time() } else { None }
    }

    /// A reader of the value of the key that it is on; `None` if it is on no key. Of a blob
    /// ([`crate::Keyspace::put_reader`]) it reads what it is asked for.
    pub fn reader(&mut self) -> Result<Option<ValueReader>> {
        let Place::On(at) = self.place else { return self.value().map(|_| None) };
        let CursorEntry { encoded_key, seq, until, value } = &self.row[at];
        let until = *until;
        if let EntryValue::Pointer(pointer) | EntryValue::Place(pointer, _) = value {
            self.moment.engine.gate.check_held()?;
            let segments = &self.moment.state.segments;
            let found = FoundValue::lone(segments, *pointer, encoded_key, *seq);
            if let Some(found) = found.map_err(|e| self.moment.engine.explained(e))? {
                return Ok(Some(ValueReader::new(Lasting { value: found, until })));
            }
        }
        let value = self.value()?.map(FoundValue::Whole);
        Ok(value.map(|value| ValueReader::new(Lasting { value, until })))
    }

    /// The value of the entry `at`, on which the cursor is, and its place in the row then.
    pub(super) fn value_at(&mut self, at: usize) -> Result<(usize, Bytes)> {
        self.ahead.ask();
        let mut at = at;
        if matches!(self.row[at].value, EntryValue::Pointer(_) | EntryValue::Marker) {
            self.locate(at);
            if self.row[at].wanted().is_some() && self.moment.reach == Reach::Device {
                at = self.read_ahead(at);
            }
        }
        let CursorEntry { encoded_key, seq, value, .. } = &self.row[at];
        let segments = &self.moment.state.segments;
        let value = match value {
            EntryValue::Known(value) => Ok(value.clone()),
            EntryValue::Unreadable(error) => Err(error.clone()),
            EntryValue::Pointer(pointer) | EntryValue::Place(pointer, None) => {
                let record = segments.record(self.moment.reach, *pointer, encoded_key, *seq);
                record.map(OwnedRecord::into_value)
            }
            EntryValue::Place(pointer, Some(chunk)) => {
                segments.read_in(chunk, *pointer, encoded_key, *seq)
            }
            EntryValue::Merged => self.moment.merged_value(encoded_key),
            EntryValue::Marker => self.moment.value_apart(encoded_key, None, None),
            EntryValue::Apart(pointer, chunk) => {
                self.moment.value_apart(encoded_key, *pointer, chunk.as_deref())
            }
        };
        value.map(|value| (at, value))
    }

    /// Finds out where the value of the entry `at` lies now.
    fn locate(&mut self, at: usize) {
        let entry = &mut self.row[at];
        match entry.value {
            EntryValue::Pointer(pointer) => {
                let (key, seq) = (&*entry.encoded_key, entry.seq);
                entry.value = match self.moment.cached(key, seq) {
                    Some(value) => EntryValue::Known(value),
                    None => EntryValue::Place(pointer, None),
                };
            }
            EntryValue::Marker => {
                entry.value = EntryValue::Apart(self.moment.find_apart(&entry.encoded_key), None);
            }
            _ => {}
        }
    }

    /// Requests the value of the entry `at` together with those ahead of it, which the device then
    /// fetches in parallel, neighbours in one piece. Returns the place of the entry in the row.
    ///
    /// An error ahead ends the reading there: it is met again when the cursor comes to it.
    fn read_ahead(&mut self, at: usize) -> usize {
        let (heading, values) = (self.ahead.heading, self.ahead.values());
        let mut at = at;
        let (mut count, mut bytes) = (1, self.row[at].len());
        while count < values && bytes < self.ahead.window.bytes {
            let is_there = match heading {
                Direction::Forward => at + count < self.row.len(),
                Direction::Backward => at >= count,
            };
            if !is_there {
                if !matches!(self.extend(heading), Ok(true)) {
                    break;
                }
                if heading == Direction::Backward {
                    at += 1;
                    self.place = Place::On(at);
                }
            }
            let next = match heading {
                Direction::Forward => at + count,
                Direction::Backward => at - count,
            };
            if self.is_stopped(heading, &self.row[next].encoded_key) {
                break;
            }
            self.locate(next);
            bytes += self.row[next].len();
            count += 1;
        }
        if count > 1 {
            self.request(at, count);
        }
        at
    }

    /// Requests the values of `count` entries from `at` on that are not requested yet.
    fn request(&mut self, at: usize, count: usize) {
        let heading = self.ahead.heading;
        let place = |i| match heading {
            Direction::Forward => at + i,
            Direction::Backward => at - i,
        };
        let mut wanted = Vec::with_capacity(count);
        wanted.extend((0..count).filter_map(|i| self.row[place(i)].wanted()));
        let Moment { engine, state, .. } = &self.moment;
        let chunks = state.segments.prefetch_records(&wanted, &engine.spare_pages.ahead);
        let mut chunks = chunks.into_iter();
        for at in (0..count).map(place) {
            if let EntryValue::Place(_, chunk @ None) | EntryValue::Apart(Some(_), chunk @ None) =
                &mut self.row[at].value
            {
                *chunk = chunks.next().flatten();
            }
        }
    }
}
