//! Ranges: keys and values in order, from both ends, as of one moment.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use cleavedb_base::checksum::hash64;
use cleavedb_base::limits::KEYSPACE_PREFIX_LEN;
use cleavedb_base::{EncodedKey, EntryKind, Error, KeyspaceId, Result, SeqNo, ValuePointer};
use cleavedb_index::{MergeIter, ReadMode, VisibleIter};
use cleavedb_storage::process::Own;
use cleavedb_values::groups::KeyDirectoryReader;
use cleavedb_values::{Chunk, ReadBuffers};

use crate::engine::Engine;
use crate::read::{self, Heats};
use crate::snapshot::HeldSnapshot;
use crate::state::ReadState;

/// How far a scan reads ahead of its user.
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

/// Values that a scan reads ahead after its second step.
const AHEAD_MIN: usize = 16;

/// A key and its value. Either may share memory with its neighbours (a value with the cached block
/// that holds it), so copy the few items that are to be kept from a long scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The key.
    pub key: Bytes,
    /// Its value; empty in a range of keys only.
    pub value: Bytes,
}

/// Bounds of a range, as tree keys.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) lower: Vec<u8>,
    pub(crate) upper: Vec<u8>,
}

impl Bounds {
    /// From `from` (inclusive) to `to` (exclusive); no bound is the end of the keyspace.
    pub(crate) fn new(keyspace: KeyspaceId, from: Option<&[u8]>, to: Option<&[u8]>) -> Self {
        let bound = |key: &[u8]| EncodedKey::new(keyspace, key).as_bytes().to_vec();
        let end = || (u32::from(keyspace.0) + 1).to_be_bytes();
        let upper = match to {
            Some(to) => bound(to),
            // The last keyspace ends above every possible key.
            None if keyspace.0 == u16::MAX => vec![0xff; KEYSPACE_PREFIX_LEN + (1 << 16)],
            None => end()[2..].to_vec(),
        };
        Self { lower: bound(from.unwrap_or_default()), upper }
    }

    /// All keys that begin with `prefix`.
    pub(crate) fn prefix(keyspace: KeyspaceId, prefix: &[u8]) -> Self {
        let mut bounds = Self::new(keyspace, Some(prefix), None);
        let mut successor = prefix.to_vec();
        while let Some(last) = successor.pop() {
            if last < u8::MAX {
                successor.push(last + 1);
                bounds.upper = EncodedKey::new(keyspace, &successor).as_bytes().to_vec();
                break;
            }
        }
        bounds
    }
}

/// The end of the range that a cursor reads from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Front,
    Back,
}

/// An entry that was found and whose value may still be fetched.
struct ScanEntry {
    encoded_key: Bytes,
    seq: SeqNo,
    value: ScanValue,
}

enum ScanValue {
    Ready(Bytes),
    Wanted(ValuePointer),
    /// Its neighbours are read with it.
    InChunk(ValuePointer, Arc<Chunk>),
    /// That of a hot key: where its newest version lies, if the read state has it, and the chunk
    /// with which it is read.
    Hot(Option<ValuePointer>, Option<Arc<Chunk>>),
}

impl ScanValue {
    fn wanted(&self) -> Option<ValuePointer> {
        match self {
            Self::Ready(_) => None,
            Self::Wanted(pointer) | Self::InChunk(pointer, _) => Some(*pointer),
            Self::Hot(pointer, _) => *pointer,
        }
    }

    /// The same value, to be read with `chunk`.
    fn within(&self, pointer: ValuePointer, chunk: Arc<Chunk>) -> Self {
        match self {
            Self::Hot(..) => Self::Hot(Some(pointer), Some(chunk)),
            _ => Self::InChunk(pointer, chunk),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Self::Ready(value) => value.len() as u64,
            Self::Wanted(pointer) | Self::InChunk(pointer, _) => u64::from(pointer.len),
            Self::Hot(pointer, _) => pointer.map_or(0, |pointer| u64::from(pointer.len)),
        }
    }
}

/// One end of the range: an iterator over entries and those read ahead.
struct End {
    side: Side,
    iter: VisibleIter,
    started: bool,
    /// Entries ahead of the user, whose values were requested.
    ready: VecDeque<ScanEntry>,
    /// Entries found so far.
    found: usize,
    /// Finds moved records.
    maps: KeyDirectoryReader,
}

/// Iterator over a range, from both ends; yields every key once. After an error it ends.
///
/// It sees the database as of its creation, and keeps the files that it needs until it is dropped.
pub struct Range {
    /// Keeps the directory locked until the range is dropped.
    engine: Own<Arc<Engine>>,
    state: Own<Arc<ReadState>>,
    /// The error that it returns once, if it was refused.
    refused: Option<Error>,
    seq: SeqNo,
    bounds: Bounds,
    keys_only: bool,
    window: Window,
    /// Number of items that will be taken, if the user has said it.
    expected: usize,
    front: Option<End>,
    back: Option<End>,
    /// Last tree keys that were yielded, from each side.
    front_key: Option<Vec<u8>>,
    back_key: Option<Vec<u8>>,
    done: bool,
    /// Keeps the versions that the range sees from being dropped.
    #[expect(dead_code, reason = "held for what its drop does")]
    held: Option<Arc<HeldSnapshot>>,
}

