//! Damage to hot segments: an open succeeds, what is lost is `Corruption`, no old value returns.
//!
//! Three segments, each of a flush: all keys, then the middle ones again, then the first ones, with
//! a stub of the last key, which is deleted.

use std::ops::Range;

use cleavedb::{Db, ErrorKind};
use cleavedb_base::limits::BLOCK;
use cleavedb_base::record::{FileIdentity, HEADER_LEN, Header, RecordKind};
use cleavedb_storage::{FileKind, Name};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::Image;

use crate::endless::opened;
use crate::read::Checked;
use crate::setup::Setup;

/// Keys, those written by the second flush, and by the third.
const KEYS: u8 = 30;
const MIDDLE: Range<u8> = 10..20;
const FIRST: Range<u8> = 0..5;
const DELETED: u8 = KEYS - 1;

/// A key whose value is in the index.
const SHORT: &[u8] = b"short";

/// A part of the second segment, or of the whole store, that is damaged.
#[derive(Clone, Copy, Debug)]
pub enum Damage {
    /// The key block of each segment.
    KeyBlocks,
    /// The key block, and the value of a record.
    Value,
    /// The key block, and the header of the first record.
    Header,
    /// The key blocks of the second and the third segment are exchanged.
    Swapped,
    /// The key of one record, in itself and in the key block.
    Key,
    /// Everything.
    Whole,
    /// The whole third segment.
    Youngest,
}

impl Damage {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::KeyBlocks,
        Self::Value,
        Self::Header,
        Self::Swapped,
        Self::Key,
        Self::Whole,
        Self::Youngest,
    ];

    /// Whether a key may be, and then is, `Corruption`.
    fn loses(self, i: u8) -> bool {
        match self {
            Self::KeyBlocks | Self::Swapped => false,
            Self::Header => i == MIDDLE.start,
            Self::Value => i == MIDDLE.start + 5,
            // Records before it in its segment are known.
            Self::Key => !FIRST.contains(&i) && !(MIDDLE.start..MIDDLE.start + 5).contains(&i),
            Self::Whole => !FIRST.contains(&i),
            Self::Youngest => true,
        }
    }

    /// Whether the open cannot tell which keys a segment has.
    fn hides_keys(self) -> bool {
        matches!(self, Self::Key | Self::Whole | Self::Youngest)
    }

    fn apply(self, image: &mut Image, segments: &[HotSegment]) {
        let [_, second, third] = segments else { unreachable!("there are three segments") };
        let fifth = second.records[5];
        match self {
            Self::KeyBlocks => segments.iter().for_each(|it| it.flip(image, it.end - 1)),
            Self::Value => second.flip_all(image, &[second.end - 1, fifth + 500]),
            Self::Header => second.flip_all(image, &[second.end - 1, second.records[0] + 8]),
            Self::Swapped => {
                let [one, other] = [second, third].map(|it| it.key_block_bytes(image));
                let len = one.len().min(other.len());
                second.write(image, &other[..len]);
                third.write(image, &one[..len]);
            }
            Self::Key => {
                // One byte of the key here, and the other one there: equal copies are believed.
                let listed = HEADER_LEN + 5 * (HEADER_LEN + key(0).len()) + HEADER_LEN + 1;
                let at = [fifth + HEADER_LEN as u64, second.key_block + listed as u64];
                second.flip_all(image, &at);
            }
            Self::Whole => second.flip_every_block(image),
            Self::Youngest => third.flip_every_block(image),
        }
    }
}

/// Where a hot segment lies.
struct HotSegment {
    name: Name,
    records: Vec<u64>,
    key_block: u64,
    end: u64,
}

impl HotSegment {
    /// The hot segments of an image whose groups are empty, oldest first: each is a file.
    fn all(image: &Image) -> Checked<Vec<Self>> {
        let groups = image.list().into_iter().filter(|(name, _)| name.kind() == FileKind::Group);
        groups.map(|(name, _)| Self::in_file(image, name)).collect()
    }

    fn in_file(image: &Image, name: Name) -> Checked<Self> {
        let identity = FileIdentity::new(7, name.number());
        let bytes = image.read(&name).unwrap_or_default();
        let (mut records, mut offset) = (Vec::new(), BLOCK as u64);
        loop {
            let header = Header::decode(&bytes[offset as usize..], identity, offset);
            let header = header.ok_or_else(|| format!("no record at {offset} of {name}"))?;
            let end = offset + header.record_len() as u64;
            if header.kind == RecordKind::KeyBlock {
                return Ok(Self { name, records, key_block: offset, end });
            }
            records.push(offset);
            offset = end;
        }
    }

    fn flip(&self, image: &mut Image, at: u64) {
        image.flip_bit(&self.name, at * 8);
    }

    fn flip_all(&self, image: &mut Image, places: &[u64]) {
        places.iter().for_each(|at| self.flip(image, *at));
    }

    fn flip_every_block(&self, image: &mut Image) {
        (self.records[0]..self.end).step_by(16).for_each(|at| self.flip(image, at));
    }

    fn key_block_bytes(&self, image: &Image) -> Vec<u8> {
        let bytes = image.read(&self.name).unwrap_or_default();
        bytes[self.key_block as usize..self.end as usize].to_vec()
    }

    fn write(&self, image: &mut Image, key_block: &[u8]) {
        let mut bytes = image.read(&self.name).unwrap_or_default();
        bytes[self.key_block as usize..][..key_block.len()].copy_from_slice(key_block);
        image.write(self.name, &bytes);
    }
}

fn key(i: u8) -> Vec<u8> {
    vec![b'k', i]
}

fn value(i: u8, round: u8) -> Vec<u8> {
    vec![i ^ round << 5; 1000]
}

