//! Resources: memory for caches, and threads, that several databases of a process share.

use std::fmt;
use std::sync::Arc;

use cleavedb_index::cache::{BlockCache, BlockMemory};
use cleavedb_storage::process::Own;
use cleavedb_values::{RecordCache, RecordMemory};

use crate::settings::crew::Crew;

/// Least memory of the block cache, in bytes: a quarter of it is what blocks need at least.
const CACHE_MIN: u64 = 4 << 20;

/// Most threads that compact and collect, as of one database.
const WORKERS_MAX: usize = 256;

/// Memory for the caches of several databases ([`crate::Options::resources`]): a bound for all of
/// them together, where each would have one of its own. Cheap to clone; every clone is the same
/// memory.
///
/// A database that reads much gets as much of it as it uses; the filters and indexes of open
/// tables take three quarters of the block cache at most, and of these each database is sure of
/// an equal part. What a database has cached goes at its close, or soon after.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use cleavedb::{Db, Options, Resources};
///
/// let resources = Resources::new(64 << 20, 0);
/// for name in ["users", "orders"] {
///     let options = Options { resources: Some(resources.clone()), ..Options::default() };
///     let db = Db::open(dir.path().join(name), options)?;
///     db.put("key", name)?;
///     assert_eq!(db.get("key")?.unwrap(), name);
/// }
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Clone)]
pub struct Resources {
    blocks: Arc<BlockMemory>,
    records: Option<Arc<RecordMemory>>,
    /// In a fork the threads are those of the parent.
    crew: Option<Own<Arc<Crew>>>,
}

impl Resources {
    /// Memory of `cache_bytes` for table blocks, filters and block indexes, at least 4 MiB, and of
    /// `record_cache_bytes` for whole records of separated values, none if that is 0.
    pub fn new(cache_bytes: usize, record_cache_bytes: usize) -> Self {
        let records = record_cache_bytes as u64;
        Self {
            blocks: Arc::new(BlockMemory::new((cache_bytes as u64).max(CACHE_MIN))),
            records: (records > 0).then(|| Arc::new(RecordMemory::new(records))),
            crew: None,
        }
    }

    /// The resources with threads that do the background jobs of all databases in turn, in place of
    /// those of [`crate::Background::Threads`]: `workers` that compact and collect, as many that
    /// flush, and one that removes files. Each database that is written has one more, which drains
    /// its log. They are started with the first write of one, and end when no clone of the
    /// resources and no database is left. At least one worker; at most 256.
    pub fn with_threads(self, workers: usize) -> Self {
        Self { crew: Some(Own::new(Crew::new(workers.clamp(1, WORKERS_MAX)))), ..self }
    }

    /// The threads, if there are any.
    pub(crate) fn crew(&self) -> Option<&Crew> {
        self.crew.as_ref().map(|crew| &***crew)
    }

    /// Memory in use now, in bytes: of blocks, filters and indexes, and of records.
    pub fn used(&self) -> u64 {
        self.blocks.used() + self.records.as_ref().map_or(0, |records| records.used())
    }

    /// A cache of blocks for one database.
    pub(crate) fn block_cache(&self) -> BlockCache {
        BlockCache::sharing(&self.blocks)
    }

    /// A cache of records for one database, if there is memory for it.
    pub(crate) fn record_cache(&self) -> Option<RecordCache> {
        self.records.as_ref().map(RecordCache::sharing)
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resources").field("used", &self.used()).finish()
    }
}
