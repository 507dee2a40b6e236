//! Compressor: how a keyspace compresses values that leave the index, and with which dictionary.

use std::fmt;
use std::sync::Arc;

use cleavedb_base::Lasting;
use cleavedb_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cleavedb_base::sync::swap::ArcSwap;
use cleavedb_values::compression::DICTIONARY_FOR;
use cleavedb_values::{Dictionary, ValueCompression};

use crate::control::metrics::{Counter, Metrics};

/// Bytes of values that a keyspace without a dictionary is given before the first look for samples.
const FIRST_LOOK: u64 = 64 << 10;

/// What the compressors of a database share.
#[derive(Default)]
pub(crate) struct Compressors {
    /// Values that were compressed since the open, their bytes, and what was stored of them.
    values: Counter,
    bytes_in: Counter,
    bytes_out: Counter,
    /// Whether a keyspace may be due for a dictionary.
    is_due: AtomicBool,
}

impl Compressors {
    /// Whether a keyspace may be due for a dictionary; the next caller is told that none is.
    #[inline]
    pub(crate) fn takes_due(&self) -> bool {
        // Relaxed: that a keyspace is due is asked again under a lock.
        self.is_due.load(Ordering::Relaxed) && self.is_due.swap(false, Ordering::Relaxed)
    }

    /// Adds figures about the values that were compressed.
    pub(crate) fn add_metrics(&self, to: &mut Metrics) {
        to.compressed_values = self.values.get();
        to.compressed_from = self.bytes_in.get();
        to.compressed_to = self.bytes_out.get();
    }
}

/// Compresses the values of a keyspace.
pub(crate) struct Compressor {
    how: ValueCompression,
    /// The dictionaries of the keyspace, the newest one last.
    dictionaries: ArcSwap<Vec<Arc<Dictionary>>>,
    /// Bytes of values that were compressed without a dictionary that they could have had.
    without: AtomicU64,
    /// How many there are at the next look for samples.
    look_at: AtomicU64,
    shared: Arc<Compressors>,
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.how.fmt(f)
    }
}

impl Compressor {
    pub(crate) fn new(how: ValueCompression, shared: &Arc<Compressors>) -> Self {
        Self {
            how,
            dictionaries: ArcSwap::from_pointee(Vec::new()),
            without: AtomicU64::new(0),
            look_at: AtomicU64::new(FIRST_LOOK),
            shared: shared.clone(),
        }
    }

    pub(crate) fn how(&self) -> ValueCompression {
        self.how
    }

    /// Whether values are compressed at all.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.how != ValueCompression::None
    }

    /// Whether values are to be compressed with a dictionary.
    pub(crate) fn wants_dictionary(&self) -> bool {
        self.how == ValueCompression::ZstdDictionary
    }

    /// Adds a dictionary that is stored, if it is not known: from now on values are compressed with
    /// it.
    pub(crate) fn add_dictionary(&self, dictionary: &Arc<Dictionary>) {
        self.dictionaries.rcu(|all| {
            let known = all.iter().any(|other| other.number() == dictionary.number());
            let new = if known { None } else { Some(dictionary) };
            all.iter().chain(new).cloned().collect::<Vec<_>>()
        });
    }

    /// The dictionaries of the keyspace.
    pub(crate) fn dictionaries(&self) -> Arc<Vec<Arc<Dictionary>>> {
        self.dictionaries.load_full()
    }

    /// Whether there is to be a dictionary, and none is there.
    pub(crate) fn lacks_dictionary(&self) -> bool {
        self.wants_dictionary() && self.dictionaries.load().is_empty()
    }

    /// Whether the keyspace is to look for samples of its values now.
    pub(crate) fn is_due(&self) -> bool {
        self.lacks_dictionary()
            && self.without.load(Ordering::Relaxed) >= self.look_at.load(Ordering::Relaxed)
    }

    /// Notes a look for samples: the next one is after as many bytes again.
    pub(crate) fn looked(&self) {
        let without = self.without.load(Ordering::Relaxed);
        self.look_at.store(2 * without.max(FIRST_LOOK), Ordering::Relaxed);
    }

    /// `value` compressed, behind what stands in front of it; `None` if it is stored as it is.
    pub(crate) fn compress(&self, Lasting { value, until }: Lasting<&[u8]>) -> Option<Vec<u8>> {
        let expiry = until.encode();
        let front = &expiry[..until.front_len()];
        let dictionaries = self.dictionaries.load();
        let dictionary =
            dictionaries.last().filter(|_| self.wants_dictionary()).map(|last| &**last);
        if self.wants_dictionary() && dictionary.is_none() && value.len() <= DICTIONARY_FOR {
            let len = value.len() as u64;
            let without = self.without.fetch_add(len, Ordering::Relaxed) + len;
            if without >= self.look_at.load(Ordering::Relaxed) {
                self.shared.is_due.store(true, Ordering::Relaxed);
            }
        }
        let stored = self.how.compress(value, dictionary, front)?;
        self.shared.values.add(1);
        self.shared.bytes_in.add(value.len() as u64);
        self.shared.bytes_out.add((stored.len() - front.len()) as u64);
        Some(stored)
    }
}