/// The round in which a key was written last.
fn round(i: u8) -> u8 {
    2 + u8::from(MIDDLE.contains(&i)) + 2 * u8::from(FIRST.contains(&i))
}

/// The setup, in which no segment leaves.
fn setup() -> Setup {
    let mut setup = Setup::hot(true);
    setup.options.hot_bytes = 1 << 20;
    // Each round is one flush.
    (setup.options.tuning.memtable_bytes, setup.options.tuning.memtable_log_bytes) =
        (Some(1 << 20), 256 << 10);
    setup
}

/// The store, closed.
fn store(setup: &Setup) -> Checked<Image> {
    let sim = Sim::new();
    let db = opened(&sim, &setup.options)?;
    let write = || {
        db.put(SHORT, b"value")?;
        for (keys, round) in [(0..KEYS, 2), (MIDDLE, 3), (FIRST, 4)] {
            // The first write of a key does not heat it.
            let twice = keys.clone().chain(keys);
            twice.into_iter().try_for_each(|i| db.put(key(i), value(i, round)))?;
            if round == 4 {
                db.delete(key(DELETED))?;
            }
            db.flush()?;
        }
        db.close()
    };
    write().map_err(|e| e.to_string())?;
    Ok(sim.image())
}

/// Checks every key: `lost` ones are `Corruption` that names a place, `written` ones have the value
/// of round 6, and the others have the newest of before.
fn examine(db: &Db, lost: impl Fn(u8) -> bool, written: impl Fn(u8) -> bool) -> Checked<()> {
    for i in 0..KEYS {
        let expected = match i {
            _ if written(i) => Some(value(i, 6)),
            DELETED => None,
            _ => Some(value(i, round(i))),
        };
        match db.get(key(i)) {
            Ok(found) if found.as_deref() != expected.as_deref() => {
                return Err(format!("record {i} is wrong"));
            }
            Ok(_) if i != DELETED && lost(i) && !written(i) => {
                return Err(format!("record {i} is not lost"));
            }
            Ok(_) => {}
            Err(e) if !lost(i) || written(i) => return Err(format!("record {i}: {e}")),
            Err(e) if e.kind() != ErrorKind::Corruption => return Err(format!("record {i}: {e}")),
            Err(e) if e.fact("file").is_none() || e.fact("offset").is_none() => {
                return Err(format!("record {i}: no place is named: {e}"));
            }
            Err(_) => {}
        }
    }
    let short = db.get(SHORT).map_err(|e| e.to_string())?;
    if short.as_deref() != Some(b"value") {
        return Err("the key in the index is wrong".to_string());
    }
    let failed = db.range(..).filter(Result::is_err).count();
    let any_lost = (0..KEYS).any(|i| i != DELETED && lost(i) && !written(i));
    if (failed > 0) != any_lost {
        return Err(format!("a scan met {failed} errors"));
    }
    Ok(())
}

/// A store with this damage: checks that no old value is returned, that other keys than the lost
/// ones are read, and that writes go on and bring lost keys back, for later opens too, also if the
/// damage is undone.
pub fn damaged_hot_segments_lose_no_other_key(damage: Damage) -> Checked<()> {
    let told = |e: cleavedb::Error| e.to_string();
    let setup = setup();
    let sound = store(&setup)?;
    let segments = HotSegment::all(&sound)?;
    if segments.len() != 3 {
        return Err(format!("{} hot segments", segments.len()));
    }
    let mut image = sound.clone();
    damage.apply(&mut image, &segments);
    let sim = Sim::from_image(image);
    let db = opened(&sim, &setup.options)?;
    let lost = |i| damage.loses(i);
    examine(&db, lost, |_| false)?;
    let report = db.verify().map_err(told)?;
    if report.problems.is_empty() {
        return Err("the check finds no damage".to_string());
    }
    if damage.hides_keys() == db.metrics().damaged.is_empty() {
        return Err(format!("{:?} is reported as damaged", db.metrics().damaged));
    }
    let first = |i: u8| i.is_multiple_of(2);
    let write = |i| db.put(key(i), value(i, 6));
    (0..KEYS).filter(|i| first(*i)).try_for_each(write).map_err(told)?;
    db.flush().map_err(told)?;
    examine(&db, lost, first).map_err(|e| format!("after writes: {e}"))?;
    // Of the first ones some become hot again. The others stay cold, since nothing reads them.
    let written = |i: u8| first(i) || i.is_multiple_of(3);
    let second = |i: &u8| written(*i) && (!first(*i) || i.is_multiple_of(4));
    (0..KEYS).filter(second).try_for_each(write).map_err(told)?;
    db.flush().map_err(told)?;
    let failed = (0..100).find(|_| matches!(db.step(), Ok(false)));
    failed.ok_or("100 jobs ran or failed")?;
    db.close().map_err(told)?;
    let mut image = sim.image();
    let db = opened(&Sim::from_image(image.clone()), &setup.options)?;
    examine(&db, lost, written).map_err(|e| format!("after another open: {e}"))?;
    drop(db);
    for HotSegment { name, .. } in &segments {
        image.write(*name, &sound.read(name).unwrap_or_default());
    }
    let db = opened(&Sim::from_image(image), &setup.options)?;
    examine(&db, |_| false, written).map_err(|e| format!("the damage undone: {e}"))
}

/// All kinds of damage.
pub fn damaged_hot_segments() -> Checked<()> {
    Damage::ALL.into_iter().try_for_each(|damage| {
        let checked = damaged_hot_segments_lose_no_other_key(damage);
        checked.map_err(|e| format!("{damage:?}: {e}"))
    })
}
