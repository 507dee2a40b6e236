//! Filter: code of the user that background work asks which values to keep, drop or replace.
//!
//! Compactions ask about values in the index, collections about those outside it, which they read
//! anyway (decision 0049).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use cleavedb_base::key::split_encoded_key;
use cleavedb_base::{EntryKind, Expiry, KeyspaceId, Lasting, Result};

use crate::control::debug::debug;

/// Longest value by which a filter may replace another, in bytes: it lies in the index.
const REPLACEMENT_MAX: usize = 64 << 10;

/// What a filter decides about a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterDecision {
    /// The value stays.
    Keep,
    /// The value goes, as if the key had been deleted.
    Drop,
    /// The value is replaced by this one; the expiry stays. The new value lies in the index from
    /// then on, and has at most 64 KiB: the old value stays instead of a longer one.
    Replace(Vec<u8>),
}

/// A value that a filter is asked about.
pub struct FilteredValue<'a> {
    keyspace: &'a str,
    key: &'a [u8],
    until: Expiry,
    read: &'a dyn Fn() -> Result<Bytes>,
}

debug!(FilteredValue<'_>, |value| { keyspace: value.keyspace() });

impl FilteredValue<'_> {
    /// The name of its keyspace; that of the default one is `default`.
    pub fn keyspace(&self) -> &str {
        self.keyspace
    }

    /// The key of the value.
    pub fn key(&self) -> &[u8] {
        self.key
    }

    /// When it expires; `None` if it stays.
    pub fn expires(&self) -> Option<SystemTime> {
        self.until.time()
    }

    /// The value, which is read for it if it lies outside the index.
    pub fn value(&self) -> Result<Bytes> {
        (self.read)()
    }
}

type Decide = dyn Fn(&FilteredValue<'_>) -> Result<FilterDecision> + Send + Sync;

/// Decides about values when background work meets them: see [`crate::Options::filter`].
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use cleavedb::{Db, Filter, FilterDecision, Options};
///
/// let filter = Filter::new(|value| {
///     Ok(match value.key().starts_with(b"tmp/") {
///         true => FilterDecision::Drop,
///         false => FilterDecision::Keep,
///     })
/// });
/// let options = Options { filter: Some(filter), ..Options::default() };
/// let db = Db::open(dir.path().join("db"), options)?;
/// db.put("tmp/1", "soon gone")?;
/// db.put("user/1", "Ada")?;
/// db.compact()?;
/// db.collect()?;
/// assert_eq!(db.range(..).count(), 1);
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Clone)]
pub struct Filter(Arc<Decide>);

impl Filter {
    /// A filter that decides by `decide`, which background threads call, several at once. If it
    /// fails, so does the job that asked, which is tried again; it must not panic.
    pub fn new(
        decide: impl Fn(&FilteredValue<'_>) -> Result<FilterDecision> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(decide))
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Filter")
    }
}

/// A filter as one job asks it.
#[derive(Clone)]
pub(crate) struct JobFilter {
    filter: Filter,
    /// The names of keyspaces when the job began.
    names: BTreeMap<KeyspaceId, String>,
}

/// The kind and the value of the index entry that takes the place of a filtered one.
pub(crate) type Replaced = (EntryKind, Vec<u8>);

impl JobFilter {
    pub(crate) fn new(filter: Filter, names: BTreeMap<KeyspaceId, String>) -> Self {
        Self { filter, names }
    }

    /// What takes the place of the entry of a key; `None` if it stays. `read` reads its value.
    pub(crate) fn replaced(
        &self,
        encoded_key: &[u8],
        until: Expiry,
        read: &dyn Fn() -> Result<Bytes>,
    ) -> Result<Option<Replaced>> {
        // What is left of dropped keyspaces has no name, nor have the records of the store itself.
        let Some((id, key)) = split_encoded_key(encoded_key) else { return Ok(None) };
        let Some(keyspace) = self.names.get(&id) else { return Ok(None) };
        let value = FilteredValue { keyspace, key, until, read };
        Ok(match (self.filter.0)(&value)? {
            FilterDecision::Drop => Some((EntryKind::Delete, Vec::new())),
            FilterDecision::Replace(value) if value.len() <= REPLACEMENT_MAX => {
                let stored = Lasting { value: &value[..], until }.stored().into_owned();
                Some((EntryKind::Inline.until(until), stored))
            }
            FilterDecision::Keep | FilterDecision::Replace(_) => None,
        })
    }
}
