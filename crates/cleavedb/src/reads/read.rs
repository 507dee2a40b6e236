//! Point reads: finds the newest visible version of a key, and reads its value.

pub(crate) mod operands;

use bytes::Bytes;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{EncodedKey, Error, ErrorKind, KeyspaceId, Lasting, Result};
use cleavedb_storage::Reach;

use self::operands::{get_below_failed, get_merged};
use crate::background::memtables;
use crate::control::latency::Operation;
use crate::engine::Engine;
use crate::reads::search::{Found, Look, ReadFor, RecordRef, SearchKey, Step, UserKey, looking};
use crate::reads::value_reader::FoundValue;
use crate::store::dead::MANY;
use crate::store::snapshot::ReadPoint;
use crate::store::state::ReadState;

/// What [`crate::Keyspace::get_resident`] finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resident {
    /// The value, or that there is none.
    Found(Option<Bytes>),
    /// The answer may lie where a read waits for it: [`crate::Keyspace::get`] fetches it.
    Elsewhere,
}

/// Reads that version behind `pointer`, from within `reach`, and caches its record.
#[inline(always)]
fn read_record(
    engine: &Engine,
    state: &ReadState,
    key: SearchKey<'_>,
    RecordRef { pointer, seq }: RecordRef,
    reach: Reach,
) -> Result<Bytes> {
    let record = state.segments.record(reach, pointer, key.encoded, seq)?;
    if let Some(records) = &engine.records {
        records.insert(key.hash, seq, &record);
    }
    Ok(record.into_value())
}

/// The newest visible version of `key`, at or below `snapshot` if there is one.
pub(crate) fn get(
    engine: &Engine,
    key: UserKey<'_>,
    snapshot: Option<ReadPoint>,
) -> Result<Option<Bytes>> {
    Ok(get_lasting(engine, key, snapshot)?.map(|found| found.value))
}

/// As [`get`], without a wait for the device.
pub(crate) fn get_resident(
    engine: &Engine,
    key: UserKey<'_>,
    snapshot: Option<ReadPoint>,
) -> Result<Resident> {
    let Some(encoded_key) = key.encode() else { return Ok(Resident::Found(None)) };
    match get_encoded(engine, encoded_key.as_bytes(), snapshot, ReadFor::HastyCaller) {
        Err(e) if e.kind() == ErrorKind::WouldWait => Ok(Resident::Elsewhere),
        found => Ok(Resident::Found(found?.map(|found| found.value))),
    }
}

/// As [`get`], with the moment until which the value is there.
#[inline]
pub(crate) fn get_lasting(
    engine: &Engine,
    key: UserKey<'_>,
    snapshot: Option<ReadPoint>,
) -> Result<Option<Lasting<Bytes>>> {
    let Some(encoded_key) = key.encode() else { return Ok(None) };
    let _timer = engine.timer(Operation::Get);
    get_encoded(engine, encoded_key.as_bytes(), snapshot, ReadFor::Caller)
}

/// As [`get`]; below a merge that cannot be applied, if there is one.
pub(crate) fn get_below_failed_merge(engine: &Engine, key: UserKey<'_>) -> Result<Option<Bytes>> {
    let Some(encoded_key) = key.encode() else { return Ok(None) };
    match get(engine, key, None) {
        Err(e) if e.kind() == ErrorKind::Merge => {
            let found = get_below_failed(engine, SearchKey::new(encoded_key.as_bytes()))?;
            Ok(found.map(|found| found.value))
        }
        found => found,
    }
}

/// Whether `key` has a visible version, at or below `snapshot` if there is one. Only the value of a
/// hot key is read, since its record alone has the whole key.
pub(crate) fn contains(
    engine: &Engine,
    key: UserKey<'_>,
    snapshot: Option<ReadPoint>,
    read_for: ReadFor,
) -> Result<bool> {
    let Some(encoded_key) = key.encode() else { return Ok(false) };
    let key = SearchKey::new(encoded_key.as_bytes());
    looking(engine, snapshot, |look| {
        let found = look.find(key, read_for)?;
        Ok(found.map(|found| !matches!(found, Found::Absent)))
    })
}

/// As [`contains`], without a wait for the device; none where the answer would need one.
pub(crate) fn contains_resident(
    engine: &Engine,
    key: UserKey<'_>,
    snapshot: Option<ReadPoint>,
) -> Result<Option<bool>> {
    match contains(engine, key, snapshot, ReadFor::HastyCaller) {
        Err(e) if e.kind() == ErrorKind::WouldWait => Ok(None),
        found => found.map(Some),
    }
}

/// As [`get_lasting`], for a tree key.
#[inline(always)]
pub(crate) fn get_encoded(
    engine: &Engine,
    encoded_key: &[u8],
    snapshot: Option<ReadPoint>,
    read_for: ReadFor,
) -> Result<Option<Lasting<Bytes>>> {
    let key = SearchKey::new(encoded_key);
    let of_record = |state: &ReadState, record: RecordRef| match read_for {
        ReadFor::Engine => state.segments.read(record.pointer, encoded_key, record.seq),
        _ => read_record(engine, state, key, record, read_for.reach()),
    };
    read_with(engine, key, snapshot, read_for, |value| value, of_record)
}

/// The value of `key`, which is not read yet if it has a lone file.
pub(crate) fn find_value(
    engine: &Engine,
    key: UserKey<'_>,
    snapshot: Option<ReadPoint>,
) -> Result<Option<Lasting<FoundValue>>> {
    let Some(encoded_key) = key.encode() else { return Ok(None) };
    let _timer = engine.timer(Operation::Get);
    let key = SearchKey::new(encoded_key.as_bytes());
    let of_record = |state: &ReadState, record: RecordRef| match FoundValue::lone(
        &state.segments,
        record.pointer,
        key.encoded,
        record.seq,
    )? {
        Some(found) => Ok(found),
        None => read_record(engine, state, key, record, Reach::Device).map(FoundValue::Whole),
    };
    read_with(engine, key, snapshot, ReadFor::Caller, FoundValue::Whole, of_record)
}

