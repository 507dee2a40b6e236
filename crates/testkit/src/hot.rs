//! The matrix of the hot store: every state of a key, what is done to it, and the snapshots around.
//!
//! A key is absent, in the index, separated, hot, or was hot; it is written, deleted, or left alone
//! while its segment is evacuated. Each case also runs with a store that is too small, so that keys
//! leave it; it is followed by a reopening, after which the store must be as it was.

use cleavedb::{Background, Db, Durability, Error, Options, Preset};
use cleavedb_storage::FileKind;
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::Rng;

use crate::disks::Disks;
use crate::endless::opened;
use crate::op::{Op, Scan, Write};
use crate::read::Checked;
use crate::session::Session;
use crate::setup::Setup;
use crate::state::State;

/// The key that a case is about, and others around it.
const KEY: &[u8] = b"m";
const OTHERS: [u8; 6] = [b'a', b'c', b'k', b'p', b'u', b'z'];

/// Length of a value that is separated, of one that is not, and of one that is too short to be hot.
const LONG: usize = 1000;
const SHORT: usize = 100;
const TINY: usize = 20;

/// What has been done to the key.
#[derive(Clone, Copy, Debug)]
enum Before {
    Absent,
    Inline,
    Separated,
    Hot,
    HotShort,
    Overwritten,
    Deleted,
    Demoted,
    DemotedShort,
}

/// What is done to it.
#[derive(Clone, Copy, Debug)]
enum Then {
    PutLong,
    PutShort,
    PutTiny,
    Delete,
    Batch,
    Compact,
    Collect,
    Evacuate,
}

/// When a snapshot is taken.
#[derive(Clone, Copy, Debug)]
enum Held {
    None,
    First,
    Before,
    Between,
}

fn put(key: &[u8], len: usize, salt: u8) -> Op {
    Op::Write(vec![Write::put(key, vec![salt; len])], Durability::Os)
}

/// Makes the key hot: it is written, flushed, and written again, until it has been accessed often.
fn heated(len: usize, salt: u8) -> Vec<Op> {
    let twice = |salt| [put(KEY, len, salt), put(KEY, len, salt + 1), Op::Flush];
    [twice(salt), twice(salt + 2)].concat()
}

/// Makes other keys so hot that segments leave.
fn evacuated(salt: u8) -> Vec<Op> {
    let mut ops = Vec::new();
    for round in 0..4 {
        for key in OTHERS {
            ops.extend((0..3).map(|i| put(&[key], 3 * LONG, salt ^ round ^ key ^ i)));
        }
        ops.push(Op::Flush);
    }
    ops
}

impl Before {
    const ALL: [Self; 9] = [
        Self::Absent,
        Self::Inline,
        Self::Separated,
        Self::Hot,
        Self::HotShort,
        Self::Overwritten,
        Self::Deleted,
        Self::Demoted,
        Self::DemotedShort,
    ];

    fn ops(self) -> Vec<Op> {
        let delete = Op::Write(vec![Write::delete(KEY)], Durability::Os);
        match self {
            Self::Absent => Vec::new(),
            Self::Inline => vec![put(KEY, TINY, 1), Op::Flush],
            Self::Separated => vec![put(KEY, LONG, 2), Op::Flush],
            Self::Hot => heated(LONG, 3),
            Self::HotShort => heated(SHORT, 3),
            Self::Overwritten => [heated(LONG, 3), vec![put(KEY, TINY, 9), Op::Flush]].concat(),
            Self::Deleted => [heated(LONG, 3), vec![delete, Op::Flush]].concat(),
            Self::Demoted => [heated(LONG, 3), evacuated(40)].concat(),
            Self::DemotedShort => [heated(SHORT, 3), evacuated(40)].concat(),
        }
    }
}

impl Then {
    const ALL: [Self; 8] = [
        Self::PutLong,
        Self::PutShort,
        Self::PutTiny,
        Self::Delete,
        Self::Batch,
        Self::Compact,
        Self::Collect,
        Self::Evacuate,
    ];

