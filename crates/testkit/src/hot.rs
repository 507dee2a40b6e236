//! The matrix of the hot store: every state of a key, what is done to it, and the snapshots around.
//!
//! A key is absent, short, separated, hot, or was hot; it is written, deleted, or left alone while
//! its segment is evacuated. Each case runs under both kinds of relocation, and is followed by a
//! reopening, after which the store must be as it was.

use cleavedb::{Durability, Relocation};

use crate::disks::Disks;
use crate::op::{Op, Scan, Write};
use crate::read::Checked;
use crate::session::Session;
use crate::setup::Setup;
use crate::state::State;

/// The key that a case is about, and others around it.
const KEY: &[u8] = b"m";
const OTHERS: [u8; 6] = [b'a', b'c', b'k', b'p', b'u', b'z'];

/// Length of a value that is separated, and of one that is not.
const LONG: usize = 1000;
const SHORT: usize = 20;

/// What has been done to the key.
#[derive(Clone, Copy, Debug)]
enum Before {
    Absent,
    Inline,
    Separated,
    Hot,
    Overwritten,
    Deleted,
    Demoted,
}

/// What is done to it.
#[derive(Clone, Copy, Debug)]
enum Then {
    PutLong,
    PutShort,
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
fn heated(salt: u8) -> Vec<Op> {
    let twice = |salt| [put(KEY, LONG, salt), put(KEY, LONG, salt + 1), Op::Flush];
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
    const ALL: [Self; 7] = [
        Self::Absent,
        Self::Inline,
        Self::Separated,
        Self::Hot,
        Self::Overwritten,
        Self::Deleted,
        Self::Demoted,
    ];

    fn ops(self) -> Vec<Op> {
        let delete = Op::Write(vec![Write::delete(KEY)], Durability::Os);
        match self {
            Self::Absent => Vec::new(),
            Self::Inline => vec![put(KEY, SHORT, 1), Op::Flush],
            Self::Separated => vec![put(KEY, LONG, 2), Op::Flush],
            Self::Hot => heated(3),
            Self::Overwritten => [heated(3), vec![put(KEY, SHORT, 9), Op::Flush]].concat(),
            Self::Deleted => [heated(3), vec![delete, Op::Flush]].concat(),
            Self::Demoted => [heated(3), evacuated(40)].concat(),
        }
    }
}

impl Then {
    const ALL: [Self; 7] = [
        Self::PutLong,
        Self::PutShort,
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
        then.ops(),
        seen.clone(),
        looks(),
        snapshot(matches!(held, Held::Between)),
        heated(90),
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
                for relocation in [Relocation::WriteBack, Relocation::Soft] {
                    let setup = Setup::hot(relocation, true);
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
