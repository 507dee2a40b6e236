//! Point reads: finds the newest visible version of a key, and reads its value.

mod hot;
pub(crate) mod merged;
#[cfg(feature = "experiments")]
mod seeks;

use std::sync::Arc;

use bytes::Bytes;
use cleavedb_base::checksum::hash64;
use cleavedb_base::limits::KEY_LEN_MAX;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::swap::Guard;
use cleavedb_base::{
    EncodedKey, EntryKind, ErrorKind, Expiry, KeyspaceId, Result, SeqNo, ValuePointer,
};
use cleavedb_hot::HotStore;
use cleavedb_index::RangeTombstones;

use crate::background::memtables;
use crate::control::latency::Operation;
use crate::engine::Engine;
use crate::reads::value_reader::FoundValue;
use crate::store::dead::MANY;
use crate::store::snapshot::ReadPoint;
use crate::store::state::ReadState;

use self::hot::{Hot, check_changes, find_hot, found_cold};

/// Answer of the index for a key.
pub(crate) enum Answer {
    Absent,
    /// The value, from the index or from the record cache, and when it expires.
    Inline(Bytes, Expiry),
    /// The place of the value's record, its sequence number, and when the value expires.
    Record(ValuePointer, SeqNo, Expiry),
    /// The hot store has the newest version.
    Hot,
    /// An operand of a merge, which changes what older versions say.
    Operand,
}

impl Answer {
    /// What an entry says at the time `now`, in milliseconds since 1970. `inline` is its value, to
    /// keep.
    #[inline(always)]
    fn of(
        (kind, seq, value): (EntryKind, SeqNo, &[u8]),
        inline: impl Fn() -> Bytes,
        now: impl Fn() -> u64,
    ) -> Result<Self> {
        Ok(match kind {
            EntryKind::Delete => Self::Absent,
            EntryKind::Inline => Self::Inline(inline(), Expiry::NEVER),
            EntryKind::Pointer => Self::Record(ValuePointer::decode(value)?, seq, Expiry::NEVER),
            EntryKind::Hot => Self::Hot,
            EntryKind::Operand => Self::Operand,
            EntryKind::ExpiringInline | EntryKind::ExpiringPointer => {
                let (expiry, rest) = Expiry::split(true, value)?;
                match kind {
                    _ if expiry.is_over(now()) && !planted(Bug::ExpiredIsRead) => Self::Absent,
                    EntryKind::ExpiringPointer => {
                        Self::Record(ValuePointer::decode(rest)?, seq, expiry)
                    }
                    _ => Self::Inline(inline().slice(Expiry::LEN..), expiry),
                }
            }
        })
    }
}

/// The answer of the MemTables, if they have the key. As `find` and `read_record`, a part of each
/// of its callers: what these return takes longer to pass on than to make.
#[inline(always)]
pub(crate) fn find_in_memory(
    state: &ReadState,
    encoded_key: &[u8],
    hash: u64,
    (seq, now): (SeqNo, impl Fn() -> u64),
) -> Option<Result<Answer>> {
    let hit = state.memtables.iter().find_map(|slot| slot.table.get(encoded_key, hash, seq))?;
    if is_deleted(&state.tombstones, encoded_key, hit.seq, seq) {
        return Some(Ok(Answer::Absent));
    }
    let entry = (hit.kind, hit.seq, hit.value);
    Some(Answer::of(entry, || Bytes::copy_from_slice(hit.value), now))
}

/// Whether a range tombstone that a read as of `upto` sees deletes the version `seq` of a key.
#[inline]
fn is_deleted(tombstones: &RangeTombstones, encoded_key: &[u8], seq: SeqNo, upto: SeqNo) -> bool {
    tombstones.covers(encoded_key, seq, upto) && !planted(Bug::RangeTombstoneUnread)
}

/// The answer of the tables; a part of its callers, too.
#[inline(always)]
pub(crate) fn find_in_tables(
    state: &ReadState,
    encoded_key: &[u8],
    hash: u64,
    (seq, now): (SeqNo, impl Fn() -> u64),
    engine: Option<&Engine>,
) -> Result<Answer> {
    let found = match engine {
        #[cfg(feature = "experiments")]
        Some(engine) if seeks::are_counted(engine) => {
            seeks::get(engine, &state.version, encoded_key, hash, seq)?
        }
        _ => state.version.get(encoded_key, hash, seq)?,
    };
    match found {
        // Also a marker: a hot key that was written since the range tombstone has a newer one.
        Some(found) if is_deleted(&state.tombstones, encoded_key, found.seq, seq) => {
            Ok(Answer::Absent)
        }
        Some(found) => {
            let entry = (found.kind, found.seq, &found.value[..]);
            Answer::of(entry, || found.value.clone(), now)
        }
        None => Ok(Answer::Absent),
    }
}

