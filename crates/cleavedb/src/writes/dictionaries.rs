//! Dictionaries of keyspaces whose values are compressed with one: found in the keyspace's own
//! values, and stored as records of the system keyspace (decision 0052).
//!
//! A dictionary is committed before a value that names it: the log is one sequence, so each prefix
//! of it that survives has the dictionaries of its values. It goes with its keyspace, and is never
//! replaced: values that are stored keep theirs. While changes are kept their values may name it
//! after the drop, so it stays then, as one of no keyspace, until the last of them has gone.

use std::num::NonZeroU32;
use std::sync::Arc;

use cleavedb_base::limits::{KEYSPACE_PREFIX_LEN, SEQ_MAX};
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::Header;
use cleavedb_base::{Error, KeyspaceId, Result, SeqNo};
use cleavedb_index::{MergeIter, ReadMode, Version, VisibleIter};
use cleavedb_values::compression::{self, DICTIONARY_FOR};
use cleavedb_values::{Dictionaries, Dictionary};

use crate::engine::Engine;
use crate::operations::batch::Op;
use crate::operations::bounds::{Bounds, Prefix};
use crate::operations::catalog::{Catalog, CatalogEntry, DICTIONARIES};
use crate::operations::encoded_op::EncodedOp;
use crate::operations::ops::Ops;
use crate::reads::read;
use crate::reads::search::ReadFor;
use crate::settings::options::Durability;
use crate::writes::write::{self, Terms};

/// Bytes of values that a dictionary is made of, and the least that are enough.
const SAMPLE: usize = 2 << 20;
const SAMPLE_MIN: usize = 512 << 10;

/// Places of the keyspace at which values are looked for.
const PLACES: u64 = 128;

/// The key, in the system keyspace, of a dictionary.
pub(crate) fn key(number: NonZeroU32) -> Vec<u8> {
    [&[DICTIONARIES][..], &number.get().to_be_bytes()].concat()
}

/// The tree keys of all dictionaries.
pub(crate) fn all() -> Bounds {
    Bounds::of(KeyspaceId::SYSTEM, &Prefix([DICTIONARIES]))
}

/// What is stored of a dictionary of a keyspace.
fn encode(keyspace: KeyspaceId, dictionary: &Dictionary) -> Vec<u8> {
    [&keyspace.0.to_le_bytes()[..], dictionary.bytes()].concat()
}

/// Reads a dictionary and the keyspace that it belongs to.
pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<(KeyspaceId, Dictionary)> {
    let bad = || Error::corruption("the record of a dictionary cannot be decoded");
    let number = key.strip_prefix(&[DICTIONARIES]).and_then(|number| number.try_into().ok());
    let number = number.map(u32::from_be_bytes).ok_or_else(bad)?;
    let (keyspace, bytes) = value.split_first_chunk().ok_or_else(bad)?;
    let dictionary = Dictionary::parse(bytes.to_vec())?;
    if dictionary.number().get() != number {
        return Err(bad().with("dictionary", number));
    }
    Ok((KeyspaceId(u16::from_le_bytes(*keyspace)), dictionary))
}

/// A dictionary whose keyspace is dropped.
pub(crate) struct Dropped {
    number: NonZeroU32,
    key: Vec<u8>,
    /// What stays of it; none if no changes are kept.
    stored: Option<Vec<u8>>,
}

impl Dropped {
    /// What the drop writes of it.
    pub(crate) fn op(&self) -> Op<'_> {
        match &self.stored {
            Some(stored) => Op::put(&self.key, stored),
            None => Op::delete(&self.key),
        }
    }
}

/// The dictionaries of `keyspace`, which is being dropped.
pub(crate) fn dropped(engine: &Engine, keyspace: &CatalogEntry) -> Vec<Dropped> {
    let stays = engine.first_told().is_some() && !planted(Bug::ToldDictionaryDropped);
    let of = |it: &Arc<Dictionary>| {
        let stored = stays.then(|| encode(KeyspaceId::SYSTEM, it));
        Dropped { number: it.number(), key: key(it.number()), stored }
    };
    match planted(Bug::DictionaryKeptByDrop) {
        true => Vec::new(),
        false => keyspace.compressor.dictionaries().iter().map(of).collect(),
    }
}

/// Notes dictionaries of a dropped keyspace. Dictionaries of earlier drops go that no change names
/// any more.
pub(crate) fn are_dropped(engine: &Engine, dropped: &[Dropped]) {
    let upto = engine.commit.visible();
    let stored = dropped.iter().filter(|it| it.stored.is_some()).map(|it| (it.number, upto));
    engine.catalog.dictionaries.outliving.lock().extend(stored);
    // What fails is tried again at the next drop, and at the close.
    let _ = forget(engine);
}

