//! What some engines can do beyond the calls that all have ([`crate::Engine`]): the benchmarks of
//! features ask for it.
//!
//! Each trait is one feature. Its methods may be called from several threads at once.

use std::time::Duration;

use crate::error::Result;

/// The features of an open store; `None` stands for one that the engine does not have.
#[derive(Clone, Copy, Default)]
pub struct Capabilities<'a> {
    /// Several puts as one.
    pub batches: Option<&'a dyn Batches>,
    /// Reads and writes as one step.
    pub transactions: Option<&'a dyn Transactions>,
    /// Single calls that write if a value is the expected one.
    pub conditional_writes: Option<&'a dyn ConditionalWrites>,
    /// Writes that add to a value without a read.
    pub merges: Option<&'a dyn Merges>,
    /// Values that go by themselves.
    pub expiry: Option<&'a dyn Expiry>,
    /// Deletes of all keys of a range.
    pub range_deletes: Option<&'a dyn RangeDeletes>,
    /// Named spaces of keys in one store.
    pub keyspaces: Option<&'a dyn Keyspaces>,
    /// Positions that move to and fro.
    pub cursors: Option<&'a dyn Cursors>,
    /// Sorted pairs that go in past the log.
    pub bulk_loads: Option<&'a dyn BulkLoads>,
}

/// Several puts as one.
pub trait Batches: Sync {
    /// Stores all of `pairs`, or none after a crash.
    fn write_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()>;
}

/// What a transaction does: again, with another transaction, after a conflict.
pub type Body<'a> = &'a mut dyn FnMut(&mut dyn Transaction) -> Result<()>;

/// Reads and writes as one step.
pub trait Transactions: Sync {
    /// Runs `body` in a transaction until one commits; returns how many met a conflict before.
    fn transact(&self, body: Body<'_>) -> Result<u64>;
}

/// A transaction that is open.
pub trait Transaction {
    /// Shows the value of `key` to `visit`; returns whether there was one. What others write to the
    /// key until the commit is a conflict.
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Stores `value` under `key` at the commit.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
}

/// Single calls that write if a value is the expected one.
pub trait ConditionalWrites: Sync {
    /// Gives `key` the value `new` if its value is `expected`; returns whether it did.
    fn compare_and_swap(&self, key: &[u8], expected: &[u8], new: &[u8]) -> Result<bool>;
}

/// Writes that add to a value without a read. A counter is stored in the engine's own form.
pub trait Merges: Sync {
    /// Adds to the counter of `key`, which is 0 before.
    fn add(&self, key: &[u8], number: u64) -> Result<()>;

    /// The counter of `key`.
    fn count(&self, key: &[u8]) -> Result<u64>;
}

/// Values that go by themselves.
pub trait Expiry: Sync {
    /// Stores `value` under `key` for `lifetime`, which is that of [`Needs::lifetime`].
    fn put_for(&self, key: &[u8], value: &[u8], lifetime: Duration) -> Result<()>;
}

/// Deletes of all keys of a range.
pub trait RangeDeletes: Sync {
    /// Removes all keys from `from` on and below `to`.
    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()>;
}

/// Named spaces of keys in one store.
pub trait Keyspaces: Sync {
    /// A handle on the keyspace called `name`, which is created if it is not there.
    fn keyspace(&self, name: &str) -> Result<Box<dyn Keyspace + '_>>;
}

/// A space of keys.
pub trait Keyspace: Send + Sync {
    /// Stores `value` under `key`.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Shows the value of `key` to `visit`; returns whether there was one.
    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool>;
}

/// Positions that move to and fro.
pub trait Cursors: Sync {
    /// A new cursor over the whole store.
    fn cursor(&self) -> Result<Box<dyn Cursor + '_>>;
}

/// A position in a store. A step returns whether there is a pair where it ends.
pub trait Cursor {
    /// Moves to the first key that is not below `key`.
    fn seek(&mut self, key: &[u8]) -> Result<bool>;

    /// Moves to the next pair. There must be one here.
    fn next(&mut self) -> Result<bool>;

    /// Moves to the pair before. There must be one here.
    fn prev(&mut self) -> Result<bool>;

    /// Shows the pair at this position, which must be there, to `visit`.
    fn show(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<()>;
}

/// Sorted pairs that go in past the log.
pub trait BulkLoads: Sync {
    /// Begins a load.
    fn bulk_load(&self) -> Result<Box<dyn BulkLoad + '_>>;
}

/// A load under way.
pub trait BulkLoad {
    /// Adds `value` under `key`, which is greater than all keys before.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Makes all of it visible and durable.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// What a store is opened for: settings that cost the stores that do without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Whether there will be transactions.
    pub transactions: bool,
    /// Whether there will be keyspaces beside the default one.
    pub keyspaces: bool,
    /// How long values live that are put for a time, in engines that have one time for all.
    pub lifetime: Option<Duration>,
    /// How values are compressed.
    pub codec: Codec,
    /// Memory of the engine itself, in bytes, in place of its default.
    pub memory: Option<u64>,
}

/// How values are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Codec {
    /// Not at all.
    #[default]
    Plain,
    /// By LZ4.
    Lz4,
    /// By Zstandard.
    Zstd,
    /// By Zstandard, with a dictionary that the store makes of its values.
    Dictionary,
}

impl Codec {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Plain, Self::Lz4, Self::Zstd, Self::Dictionary];

    /// The name of the codec in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::Dictionary => "dictionary",
        }
    }
}