/// The value of the version `seq` of a key with this hash, if the record cache has it.
#[inline]
fn cached(engine: &Engine, encoded_key: &[u8], hash: u64, seq: SeqNo) -> Option<Bytes> {
    engine.records.as_ref()?.get(encoded_key, hash, seq)
}

/// Reads that version behind `pointer`, and caches its record.
#[inline(always)]
fn read_record(
    engine: &Engine,
    state: &ReadState,
    pointer: ValuePointer,
    (encoded_key, hash, seq): (&[u8], u64, SeqNo),
) -> Result<Bytes> {
    let record = state.segments.record(pointer, encoded_key, seq)?;
    if let Some(records) = &engine.records {
        records.insert(hash, seq, &record);
    }
    Ok(record.into_value())
}

/// The newest visible version of `key`, at or below `snapshot` if there is one.
pub(crate) fn get(
    engine: &Engine,
    (keyspace, key): (KeyspaceId, &[u8]),
    snapshot: Option<ReadPoint>,
) -> Result<Option<Bytes>> {
    // No such key can exist.
    if key.len() > KEY_LEN_MAX {
        return Ok(None);
    }
    let _timer = engine.timer(Operation::Get);
    let of_record = |state: &ReadState, pointer, version: (&[u8], u64, SeqNo)| {
        read_record(engine, state, pointer, version)
    };
    let encoded_key = EncodedKey::new(keyspace, key);
    let at = (snapshot, Heats::Yes);
    let found = read_with(engine, encoded_key.as_bytes(), at, |value| value, of_record)?;
    Ok(found.map(|(value, _)| value))
}

/// As [`get`], with the expiry of the value.
pub(crate) fn get_with_expiry(
    engine: &Engine,
    (keyspace, key): (KeyspaceId, &[u8]),
    snapshot: Option<ReadPoint>,
) -> Result<Option<(Bytes, Expiry)>> {
    if key.len() > KEY_LEN_MAX {
        return Ok(None);
    }
    let _timer = engine.timer(Operation::Get);
    get_encoded(engine, EncodedKey::new(keyspace, key).as_bytes(), snapshot, Heats::Yes)
}

/// As [`get`]; below a merge that cannot be applied, if there is one.
pub(crate) fn get_below_failed_merge(
    engine: &Engine,
    (keyspace, key): (KeyspaceId, &[u8]),
) -> Result<Option<Bytes>> {
    match get(engine, (keyspace, key), None) {
        Err(e) if e.kind() == ErrorKind::Merge => {
            let found = merged::get_below(engine, EncodedKey::new(keyspace, key).as_bytes())?;
            Ok(found.map(|(value, _)| value))
        }
        found => found,
    }
}

/// Whether a read adds to the heat of its key: scans and the store itself do not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heats {
    Yes,
    No,
}

/// Whether `key` has a visible version, at or below `snapshot` if there is one. Only the value of a
/// hot key is read, since its record alone has the whole key.
pub(crate) fn contains(
    engine: &Engine,
    (keyspace, key): (KeyspaceId, &[u8]),
    snapshot: Option<ReadPoint>,
) -> Result<bool> {
    if key.len() > KEY_LEN_MAX {
        return Ok(false);
    }
    let encoded_key = EncodedKey::new(keyspace, key);
    let (encoded_key, hash) = (encoded_key.as_bytes(), hash64(encoded_key.as_bytes(), 0));
    loop {
        match find(engine, encoded_key, hash, snapshot, Heats::Yes)?.1 {
            Answer::Absent => return Ok(false),
            Answer::Inline(..) | Answer::Record(..) | Answer::Operand => return Ok(true),
            Answer::Hot => {}
        }
    }
}