/// Deletes the dictionaries of dropped keyspaces that no change names any more. Returns whether
/// there were some.
pub(crate) fn forget(engine: &Engine) -> Result<bool> {
    let first = engine.first_told().unwrap_or(SEQ_MAX);
    let mut dropped = engine.catalog.dictionaries.outliving.lock();
    let (gone, kept): (Vec<_>, _) = dropped.drain(..).partition(|(_, seq)| *seq < first);
    *dropped = kept;
    drop(dropped);
    if gone.is_empty() {
        return Ok(false);
    }
    let keys: Vec<_> = gone.iter().map(|(number, _)| key(*number)).collect();
    let ops: Vec<_> = keys.iter().map(|k| EncodedOp::of_system(Op::delete(k), true)).collect();
    let bytes = keys.iter().map(|key| key.len() as u64).sum();
    let written =
        write::write(engine, Ops::Few(&ops), bytes, Durability::Buffered, Terms::default());
    if written.is_err() {
        engine.catalog.dictionaries.outliving.lock().extend(gone);
    }
    written.map(|_| true)
}

/// Values of files that no open database reads, and the dictionaries that were met there.
#[derive(Clone, Default)]
pub(crate) struct StoredValues(Dictionaries);

impl StoredValues {
    /// Looks at a record of the system keyspace, for the values that may follow it.
    pub(crate) fn note(&self, key: &[u8], value: &[u8]) -> Result<()> {
        if key.first() == Some(&DICTIONARIES) {
            self.0.add(Arc::new(decode(key, value)?.1));
        }
        Ok(())
    }

    /// Looks at the records that tables have.
    pub(crate) fn note_all(&self, version: &Version) -> Result<()> {
        let Bounds { lower, upper, .. } = all();
        let sources = version.iters(Some(&lower), Some(&upper), ReadMode::Cached);
        let merged = MergeIter::new(sources);
        let mut records = VisibleIter::new(merged, SEQ_MAX, Some(lower), Some(upper));
        records.seek_first()?;
        while records.valid() {
            let key = records.key().get(KEYSPACE_PREFIX_LEN..).unwrap_or_default();
            self.note(key, records.value())?;
            records.next()?;
        }
        Ok(())
    }

    /// As [`compression::whole`].
    pub(crate) fn whole(&self, header: &Header, stored: &[u8]) -> Result<Option<Vec<u8>>> {
        compression::whole(header, stored, &self.0)
    }
}

/// At an open: these are stored, each with its keyspace and the number of its record, in the order
/// of their own numbers. A keyspace uses its last.
pub(crate) fn found(catalog: &Catalog, stored: Vec<(KeyspaceId, Dictionary, SeqNo)>) {
    let keyspaces = catalog.entries();
    for (id, dictionary, seq) in stored {
        let (number, dictionary) = (dictionary.number(), Arc::new(dictionary));
        if id == KeyspaceId::SYSTEM {
            catalog.dictionaries.outliving.lock().push((number, seq));
        }
        if !planted(Bug::DictionaryNumberReused) {
            catalog.dictionaries.found(number);
        }
        catalog.dictionaries.all.add(dictionary.clone());
        if let Some(keyspace) = keyspaces.iter().find(|keyspace| keyspace.id == id) {
            keyspace.compressor.add_dictionary(&dictionary);
        }
    }
}

/// Makes dictionaries for the keyspaces that are due, in the thread of a writer, whose commit is
/// done: what fails here is tried again later.
#[inline]
pub(crate) fn make_due(engine: &Engine) {
    if engine.catalog.dictionaries.compressors.takes_due() {
        make_all_due(engine);
    }
}

#[cold]
fn make_all_due(engine: &Engine) {
    for keyspace in engine.catalog.entries() {
        if keyspace.compressor.is_due() {
            let _ = make(engine, &keyspace);
        }
    }
}

/// Makes a dictionary of values of `keyspace`, and uses it for those that follow. Returns whether
/// there were enough values that are alike. Does nothing while another thread makes one.
pub(crate) fn make(engine: &Engine, keyspace: &Arc<CatalogEntry>) -> Result<bool> {
    make_of(engine, keyspace, || samples(engine, keyspace))
}

/// As [`make`], of these samples.
pub(crate) fn make_of(
    engine: &Engine,
    keyspace: &Arc<CatalogEntry>,
    samples: impl FnOnce() -> Result<Samples>,
) -> Result<bool> {
    let Some(mut last) = engine.catalog.dictionaries.making() else { return Ok(false) };
    keyspace.compressor.looked();
    let Samples { bytes, lens } = samples()?;
    if bytes.len() < SAMPLE_MIN {
        return Ok(false);
    }
    let number = NonZeroU32::MIN.saturating_add(*last);
    let Some(dictionary) = Dictionary::train(number, &bytes, &lens) else { return Ok(false) };
    let (key, stored) = (key(number), encode(keyspace.id, &dictionary));
    // Used up, whatever becomes of the commit.
    *last = number.get();
    let op = Op::put(&key, &stored);
    let ops = [EncodedOp::of_system(op, false)];
    let named = keyspace.id != KeyspaceId::DEFAULT;
    let keyspaces = if named { std::slice::from_ref(keyspace) } else { &[] };
    let terms = Terms { keyspaces, ..Terms::default() };
    // Every value that names it follows in the log: what makes that durable makes this durable.
    if !planted(Bug::DictionaryNotStored) {
        write::write(engine, Ops::Few(&ops), op.len(), Durability::Buffered, terms)?;
    }
    let dictionary = Arc::new(dictionary);
    engine.catalog.dictionaries.all.add(dictionary.clone());
    keyspace.compressor.add_dictionary(&dictionary);
    Ok(true)
}

