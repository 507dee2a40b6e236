//! The dictionaries of an open database: their numbers, and those that outlive a drop.

use std::num::NonZeroU32;
use std::sync::Arc;

use cleavedb_base::record::Header;
use cleavedb_base::sync::{Mutex, MutexGuard};
use cleavedb_base::{Result, SeqNo};
use cleavedb_values::{Dictionaries, SegmentSet, compression};

use super::{Catalog, lock_to_wait};
use crate::control::compressor::Compressors;
use crate::control::metrics::Metrics;

/// The dictionaries of all keyspaces.
#[derive(Default)]
pub(crate) struct CatalogDictionaries {
    /// The greatest number of one so far. Held while one is made, whose commit may wait.
    last: Mutex<u32>,
    /// Dictionaries that values are compressed with.
    pub(crate) all: Dictionaries,
    /// The numbers of stored ones whose keyspaces were dropped, each with a sequence number that is
    /// not below that of the drop. A leaf lock.
    pub(crate) outliving: Mutex<Vec<(NonZeroU32, SeqNo)>>,
    /// What the compressors of all keyspaces share.
    pub(crate) compressors: Arc<Compressors>,
}

impl CatalogDictionaries {
    /// The dictionaries of a later state of the same database, whose records are not read yet.
    /// Numbers may be used again, and readers of this state go on.
    pub(super) fn next(&self) -> Self {
        let compressors = self.compressors.clone();
        Self { all: self.all.apart(), compressors, ..Self::default() }
    }

    /// The last number, for the only thread that makes a dictionary; `None` if another one does so
    /// now.
    pub(crate) fn making(&self) -> Option<MutexGuard<'_, u32>> {
        self.last.try_lock()
    }

    /// Keeps other threads from making a dictionary until the guard is dropped; fails as
    /// [`Catalog::change`] does, which comes first.
    pub(crate) fn hold(&self) -> Result<MutexGuard<'_, u32>> {
        lock_to_wait(&self.last)
    }

    /// At an open: there is a dictionary with this number.
    pub(crate) fn found(&self, number: NonZeroU32) {
        let mut last = self.last.lock();
        *last = number.get().max(*last);
    }
}

impl Catalog {
    /// An empty set of value files, whose values are found as this database stores them.
    pub(crate) fn no_segments(&self) -> SegmentSet {
        SegmentSet::new(self.dictionaries.all.clone())
    }

    /// As [`compression::whole`].
    pub(crate) fn whole(&self, header: &Header, stored: &[u8]) -> Result<Option<Vec<u8>>> {
        compression::whole(header, stored, &self.dictionaries.all)
    }

    /// Adds figures about how values are stored.
    pub(crate) fn add_metrics(&self, to: &mut Metrics) {
        self.dictionaries.compressors.add_metrics(to);
    }
}