    fn ops(self) -> Vec<Op> {
        let flushed = |op| vec![op, Op::Flush];
        match self {
            Self::PutLong => flushed(put(KEY, LONG, 20)),
            Self::PutShort => flushed(put(KEY, SHORT, 21)),
            Self::PutTiny => flushed(put(KEY, TINY, 23)),
            Self::Delete => flushed(Op::Write(vec![Write::delete(KEY)], Durability::Os)),
            Self::Batch => {
                let writes = [KEY, b"a", b"never hot"];
                let writes = writes.map(|key| Write::put(key, vec![22; LONG])).to_vec();
                flushed(Op::Write(writes, Durability::Os))
            }
            Self::Compact => vec![Op::Compact],
            Self::Collect => vec![Op::Collect],
            Self::Evacuate => evacuated(80),
        }
    }
}

fn looks() -> Vec<Op> {
    let scans = [Scan::Forward, Scan::Backward, Scan::Both(0b0110)];
    let ranges = scans.map(|scan| Op::Range(None, None, scan)).to_vec();
    let gets = vec![Op::Get(KEY.to_vec()), Op::MultiGet(vec![KEY.to_vec(), b"a".to_vec()])];
    [gets, ranges].concat()
}

/// One case of the matrix: all its operations.
fn case(before: Before, then: Then, held: Held) -> Vec<Op> {
    let snapshot = |at| if at { vec![Op::Snapshot] } else { Vec::new() };
    let read = Op::ReadSnapshot(0, KEY.to_vec());
    let seen = if matches!(held, Held::None) { Vec::new() } else { vec![read] };
    [
        evacuated(0),
        snapshot(matches!(held, Held::First)),
        before.ops(),
        snapshot(matches!(held, Held::Before)),
        // Reads leave the key to the next flush, if it is not hot.
        looks(),
        looks(),
        then.ops(),
        seen.clone(),
        looks(),
        snapshot(matches!(held, Held::Between)),
        heated(LONG, 90),
        then.ops(),
        seen.clone(),
        vec![Op::Compact],
        seen,
        looks(),
        vec![Op::Verify, Op::Kill],
        looks(),
        vec![Op::Verify, Op::Compact, Op::Collect],
        evacuated(120),
        looks(),
        vec![Op::Verify, Op::Reopen, Op::Verify],
    ]
    .concat()
}

/// A store with damaged values in its hot segments: checks that writes go on, although these
/// segments cannot be evacuated, and that no other value is wrong. Returns whether a flush met the
/// damage, and reported it.
pub fn damaged_hot_values_stop_no_writer(seed: u64) -> Checked<bool> {
    let mut options = Setup::hot(true).options;
    // Short ones are dead as a whole before a flush meets their damage.
    options.tuning.groups.hot_segment_bytes = 2 << 20;
    let sim = Sim::new();
    let db = opened(&sim, &options)?;
    let told = |e: Error| e.to_string();
    let key = |i: u8| vec![b'k', i];
    let write = |db: &Db, round: u8| (0..40).try_for_each(|i| db.put(key(i), [round ^ i; 1000]));
    (0..3).try_for_each(|round| write(&db, round).and_then(|()| db.flush())).map_err(told)?;
    db.close().map_err(told)?;
    let mut image = sim.image();
    for (name, len) in image.list().into_iter().filter(|(name, _)| name.kind() == FileKind::Group) {
        // Within values, and neither in headers nor in key blocks: those would fail the open.
        let bytes = image.read(&name).unwrap_or_default();
        let value = |at: u64| {
            let mut rest = bytes[at as usize..].iter().take(600);
            rest.all(|byte| *byte == bytes[at as usize])
        };
        let within = |at: &u64| at + 600 < len && bytes[*at as usize] > 0 && value(*at);
        let places = (4096 + seed..len).step_by(2500).filter(within);
        places.for_each(|at| image.flip_bit(&name, (at + 300) * 8));
    }
    let db = opened(&Sim::from_image(image), &options)?;
    for round in 3..9 {
        write(&db, round).map_err(|e| format!("round {round}: {e}"))?;
        let failed = (0..100).find(|_| matches!(db.step(), Ok(false)));
        failed.ok_or("100 jobs ran or failed")?;
    }
    let reported = !db.metrics().damaged.is_empty();
    for i in 0..40 {
        let found = db.get(key(i)).map_err(told)?;
        if found.as_deref() != Some(&[8 ^ i; 1000]) {
            return Err(format!("record {i} is wrong"));
        }
    }
    Ok(reported)
}