impl Range {
    /// A range as of `snapshot`, or as of now; if it is refused, one that only returns the error.
    pub(crate) fn new(
        engine: Own<Arc<Engine>>,
        bounds: Bounds,
        snapshot: Option<Arc<HeldSnapshot>>,
        keys_only: bool,
        refused: Option<Error>,
    ) -> Self {
        // The snapshot first, then the read state: later changes of the read state may drop
        // versions, but this one has all versions of the snapshot.
        let now = || Arc::new(engine.snapshots.take(|| engine.commit.visible()));
        let held = snapshot.or_else(|| refused.is_none().then(now));
        let seq = held.as_ref().map_or(0, |held| held.seq);
        let state = engine.state.load_full();
        let in_order =
            engine.options.layout.groups.is_some_and(|groups| groups.partition.keeps_order());
        let window = if in_order { Window::IN_ORDER } else { Window::SCATTERED };
        Self {
            engine,
            state: Own::new(state),
            refused,
            seq,
            bounds,
            keys_only,
            window,
            expected: 0,
            front: None,
            back: None,
            front_key: None,
            back_key: None,
            done: false,
            held,
        }
    }

    /// The same range, of which about `items` items will be taken: their values are prefetched from
    /// the first on, and no others. Does not limit the range.
    #[must_use]
    pub fn with_limit_hint(self, items: usize) -> Self {
        Self { expected: items, ..self }
    }

    fn open_end(&self, side: Side) -> End {
        let Bounds { lower, upper } = &self.bounds;
        let mut sources = Vec::new();
        for slot in &self.state.memtables {
            sources.extend(slot.table.iters());
        }
        sources.extend(self.state.version.iters(Some(lower), Some(upper), ReadMode::Cached));
        let merged = MergeIter::new(sources);
        let iter = VisibleIter::new(merged, self.seq, Some(lower.clone()), Some(upper.clone()));
        let (ready, maps) = (VecDeque::new(), KeyDirectoryReader::default());
        End { side, iter, started: false, ready, found: 0, maps }
    }

    /// The next entry from `side`, its value read.
    fn step(&mut self, side: Side) -> Result<Option<Item>> {
        let own = match side {
            Side::Front => self.front.take(),
            Side::Back => self.back.take(),
        };
        let mut end = own.unwrap_or_else(|| self.open_end(side));
        let found = match end.ready.pop_front() {
            Some(found) if self.crossed(side, &found.encoded_key) => None,
            Some(found) => Some(found),
            None => self.found(&mut end)?,
        };
        match side {
            Side::Front => self.front = Some(end),
            Side::Back => self.back = Some(end),
        }
        found.map(|found| self.yielded(side, found)).transpose()
    }

    /// Turns an entry into an item, which becomes the last one from its side.
    fn yielded(&mut self, side: Side, found: ScanEntry) -> Result<Item> {
        let ScanEntry { encoded_key: mut key, seq, value } = found;
        let value = match value {
            ScanValue::Ready(value) => value,
            ScanValue::Wanted(pointer) => self.state.segments.read(pointer, &key, seq)?,
            ScanValue::InChunk(pointer, chunk) => {
                self.state.segments.read_in(&chunk, pointer, &key, seq)?
            }
            ScanValue::Hot(pointer, chunk) => self.hot_value(&key, pointer, chunk.as_deref())?,
        };
        let last = match side {
            Side::Front => &mut self.front_key,
            Side::Back => &mut self.back_key,
        };
        let last = last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(&key);
        if key.len() < KEYSPACE_PREFIX_LEN {
            return Err(cleavedb_base::Error::corruption("a tree key is too short"));
        }
        key.advance(KEYSPACE_PREFIX_LEN);
        Ok(Item { key, value })
    }

    /// The value of a hot key: its newest version, if the range sees that, or else the one that a
    /// look-up finds, since the key was written or moved after the range began.
    fn hot_value(
        &self,
        key: &[u8],
        pointer: Option<ValuePointer>,
        chunk: Option<&Chunk>,
    ) -> Result<Bytes> {
        if let Some(pointer) = pointer
            && let Some((seq, value)) = self.state.segments.read_version(chunk, pointer, key)?
            && seq <= self.seq
        {
            return Ok(value);
        }
        let found = read::get_encoded(&self.engine, key, Some(self.seq), Heats::No)?;
        found.ok_or_else(|| Error::corruption("a key that the index knows as hot has no value"))
    }

    /// Whether the other side has already passed this key.
    fn crossed(&self, side: Side, key: &[u8]) -> bool {
        match side {
            Side::Front => self.back_key.as_deref().is_some_and(|back| key >= back),
            Side::Back => self.front_key.as_deref().is_some_and(|front| key <= front),
        }
    }

