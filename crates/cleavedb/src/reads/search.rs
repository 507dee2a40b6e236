//! The search for the versions of a key: MemTables first, then the hot store, then tables.
//!
//! A read looks at one read state. A flush may change meanwhile what is hot, and a MemTable may
//! name log that this read state does not have: then the read looks again. Both are decided here.

#[cfg(feature = "experiments")]
mod seeks;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use cleavedb_base::checksum::hash64;
use cleavedb_base::limits::{KEY_LEN_MAX, KEYSPACE_PREFIX_LEN};
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::HEADER_LEN;
use cleavedb_base::sync::swap::Guard;
use cleavedb_base::sync::thread;
use cleavedb_base::{
    EncodedKey, EntryKind, Error, ErrorKind, KeyspaceId, Lasting, Result, SeqNo, ValuePointer,
};
use cleavedb_hot::HotStore;
use cleavedb_index::IndexHit;
use cleavedb_index::memtable::MemHit;
use cleavedb_storage::Reach;

use crate::engine::Engine;
use crate::store::snapshot::ReadPoint;
use crate::store::state::ReadState;

/// A key as a caller names it.
#[derive(Clone, Copy)]
pub(crate) struct UserKey<'k> {
    keyspace: KeyspaceId,
    key: &'k [u8],
}

impl<'k> UserKey<'k> {
    pub(crate) fn new<K: AsRef<[u8]> + ?Sized>(keyspace: KeyspaceId, key: &'k K) -> Self {
        Self { keyspace, key: key.as_ref() }
    }

    /// The tree key; none if it is longer than any key.
    #[inline]
    pub(crate) fn encode(self) -> Option<EncodedKey> {
        (self.key.len() <= KEY_LEN_MAX).then(|| EncodedKey::new(self.keyspace, self.key))
    }
}

/// A tree key that is searched.
#[derive(Clone, Copy)]
pub(crate) struct SearchKey<'k> {
    pub(crate) encoded: &'k [u8],
    pub(crate) hash: u64,
}

impl<'k> SearchKey<'k> {
    #[inline]
    pub(crate) fn new(encoded: &'k [u8]) -> Self {
        Self { encoded, hash: hash64(encoded, 0) }
    }
}

/// Whom a read is for: what the engine reads for itself makes no key hot, and fills no cache.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadFor {
    Caller,
    /// A caller in a thread that must not wait: where the device would be needed, the read fails
    /// with [`ErrorKind::WouldWait`].
    HastyCaller,
    Engine,
}

impl ReadFor {
    pub(crate) fn reach(self) -> Reach {
        if self == Self::HastyCaller { Reach::Memory } else { Reach::Device }
    }
}

/// A version of a key, as the place where it lies has it.
pub(crate) struct Hit<'s> {
    pub(crate) kind: EntryKind,
    pub(crate) seq: SeqNo,
    value: HitValue<'s>,
}

enum HitValue<'s> {
    /// In a MemTable.
    Borrowed(&'s [u8]),
    /// In a block, or read from a hot segment.
    Kept(Bytes),
}

impl<'s> From<MemHit<'s>> for Hit<'s> {
    #[inline(always)]
    fn from(MemHit { seq, kind, value }: MemHit<'s>) -> Self {
        Self { kind, seq, value: HitValue::Borrowed(value) }
    }
}

impl From<IndexHit> for Hit<'_> {
    #[inline(always)]
    fn from(IndexHit { seq, kind, value, .. }: IndexHit) -> Self {
        Self { kind, seq, value: HitValue::Kept(value) }
    }
}

impl<'s> Hit<'s> {
    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        match &self.value {
            HitValue::Borrowed(value) => value,
            HitValue::Kept(value) => value,
        }
    }

    /// The value behind this number of bytes.
    #[inline(always)]
    fn keep(self, front: usize) -> Bytes {
        match self.value {
            HitValue::Borrowed(value) => Bytes::copy_from_slice(&value[front..]),
            HitValue::Kept(mut value) => {
                value.advance(front);
                value
            }
        }
    }

    /// The value as it is stored.
    pub(crate) fn into_stored(self) -> Cow<'s, [u8]> {
        match self.value {
            HitValue::Borrowed(value) => Cow::Borrowed(value),
            HitValue::Kept(value) => Cow::Owned(value.into()),
        }
    }
}