/// Keys that are read often become hot with the next flush, one of them with a newer version that
/// the same flush writes.
pub fn promotions_follow_reads(seed: u64) -> Checked<()> {
    let mut setup = Setup::hot(true);
    setup.options.tuning.groups.heat_limit = Some(3);
    let (read, written): (&[u8], &[u8]) = (b"read", b"written");
    let gets = [Op::Get(read.to_vec()), Op::Get(written.to_vec())];
    let mut session = Session::on(Disks::forgetful(&setup), &setup, State::default())?;
    let first = [put(read, LONG, 1), put(written, LONG, 2), put(b"other", LONG, 3), Op::Flush];
    let gets = [gets.clone(), gets.clone(), gets.clone()].concat();
    let second = [put(written, LONG + seed as usize, 4), put(b"other", LONG, 5), Op::Flush];
    for op in first.iter().chain(&gets).chain(&second).chain(&gets) {
        session.run(op)?;
    }
    let stats = session.db().metrics().hot.ok_or("no hot store")?.stats;
    if (stats.promoted, stats.admitted) != (1, 1) {
        return Err(format!("{stats:?}"));
    }
    for op in [Op::Verify, Op::Compact, Op::Verify, Op::Kill, Op::Verify].iter().chain(&gets) {
        session.run(op)?;
    }
    session.compare_all()?;
    session.leave(true)
}

/// Writes, updates and deletes of a few keys, with flushes; a snapshot in the middle, if wanted.
pub fn churned(rng: &mut Rng, snapshot: bool) -> Vec<Op> {
    let mut ops = Vec::new();
    for round in 0..6 {
        ops.extend((snapshot && round == 3).then_some(Op::Snapshot));
        for _ in 0..30 {
            let key = [b'a' + rng.index(20).min(rng.index(20)) as u8];
            ops.push(match rng.below(12) {
                0 => Op::Write(vec![Write::delete(&key)], Durability::Os),
                1 => put(&key, SHORT, round),
                _ => put(&key, LONG, round),
            });
        }
        ops.push(Op::Flush);
    }
    ops
}

/// A store whose hot segments have dead records of every kind, and then some that a snapshot sees:
/// checks that a collection leaves no dead record, and that all answers stay right. Returns the
/// dead bytes before it.
pub fn a_collection_frees_the_hot_store(setup: &Setup, seed: u64) -> Checked<u64> {
    let mut rng = Rng::new(seed);
    let mut session = Session::on(Disks::forgetful(setup), setup, State::default())?;
    let dead = |session: &Session| session.db().metrics().hot.map_or(0, |hot| hot.dead_bytes);
    let mut most = 0;
    for snapshot in [false, true] {
        churned(&mut rng, snapshot).iter().try_for_each(|op| session.run(op))?;
        most = most.max(dead(&session));
        session.run(&Op::Collect)?;
        session.compare_all()?;
        if snapshot {
            // What the snapshot has seen is dead once compactions have dropped its entries.
            let then = [Op::Verify, Op::DropSnapshot(0), Op::Compact, Op::Collect];
            then.iter().try_for_each(|op| session.run(op))?;
        }
        let left = dead(&session);
        if left > 0 {
            return Err(format!("{left} dead bytes are left"));
        }
        session.run(&Op::Verify)?;
    }
    session.run(&Op::Kill)?;
    session.run(&Op::Verify)?;
    session.compare_all()?;
    session.leave(true)?;
    Ok(most)
}