/// As [`get_with_expiry`], for a tree key.
pub(crate) fn get_encoded(
    engine: &Engine,
    encoded_key: &[u8],
    snapshot: Option<ReadPoint>,
    heats: Heats,
) -> Result<Option<(Bytes, Expiry)>> {
    let of_record = |state: &ReadState, pointer, version: (&[u8], u64, SeqNo)| match heats {
        Heats::No => state.segments.read(pointer, version.0, version.2),
        Heats::Yes => read_record(engine, state, pointer, version),
    };
    read_with(engine, encoded_key, (snapshot, heats), |value| value, of_record)
}

/// The value of `key`, of which a blob is not read yet, and when it expires.
pub(crate) fn find_value(
    engine: &Engine,
    (keyspace, key): (KeyspaceId, &[u8]),
    snapshot: Option<ReadPoint>,
) -> Result<Option<(FoundValue, Expiry)>> {
    if key.len() > KEY_LEN_MAX {
        return Ok(None);
    }
    let _timer = engine.timer(Operation::Get);
    let of_record = |state: &ReadState, pointer, version: (&[u8], u64, SeqNo)| match state
        .segments
        .blob(pointer, version.0, version.2)?
    {
        Some(blob) => Ok(FoundValue::Blob(blob)),
        None => read_record(engine, state, pointer, version).map(FoundValue::Whole),
    };
    let encoded_key = EncodedKey::new(keyspace, key);
    let at = (snapshot, Heats::Yes);
    read_with(engine, encoded_key.as_bytes(), at, FoundValue::Whole, of_record)
}

/// The value of a tree key, as `of_value` takes it from the index or the hot store, or `of_record`
/// from its record, and when it expires.
#[inline]
fn read_with<T>(
    engine: &Engine,
    encoded_key: &[u8],
    (snapshot, heats): (Option<ReadPoint>, Heats),
    of_value: impl Fn(Bytes) -> T,
    of_record: impl Fn(&ReadState, ValuePointer, (&[u8], u64, SeqNo)) -> Result<T>,
) -> Result<Option<(T, Expiry)>> {
    let hash = hash64(encoded_key, 0);
    loop {
        let (state, found) = find(engine, encoded_key, hash, snapshot, heats)?;
        let (pointer, seq, expiry) = match found {
            Answer::Absent => return Ok(None),
            Answer::Inline(value, expiry) => return Ok(Some((of_value(value), expiry))),
            Answer::Record(pointer, seq, expiry) => (pointer, seq, expiry),
            Answer::Operand => {
                let merged = merged::get(engine, encoded_key, hash, snapshot)?;
                return Ok(merged.map(|(value, expiry)| (of_value(value), expiry)));
            }
            // A flush is changing what is hot.
            Answer::Hot => continue,
        };
        if let Some(value) = cached(engine, encoded_key, hash, seq) {
            return Ok(Some((of_value(value), expiry)));
        }
        // The MemTable is shared by all read states since it was begun, so its youngest entries
        // may point into a log file that this read state does not know yet.
        let unknown = state.segments.get(pointer.file).is_none();
        if unknown && !Arc::ptr_eq(&state, &engine.state.load()) {
            continue;
        }
        // A value that expires does not become hot.
        if heats == Heats::Yes && expiry.is_never() {
            found_cold(engine, encoded_key, (pointer, seq));
        }
        let value = of_record(&state, pointer, (encoded_key, hash, seq));
        if planted(Bug::CorruptIsAbsent) && value.is_err() {
            return Ok(None);
        }
        return value.map(|value| Some((value, expiry)));
    }
}

/// The newest version of a key at or below `snapshot`, or as of now, and the read state that has
/// it. If a flush is changing what is hot, it is [`Answer::Hot`], and the caller tries again.
#[inline(always)]
fn find(
    engine: &Engine,
    encoded_key: &[u8],
    hash: u64,
    snapshot: Option<ReadPoint>,
    heats: Heats,
) -> Result<(Guard<Arc<ReadState>>, Answer)> {
    let changes = engine.hot.as_deref().map(HotStore::changes);
    let (state, visible) =
        engine.state.look(|| snapshot.map_or_else(|| engine.commit.visible(), |at| at.seq));
    // The clock is asked only about values that expire.
    let now = || snapshot.map_or_else(|| engine.time.millis(), |at| at.time);
    let answer = match find_in_memory(&state, encoded_key, hash, (visible, now)) {
        Some(answer) => answer?,
        None => match find_hot(engine, &state, encoded_key, heats)? {
            Hot::Version(seq, _)
                if seq <= visible && is_deleted(&state.tombstones, encoded_key, seq, visible) =>
            {
                Answer::Absent
            }
            Hot::Version(seq, value) if seq <= visible => Answer::Inline(value, Expiry::NEVER),
            // A flush has published the version since the sequence number was loaded.
            Hot::Version(..) if snapshot.is_none() => return Ok((state, Answer::Hot)),
            Hot::Moving => Answer::Hot,
            Hot::Version(..) | Hot::None => {
                find_in_tables(&state, encoded_key, hash, (visible, now), Some(engine))?
            }
        },
    };
    if matches!(answer, Answer::Hot) {
        check_changes(engine, &state, changes)?;
    }
    Ok((state, answer))
}