/// A record with the value of a version.
#[derive(Clone, Copy)]
pub(crate) struct RecordRef {
    pub(crate) pointer: ValuePointer,
    pub(crate) seq: SeqNo,
}

/// What the newest visible version of a key says.
pub(crate) enum Found {
    /// There is none, or a delete, or a value that is not there any more.
    Absent,
    Value(Lasting<Bytes>),
    /// The record with the value.
    Record(Lasting<RecordRef>),
    /// A change of what older versions say.
    NeedsOlder,
}

impl Found {
    /// What a version says at the time `now`, in milliseconds since 1970; `None` if it says that
    /// the hot store has the newest one.
    #[inline(always)]
    pub(crate) fn of(hit: Hit<'_>, now: impl Fn() -> u64) -> Result<Option<Self>> {
        let value = hit.kind.split(hit.bytes())?;
        if !value.is_seen(now) {
            return Ok(Some(Self::Absent));
        }
        Ok(Some(match hit.kind {
            EntryKind::Delete => Self::Absent,
            EntryKind::Marker => return Ok(None),
            kind if !kind.hides_older() => Self::NeedsOlder,
            kind if kind.is_pointer() => {
                let pointer = ValuePointer::decode(value.value)?;
                Self::Record(value.map(|_| RecordRef { pointer, seq: hit.seq }))
            }
            _ => {
                let (front, until) = (hit.bytes().len() - value.value.len(), value.until);
                Self::Value(Lasting { value: hit.keep(front), until })
            }
        }))
    }
}

/// How far a search has come.
pub(crate) enum Step<T> {
    /// What was made of a version.
    Made(T),
    /// No version was enough.
    Nothing,
    /// A flush is changing what is hot.
    Moving,
}

/// The hot store as a read meets it.
struct HotView<'e> {
    store: &'e HotStore,
    /// See [`HotStore::changes`]: before the read state was loaded.
    changes: u64,
}

/// One look of a read at the database: as of a snapshot, or of now.
pub(crate) struct Look<'e> {
    engine: &'e Engine,
    hot: Option<HotView<'e>>,
    pub(crate) state: Guard<Arc<ReadState>>,
    visible: SeqNo,
    snapshot: Option<ReadPoint>,
}