/// Values, one behind the other, and their lengths.
#[derive(Default)]
pub(crate) struct Samples {
    bytes: Vec<u8>,
    lens: Vec<usize>,
}

impl Samples {
    /// Adds a value of `keyspace`, if it is one of those that a dictionary is for.
    pub(crate) fn add(&mut self, keyspace: &CatalogEntry, value: &[u8]) {
        let fits = (keyspace.separated_from..=DICTIONARY_FOR).contains(&value.len());
        if fits && !value.is_empty() {
            self.bytes.extend_from_slice(value);
            self.lens.push(value.len());
        }
    }

    /// Whether there are as many as a dictionary is made of.
    pub(crate) fn are_all(&self) -> bool {
        self.bytes.len() >= SAMPLE
    }
}

/// Values of a keyspace that leave the index: some at each of many places, or else the first ones.
fn samples(engine: &Engine, keyspace: &CatalogEntry) -> Result<Samples> {
    let state = engine.state.load_full();
    let Bounds { lower, upper, .. } = Bounds::of(keyspace.id, &..);
    let mut sources = state.version.iters(Some(&lower), Some(&upper), ReadMode::Cached);
    state.memtables.iter().for_each(|slot| sources.extend(slot.table.iters()));
    let merged = MergeIter::new(sources);
    let upto = engine.commit.visible();
    let mut entries = VisibleIter::new(merged, upto, Some(lower), Some(upper));
    entries.seek_last()?;
    if !entries.valid() {
        return Ok(Samples::default());
    }
    let last = entries.key().to_vec();
    entries.seek_first()?;
    let first = if entries.valid() { entries.key().to_vec() } else { last.clone() };
    let mut samples = Samples::default();
    let mut behind = Vec::new();
    for place in between(&first, &last) {
        if place > behind {
            entries.seek(&place)?;
            let until = samples.bytes.len() + SAMPLE / PLACES as usize;
            add(engine, keyspace, &mut entries, until, &mut samples)?;
            behind = if entries.valid() { entries.key().to_vec() } else { last.clone() };
        }
    }
    if samples.bytes.len() < SAMPLE_MIN {
        samples = Samples::default();
        entries.seek_first()?;
        add(engine, keyspace, &mut entries, SAMPLE, &mut samples)?;
    }
    Ok(samples)
}

/// Adds values from where `entries` is, until there are as many bytes.
fn add(
    engine: &Engine,
    keyspace: &CatalogEntry,
    entries: &mut VisibleIter,
    until: usize,
    samples: &mut Samples,
) -> Result<()> {
    while entries.valid() && samples.bytes.len() < until {
        if let Some(found) = read::get_encoded(engine, entries.key(), None, ReadFor::Engine)? {
            samples.add(keyspace, &found.value);
        }
        entries.next()?;
    }
    Ok(())
}

/// Tree keys at even distances from `first` to `last`, by the eight bytes behind what these share.
fn between(first: &[u8], last: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let shared = shared.max(KEYSPACE_PREFIX_LEN).min(first.len());
    let number = |key: &[u8]| {
        let mut bytes = [0; 8];
        let rest = key.get(shared..).unwrap_or_default();
        let len = rest.len().min(8);
        bytes[..len].copy_from_slice(&rest[..len]);
        u64::from_be_bytes(bytes)
    };
    let (low, high) = (number(first), number(last));
    let prefix = first[..shared].to_vec();
    (0..PLACES).map(move |place| {
        let part = u128::from(high.saturating_sub(low)) * u128::from(place) / u128::from(PLACES);
        [&prefix[..], &(low + part as u64).to_be_bytes()].concat()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lie_between_the_first_key_and_the_last() {
        for (first, last) in
            [("\0\0a", "\0\0z"), ("\0\0key 1", "\0\0key 1"), ("\0\0", "\0\0\u{7f}")]
        {
            let places: Vec<_> = between(first.as_bytes(), last.as_bytes()).collect();
            assert_eq!(places.len() as u64, PLACES);
            assert!(
                places.is_sorted() && *places[PLACES as usize - 1] <= *last.as_bytes()
                    || first == last
            );
        }
    }
}