    /// The next entry. If its value lies elsewhere, the following entries are read ahead.
    fn found(&self, end: &mut End) -> Result<Option<ScanEntry>> {
        if end.ready.is_empty() {
            match self.next_entry(end)? {
                Some(found) if found.value.wanted().is_some() => end.ready.push_back(found),
                other => return Ok(other),
            }
        }
        self.look_ahead(end)?;
        Ok(end.ready.pop_front())
    }

    /// Moves to the next entry.
    #[inline]
    fn next_entry(&self, end: &mut End) -> Result<Option<ScanEntry>> {
        let advanced = advance(end);
        read::met_dead(&self.engine, end.iter.take_dead());
        advanced?;
        if !end.iter.valid() || self.crossed(end.side, end.iter.key()) {
            return Ok(None);
        }
        let value = match end.iter.kind() {
            _ if self.keys_only => ScanValue::Ready(Bytes::new()),
            EntryKind::Pointer => {
                let pointer = ValuePointer::decode(end.iter.value())?;
                let (key, seq) = (end.iter.key(), end.iter.seq());
                match self.cached(key, seq) {
                    Some(value) => ScanValue::Ready(value),
                    None => {
                        let place = self.state.resolve(pointer, key, seq, &mut end.maps)?;
                        ScanValue::Wanted(place)
                    }
                }
            }
            EntryKind::Hot => {
                let store = self.engine.hot.as_ref();
                let found = store.and_then(|store| store.find(store.key(end.iter.key())));
                ScanValue::Hot(found.filter(|it| self.state.segments.is_there(*it)), None)
            }
            _ => ScanValue::Ready(end.iter.keep_value()),
        };
        let encoded_key = Bytes::copy_from_slice(end.iter.key());
        end.found += 1;
        Ok(Some(ScanEntry { encoded_key, seq: end.iter.seq(), value }))
    }

    /// The value of a version, if the record cache has it. A scan neither fills the cache nor keeps
    /// anything in it: it would evict what is read again and again.
    #[inline]
    fn cached(&self, encoded_key: &[u8], seq: SeqNo) -> Option<Bytes> {
        self.engine.records.as_ref()?.peek(encoded_key, hash64(encoded_key, 0), seq)
    }

    /// Number of entries to read ahead: the expected ones, or else half of those found so far, so
    /// that unneeded reads stay a fraction of the needed ones.
    fn ahead(&self, end: &End) -> usize {
        let taken = end.found - end.ready.len();
        match self.expected.saturating_sub(taken) {
            0 if end.found < 2 => 0,
            0 => (end.found / 2).clamp(AHEAD_MIN, self.window.items),
            expected => expected.min(self.window.items),
        }
    }

    /// Finds entries ahead of the user and requests their values, which the device then fetches in
    /// parallel, neighbours in one piece.
    fn look_ahead(&self, end: &mut End) -> Result<()> {
        let ahead = self.ahead(end);
        let mut bytes: u64 = end.ready.iter().map(|found| found.value.len()).sum();
        while end.ready.len() < ahead && bytes < self.window.bytes {
            let Some(found) = self.next_entry(end)? else { break };
            bytes += found.value.len();
            end.ready.push_back(found);
        }
        if end.ready.len() > 1 {
            let wanted = end.ready.iter().filter_map(|found| found.value.wanted());
            let wanted: Vec<ValuePointer> = wanted.collect();
            let chunks = self.state.segments.prefetch_records(&wanted, ReadBuffers::Shared);
            let pointed = end.ready.iter_mut().filter(|found| found.value.wanted().is_some());
            for ((found, pointer), chunk) in pointed.zip(wanted).zip(chunks) {
                if let Some(chunk) = chunk {
                    found.value = found.value.within(pointer, chunk);
                }
            }
        }
        Ok(())
    }
}

/// Moves the end's iterator to its next entry.
fn advance(end: &mut End) -> Result<()> {
    match (end.side, std::mem::replace(&mut end.started, true)) {
        (Side::Front, false) => end.iter.seek_first(),
        (Side::Back, false) => end.iter.seek_last(),
        (_, true) if !end.iter.valid() => Ok(()),
        (Side::Front, true) => end.iter.next(),
        (Side::Back, true) => end.iter.prev(),
    }
}

impl Range {
    fn take_step(&mut self, side: Side) -> Option<Result<Item>> {
        if self.done {
            return None;
        }
        let step = match self.refused.take() {
            Some(error) => Err(error),
            None => self.checked_step(side),
        };
        self.done = !matches!(step, Ok(Some(_)));
        step.transpose()
    }

    /// A step, unless the range was ended before or meanwhile.
    fn checked_step(&mut self, side: Side) -> Result<Option<Item>> {
        self.engine.gate.check_held()?;
        let step = self.step(side);
        self.engine.gate.check_held()?;
        step
    }
}

impl Iterator for Range {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take_step(Side::Front)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.take_step(Side::Back)
    }
}