/// Keys that were hot when the store was closed are hot enough after an open, although their heat
/// is lost: an evacuation keeps all of them.
pub fn hot_keys_stay_hot_behind_an_open() -> Checked<()> {
    let mut setup = Setup::hot(true);
    // All keys lie in one segment.
    (setup.options.tuning.groups.heat_limit, setup.options.tuning.groups.hot_segment_bytes) =
        (Some(3), 2 << 20);
    let mut session = Session::on(Disks::forgetful(&setup), &setup, State::default())?;
    let write = |session: &mut Session, keys: std::ops::Range<u8>| {
        // The first write of a key does not heat it.
        let often = (0..4).flat_map(|salt| keys.clone().map(move |i| put(&[b'k', i], LONG, salt)));
        often.chain([Op::Flush]).try_for_each(|op| session.run(&op))
    };
    write(&mut session, 0..20)?;
    session.run(&Op::Reopen)?;
    // The old segment is alive as a whole, and is too long for the store beside 25 more records.
    write(&mut session, 20..45)?;
    let stats = session.db().metrics().hot.ok_or("no hot store")?.stats;
    if (stats.kept, stats.demoted) != (20, 0) {
        return Err(format!("{stats:?}"));
    }
    session.leave(true)
}

/// Runs part `part` of `parts` of the matrix.
pub fn matrix(part: usize, parts: usize) -> Checked<()> {
    let mut at = 0;
    for before in Before::ALL {
        for then in Then::ALL {
            for held in [Held::None, Held::First, Held::Before, Held::Between] {
                at += 1;
                if at % parts != part {
                    continue;
                }
                for setup in [Setup::hot(true), Setup::hot(true), Setup::crowded_hot_store()] {
                    run(&setup, &case(before, then, held))
                        .map_err(|e| format!("{before:?}, {then:?}, {held:?}, {setup}: {e}"))?;
                }
            }
        }
    }
    Ok(())
}

fn run(setup: &Setup, ops: &[Op]) -> Checked<()> {
    let mut session = Session::on(Disks::forgetful(setup), setup, State::default())?;
    for (i, op) in ops.iter().enumerate() {
        session.run(op).map_err(|e| format!("operation {i}, {op:?}: {e}"))?;
    }
    session.compare_all()?;
    session.leave(true)
}

/// Hot values so long that much of each segment is left over at its end, in segments that are
/// overwritten one after another: each value stays what it is.
pub fn long_hot_values() -> Checked<()> {
    const KEYS: u8 = 250;
    const AT_ONCE: u8 = 10;
    let preset = Options::preset(Preset::HoaKv);
    let mut options = Options { background: Background::Manual, ..preset };
    options.tuning.groups.heat_limit = Some(1);
    let value = |key: u8, round: u8| [&[key, round][..], &[0x5a; 16_000]].concat();
    let sim = Sim::new();
    let mut db = opened(&sim, &options)?;
    let failed = |e: Error| e.to_string();
    for round in 0..=KEYS / AT_ONCE {
        // All keys, and then some after the others; the first write of a key does not heat it.
        let written = if round == 0 { 0..KEYS } else { (round - 1) * AT_ONCE..round * AT_ONCE };
        written
            .clone()
            .chain(written)
            .try_for_each(|key| db.put([key], value(key, round)))
            .map_err(failed)?;
        db.flush().map_err(failed)?;
        let segments = db.metrics().hot.map_or(0, |hot| hot.stats.segments);
        if round == 0 && segments < 2 {
            return Err(format!("{segments} hot segments"));
        }
        for key in 0..KEYS {
            let newest = if key < round * AT_ONCE { key / AT_ONCE + 1 } else { 0 };
            if db.get([key]).map_err(failed)? != Some(value(key, newest).into()) {
                return Err(format!("round {round}: another value of key {key}"));
            }
        }
        let report = db.verify().map_err(failed)?;
        report.problems.first().map_or(Ok(()), |problem| Err(format!("{problem}")))?;
        if round == 20 {
            drop(db);
            db = opened(&sim, &options)?;
        }
    }
    Ok(())
}