/// The values of `keys` at `snapshot`, which the caller holds, in their order: blocks of the index
/// are prefetched in parallel first, then values outside of it.
pub(crate) fn multi_get<K: AsRef<[u8]>>(
    engine: &Engine,
    (keyspace, keys): (KeyspaceId, &[K]),
    snapshot: ReadPoint,
) -> Vec<Result<Option<Bytes>>> {
    let _timer = engine.timer(Operation::MultiGet);
    let at = (snapshot.seq, || snapshot.time);
    // Loaded after the snapshot, so it has every file that the snapshot's entries name.
    let state = engine.state.load_full();
    let begin = |key: &K| {
        let key = key.as_ref();
        if key.len() > KEY_LEN_MAX {
            return Ok((EncodedKey::new(keyspace, b""), 0, Some(Answer::Absent)));
        }
        let encoded_key = EncodedKey::new(keyspace, key);
        let hash = hash64(encoded_key.as_bytes(), 0);
        let known = find_in_memory(&state, encoded_key.as_bytes(), hash, at).transpose()?;
        let known = known.or_else(|| is_hot(engine, encoded_key.as_bytes()).then_some(Answer::Hot));
        if known.is_none() && keys.len() > 1 {
            state.version.expect(encoded_key.as_bytes(), hash, snapshot.seq);
        }
        Ok((encoded_key, hash, known))
    };
    let find_one = |(encoded_key, hash, known): (EncodedKey, u64, Option<Answer>)| {
        let mut answer = match known {
            Some(answer) => answer,
            None => find_in_tables(&state, encoded_key.as_bytes(), hash, at, Some(engine))?,
        };
        if let Answer::Record(pointer, seq, expiry) = &mut answer {
            match cached(engine, encoded_key.as_bytes(), hash, *seq) {
                Some(value) => answer = Answer::Inline(value, *expiry),
                None => state.segments.will_need(*pointer),
            }
        }
        Ok((encoded_key, hash, answer))
    };
    let value_of = |(encoded_key, hash, answer): (EncodedKey, u64, Answer)| match answer {
        Answer::Absent => Ok(None),
        Answer::Inline(value, _) => Ok(Some(value)),
        Answer::Record(pointer, seq, _) => {
            let version = (encoded_key.as_bytes(), hash, seq);
            read_record(engine, &state, pointer, version).map(Some)
        }
        Answer::Hot | Answer::Operand => {
            let found = get_encoded(engine, encoded_key.as_bytes(), Some(snapshot), Heats::No)?;
            Ok(found.map(|(value, _)| value))
        }
    };
    let begun: Vec<Result<_>> = keys.iter().map(begin).collect();
    let found: Vec<Result<_>> = begun.into_iter().map(|begun| begun.and_then(find_one)).collect();
    found.into_iter().map(|found| found.and_then(value_of)).collect()
}

/// Whether a key is hot; adds to its heat.
fn is_hot(engine: &Engine, encoded_key: &[u8]) -> bool {
    engine.hot.as_ref().is_some_and(|store| store.read(store.key(encoded_key)).is_some())
}

/// Records that a range has skipped this number of dead entries.
#[inline]
pub(crate) fn met_dead(engine: &Engine, entries: u64) {
    if entries > 0 {
        engine.counters.dead_read.add(entries);
        if entries > MANY {
            met_many_dead(engine, entries);
        }
    }
}

#[cold]
fn met_many_dead(engine: &Engine, entries: u64) {
    engine.dead_reads.pay(entries);
    memtables::rotate_dead(engine, MANY / 2);
    engine.jobs.wake();
}