/// The value of a tree key, as `of_value` takes it from the index or the hot store, or `of_record`
/// from its record.
#[inline]
fn read_with<T>(
    engine: &Engine,
    key: SearchKey<'_>,
    snapshot: Option<ReadPoint>,
    read_for: ReadFor,
    of_value: impl Fn(Bytes) -> T + Copy,
    of_record: impl Fn(&ReadState, RecordRef) -> Result<T>,
) -> Result<Option<Lasting<T>>> {
    looking(engine, snapshot, |look| {
        let Lasting { value: record, until } = match look.find(key, read_for)? {
            None => return Ok(None),
            Some(Found::Absent) => return Ok(Some(None)),
            Some(Found::Value(value)) => return Ok(Some(Some(value.map(of_value)))),
            Some(Found::Record(record)) => record,
            Some(Found::NeedsOlder) if read_for == ReadFor::HastyCaller => {
                return Err(Error::new(ErrorKind::WouldWait, "a merge reads what is below it"));
            }
            Some(Found::NeedsOlder) => {
                let merged = get_merged(engine, key, snapshot)?;
                return Ok(Some(merged.map(|value| value.map(of_value))));
            }
        };
        let read = |state: &ReadState| {
            // Only a value that stays becomes hot.
            if read_for != ReadFor::Engine && until.is_never() {
                look.found_cold(key, record.pointer.len as usize);
            }
            of_record(state, record)
        };
        match look.value(key, record, of_value, read) {
            Err(_) if planted(Bug::CorruptIsAbsent) => Ok(Some(None)),
            value => Ok(value?.map(|value| Some(Lasting { value, until }))),
        }
    })
}

/// The values of `keys` at `snapshot`, which the caller holds, in their order: blocks of the index
/// are prefetched in parallel first, then values outside of it.
pub(crate) fn multi_get<K: AsRef<[u8]>>(
    engine: &Engine,
    keyspace: KeyspaceId,
    keys: &[K],
    snapshot: ReadPoint,
) -> Vec<Result<Option<Bytes>>> {
    let _timer = engine.timer(Operation::MultiGet);
    // The read state of a snapshot has every file that entries of the snapshot name.
    let look = Look::new(engine, Some(snapshot));
    let value_of = |(encoded_key, hash, found): KeyFound| match found {
        Some(Found::Absent) => Ok(None),
        Some(Found::Value(found)) => Ok(Some(found.value)),
        Some(Found::Record(record)) => {
            let key = SearchKey { encoded: encoded_key.as_bytes(), hash };
            read_record(engine, &look.state, key, record.value, Reach::Device).map(Some)
        }
        None | Some(Found::NeedsOlder) => {
            let found =
                get_encoded(engine, encoded_key.as_bytes(), Some(snapshot), ReadFor::Engine)?;
            Ok(found.map(|found| found.value))
        }
    };
    let found = find_all(&look, keyspace, keys, snapshot);
    found.into_iter().map(|found| found.and_then(value_of)).collect()
}

/// Begins to fetch what `keys` have at `snapshot`, which the caller holds: blocks of the index are
/// waited for, values outside of it are not. Errors are met when a value is read.
pub(crate) fn prefetch<K: AsRef<[u8]>>(
    engine: &Engine,
    keyspace: KeyspaceId,
    keys: &[K],
    snapshot: ReadPoint,
) {
    find_all(&Look::new(engine, Some(snapshot)), keyspace, keys, snapshot);
}

/// A key with its hash, and where its value was found.
type KeyFound = (EncodedKey, u64, Option<Found>);

/// Finds where the values of `keys` are, and begins to fetch those that are outside of the index.
fn find_all<K: AsRef<[u8]>>(
    look: &Look<'_>,
    keyspace: KeyspaceId,
    keys: &[K],
    snapshot: ReadPoint,
) -> Vec<Result<KeyFound>> {
    let begin = |key: &K| {
        let Some(encoded_key) = UserKey::new(keyspace, key).encode() else {
            return Ok((EncodedKey::new(keyspace, b""), 0, Step::Made(Some(Found::Absent))));
        };
        let key = SearchKey::new(encoded_key.as_bytes());
        let (hash, step) = (key.hash, look.find_in_memory(key, ReadFor::Caller)?);
        if matches!(step, Step::Nothing) && keys.len() > 1 {
            look.state.version.expect(key.encoded, hash, snapshot.seq);
        }
        Ok((encoded_key, hash, step))
    };
    let find_one = |(encoded_key, hash, step): (EncodedKey, u64, Step<Option<Found>>)| {
        let key = SearchKey { encoded: encoded_key.as_bytes(), hash };
        let mut found = match step {
            Step::Made(found) => found,
            Step::Moving => None,
            Step::Nothing => look.find_in_tables(key, ReadFor::Caller)?,
        };
        if let Some(Found::Record(record)) = found {
            match look.cached(key, record.value.seq) {
                Some(value) => found = Some(Found::Value(record.map(|_| value))),
                None => look.state.segments.will_need(record.value.pointer),
            }
        }
        Ok((encoded_key, hash, found))
    };
    let begun: Vec<Result<_>> = keys.iter().map(begin).collect();
    begun.into_iter().map(|begun| begun.and_then(find_one)).collect()
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