/// Has `read` look at or below `snapshot`, or as of now; again, if it returns nothing.
#[inline]
pub(crate) fn looking<T>(
    engine: &Engine,
    snapshot: Option<ReadPoint>,
    read: impl Fn(&Look<'_>) -> Result<Option<T>>,
) -> Result<T> {
    loop {
        if let Some(done) = read(&Look::new(engine, snapshot))? {
            return Ok(done);
        }
    }
}

impl<'e> Look<'e> {
    #[inline(always)]
    pub(crate) fn new(engine: &'e Engine, snapshot: Option<ReadPoint>) -> Self {
        let view = |store: &'e HotStore| HotView { store, changes: store.changes() };
        let hot = engine.apart.hot.as_deref().map(view);
        let visible = || snapshot.map_or_else(|| engine.commit.visible(), |at| at.seq);
        let (state, visible) = engine.state.look(visible);
        Self { engine, hot, state, visible, snapshot }
    }

    /// The newest visible version of a key; `None` if the read must look again.
    #[inline(always)]
    pub(crate) fn find(&self, key: SearchKey<'_>, read_for: ReadFor) -> Result<Option<Found>> {
        let found = match self.find_in_memory(key, read_for)? {
            Step::Made(found) => found,
            Step::Nothing => self.find_in_tables(key, read_for)?.inspect(|found| {
                // A record does so once it is read.
                if let Found::Value(value) = found
                    && read_for != ReadFor::Engine
                    && value.until.is_never()
                {
                    let user_key = key.encoded.len() - KEYSPACE_PREFIX_LEN;
                    self.found_cold(key, HEADER_LEN + user_key + value.value.len());
                }
            }),
            Step::Moving => None,
        };
        if found.is_none() {
            self.await_change()?;
            if read_for == ReadFor::HastyCaller {
                return Err(Error::new(ErrorKind::WouldWait, "a flush changes what is hot"));
            }
        }
        Ok(found)
    }

    /// What MemTables and the hot store have.
    #[inline(always)]
    pub(crate) fn find_in_memory(
        &self,
        key: SearchKey<'_>,
        read_for: ReadFor,
    ) -> Result<Step<Option<Found>>> {
        self.visit_memory(key, read_for, |hit| self.found(key, hit).map(Some))
    }

    /// What the tables have.
    #[inline(always)]
    pub(crate) fn find_in_tables(
        &self,
        key: SearchKey<'_>,
        read_for: ReadFor,
    ) -> Result<Option<Found>> {
        let hit = match &self.state.version {
            #[cfg(feature = "experiments")]
            version if read_for != ReadFor::HastyCaller && seeks::are_counted(self.engine) => {
                seeks::get(self.engine, version, key, self.visible)?
            }
            version => version.get_within(read_for.reach(), key.encoded, key.hash, self.visible)?,
        };
        hit.map_or(Ok(Some(Found::Absent)), |hit| self.found(key, hit.into()))
    }

    /// Visits the versions of a key down to the one of which `take` makes something, and returns
    /// that; [`Found::Absent`] stands for one below all of them.
    pub(crate) fn visit<'s>(
        &'s self,
        key: SearchKey<'_>,
        mut take: impl FnMut(Hit<'s>) -> Option<Hit<'s>>,
    ) -> Result<Option<Found>> {
        let mut take = |hit: Hit<'s>| match self.is_deleted(key, hit.seq) {
            true => Ok(Some(Some(Found::Absent))),
            false => take(hit).map(|hit| self.found(key, hit)).transpose(),
        };
        let found = match self.visit_memory(key, ReadFor::Engine, &mut take)? {
            Step::Made(found) => found,
            Step::Moving => None,
            Step::Nothing => {
                let version = &self.state.version;
                let below = version.versions_of(u64::MAX, key.encoded, key.hash, self.visible)?;
                let mut below = below.into_iter().map(|hit| take(hit.into()));
                let made = below.find_map(Result::transpose).transpose()?;
                made.unwrap_or(Some(Found::Absent))
            }
        };
        if found.is_none() {
            self.await_change()?;
        }
        Ok(found)
    }

    /// Visits the versions of a key in MemTables, and then that in the hot store, until `take`
    /// makes something of one.
    #[inline(always)]
    fn visit_memory<'s, T>(
        &'s self,
        key: SearchKey<'_>,
        read_for: ReadFor,
        mut take: impl FnMut(Hit<'s>) -> Result<Option<T>>,
    ) -> Result<Step<T>> {
        for slot in &self.state.memtables {
            for hit in slot.table.versions(key.encoded, key.hash, self.visible) {
                if let Some(made) = take(hit.into())? {
                    return Ok(Step::Made(made));
                }
            }
        }
        let Some(hot) = &self.hot else { return Ok(Step::Nothing) };
        Ok(match self.find_hot(hot, key, read_for)? {
            Step::Made(hit) => take(hit)?.map_or(Step::Nothing, Step::Made),
            Step::Nothing => Step::Nothing,
            Step::Moving => Step::Moving,
        })
    }

    /// The version that the hot store has, if the read sees it.
    fn find_hot<'s>(
        &'s self,
        HotView { store, .. }: &HotView<'_>,
        key: SearchKey<'_>,
        read_for: ReadFor,
    ) -> Result<Step<Hit<'s>>> {
        let hot_key = store.key(key.encoded);
        let found =
            if read_for != ReadFor::Engine { store.read(hot_key) } else { store.find(hot_key) };
        let Some(pointer) = found else { return Ok(Step::Nothing) };
        if !self.state.segments.is_there(pointer) {
            return Ok(Step::Moving);
        }
        // A record of another key has the same fingerprint, or has taken the place meanwhile.
        let segments = &self.state.segments;
        let version = segments.read_version(read_for.reach(), None, pointer, key.encoded)?;
        Ok(match version {
            Some((seq, value)) if seq <= self.visible => {
                Step::Made(Hit { kind: EntryKind::Inline, seq, value: HitValue::Kept(value) })
            }
            // The flush of this version has published it since the sequence number was loaded.
            Some(_) if self.snapshot.is_none() => Step::Moving,
            _ => Step::Nothing,
        })
    }

    /// What a version says. A marker of a hot key may be deleted, too: if the key was written since
    /// the range tombstone, the hot store has a newer one.
    #[inline(always)]
    fn found(&self, key: SearchKey<'_>, hit: Hit<'_>) -> Result<Option<Found>> {
        if self.is_deleted(key, hit.seq) {
            return Ok(Some(Found::Absent));
        }
        let now = || self.snapshot.map_or_else(|| self.engine.time.millis(), |at| at.time);
        Found::of(hit, now)
    }

    /// Whether a range tombstone that the read sees deletes the version `seq` of a key.
    #[inline]
    fn is_deleted(&self, key: SearchKey<'_>, seq: SeqNo) -> bool {
        let deleted = &self.state.deleted;
        deleted.covers(key.encoded, seq, self.visible) && !planted(Bug::RangeDeleteUnread)
    }

    /// The value of a record, as `of_value` makes it of one in the record cache, or `read` reads
    /// it; `None` if the read must look again.
    ///
    /// A MemTable is shared by all read states since it was begun, so its youngest entries may
    /// point into a log file that this read state does not know yet.
    #[inline(always)]
    pub(crate) fn value<T>(
        &self,
        key: SearchKey<'_>,
        record: RecordRef,
        of_value: impl FnOnce(Bytes) -> T,
        read: impl FnOnce(&ReadState) -> Result<T>,
    ) -> Result<Option<T>> {
        if let Some(value) = self.cached(key, record.seq) {
            return Ok(Some(of_value(value)));
        }
        let unknown = self.state.segments.get(record.pointer.file).is_none();
        if unknown && !self.is_current() {
            return Ok(None);
        }
        read(&self.state).map(Some)
    }

    /// The value of the version `seq` of a key, if the record cache has it.
    #[inline]
    pub(crate) fn cached(&self, key: SearchKey<'_>, seq: SeqNo) -> Option<Bytes> {
        self.engine.records.as_ref()?.get(key.encoded, key.hash, seq)
    }

    /// Tells the hot store that a key was read whose version, of a record of `len` bytes, lies
    /// elsewhere.
    #[inline(always)]
    pub(crate) fn found_cold(&self, key: SearchKey<'_>, len: usize) {
        if let Some(HotView { store, .. }) = &self.hot {
            found_cold(self.engine, store, key, len);
        }
    }

    fn is_current(&self) -> bool {
        Arc::ptr_eq(&self.state, &self.engine.state.load())
    }

    /// Called when a key is hot and the hot store does not have it: lets the change go on that must
    /// be under way, or reports the loss.
    #[cold]
    fn await_change(&self) -> Result<()> {
        let is_settled = self
            .hot
            .as_ref()
            .is_none_or(|hot| hot.changes.is_multiple_of(2) && hot.store.changes() == hot.changes);
        if is_settled && self.is_current() {
            if let Some(lost) = &self.engine.jobs.lock().damaged.lost {
                return Err(lost.clone());
            }
            let what = "the index says that a key is hot, and no hot segment has it";
            return Err(Error::corruption(what));
        }
        thread::yield_now();
        Ok(())
    }
}

fn found_cold(engine: &Engine, store: &HotStore, key: SearchKey<'_>, len: usize) {
    // A flush that begins for promotions alone must find some.
    if !engine.is_promoted(len as u64) {
        return;
    }
    store.found_cold(key.encoded, len as u32);
    if engine.promotions_want_flush() && store.asks_for_flush() {
        engine.jobs.wake();
    }
}
