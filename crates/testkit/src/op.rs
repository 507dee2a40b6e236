//! Operations: everything that a user can ask of the engine, as data.
//!
//! An operation prints in one line, so a failing run can be read from top to bottom. Snapshots are
//! identified by their age among those that are held, modulo their number, so that a list of
//! operations stays valid when parts are cut out.

use std::fmt;
use std::sync::Arc;

use cleavedb::{Durability, Operand};

/// A put, a merge, or, without a value or an operand, a delete: of a key or of a range.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Write {
    /// The key, or the first of a range.
    pub key: Vec<u8>,
    /// The value of a put.
    pub value: Option<Arc<[u8]>>,
    /// What a merge does to the value of the key.
    pub operand: Option<Operand>,
    /// The key behind the range that is deleted.
    pub upto: Option<Vec<u8>>,
    /// How long the value of a put lives, in milliseconds.
    pub ttl: Option<u64>,
}

impl Write {
    /// A put.
    pub fn put(key: &[u8], value: Vec<u8>) -> Self {
        Self { key: key.to_vec(), value: Some(value.into()), ..Self::default() }
    }

    /// A merge.
    pub fn merge(key: &[u8], operand: Operand) -> Self {
        Self { key: key.to_vec(), operand: Some(operand), ..Self::default() }
    }

    /// A delete.
    pub fn delete(key: &[u8]) -> Self {
        Self { key: key.to_vec(), ..Self::default() }
    }

    /// A delete of all keys from `key` to `upto`, excluded.
    pub fn delete_range(key: &[u8], upto: &[u8]) -> Self {
        Self { upto: Some(upto.to_vec()), ..Self::delete(key) }
    }
}

impl fmt::Debug for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(operand) = &self.operand {
            let (operator, len) = (operand.operator(), operand.bytes().len());
            return write!(f, "{}~{operator} {len}B", short(&self.key));
        }
        match (&self.value, &self.upto) {
            (Some(value), _) => {
                write!(f, "{}={}B", short(&self.key), value.len())?;
                self.ttl.map_or(Ok(()), |ttl| write!(f, " for {ttl}ms"))
            }
            (None, Some(upto)) => write!(f, "-{}..{}", short(&self.key), short(upto)),
            (None, None) => write!(f, "-{}", short(&self.key)),
        }
    }
}

/// A key, shortened for printing.
pub fn short(key: &[u8]) -> String {
    match key.len() {
        0..=24 => key.escape_ascii().to_string(),
        len => format!("{}..{len}B", key[..12].escape_ascii()),
    }
}

/// The order in which a range is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// Front to back.
    Forward,
    /// Back to front.
    Backward,
    /// From both ends, one bit per step, until they meet.
    Both(u64),
}

/// An operation of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A batch; a plain put or delete if it has one write.
    Write(Vec<Write>, Durability),
    /// Loads pairs with ascending keys in bulk.
    Load(Vec<Write>),
    /// Reads one key.
    Get(Vec<u8>),
    /// Reads several keys as of one moment.
    MultiGet(Vec<Vec<u8>>),
    /// Reads a range with an inclusive start and an exclusive end.
    Range(Option<Vec<u8>>, Option<Vec<u8>>, Scan),
    /// Reads all keys with a prefix.
    Prefix(Vec<u8>, Scan),
    /// Takes a snapshot.
    Snapshot,
    /// Reads everything and one key at a snapshot.
    ReadSnapshot(usize, Vec<u8>),
    /// Drops a snapshot.
    DropSnapshot(usize),
    /// Writes memory to tables.
    Flush,
    /// Runs this number of background jobs.
    Step(usize),
    /// Merges all tables.
    Compact,
    /// Collects all value files.
    Collect,
    /// Makes everything durable.
    Sync,
    /// Checks the store's own integrity.
    Verify,
    /// Moves the clock on, by this number of milliseconds.
    Wait(u64),
    /// Closes, and opens again.
    Reopen,
    /// Kills the process, and opens again.
    Kill,
}
