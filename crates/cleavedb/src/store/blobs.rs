//! The blobs of a MemTable. To its callers each has a *lone* file, which nothing moves.

use std::collections::BTreeMap;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicU64, Ordering};
use cleavedb_base::{EntryKind, FileNumber, Lasting, ValuePointer};
use cleavedb_index::Entry;
use cleavedb_storage::segment::blob::blob_len;

/// Divisor of a MemTable's length: lone files that a MemTable hides are dead until its flush, and
/// no others wait for it.
const HIDDEN_PART: u64 = 8;

/// Lone files that entries point to, each with the length of its value.
#[derive(Clone, Default)]
pub(crate) struct UnflushedLone(BTreeMap<FileNumber, u64>);

impl UnflushedLone {
    /// Whether an entry points to one of them.
    #[inline]
    pub(crate) fn have(&self, entry: &Entry<'_>) -> bool {
        let is_any = !self.0.is_empty() && !planted(Bug::BlobTakenForValue);
        is_any && file_of(entry.kind, entry.value).is_some_and(|file| self.0.contains_key(&file))
    }
}

/// The file that an entry of this kind points to, if it does.
pub(crate) fn file_of(kind: EntryKind, value: &[u8]) -> Option<FileNumber> {
    let found = kind.is_pointer().then(|| ValuePointer::of_entry(kind, value).ok());
    found.flatten().map(|pointer| pointer.value.file)
}

/// The lone files of a MemTable, and how much it hides of others.
#[derive(Default)]
pub(crate) struct SlotLone {
    files: Mutex<UnflushedLone>,
    /// Bytes of those in tables that it hides, about.
    hidden: AtomicU64,
}

impl SlotLone {
    /// Adds the file to which the value of an entry of this kind points. A reader of the entry
    /// reports a pointer that is none.
    #[cold]
    pub(crate) fn add(&self, kind: EntryKind, value: &[u8]) {
        if let Ok(Lasting { value: pointer, .. }) = ValuePointer::of_entry(kind, value) {
            self.files.lock().0.insert(pointer.file, blob_len(pointer).unwrap_or_default());
        }
    }

    /// Notes that the MemTable hides this many bytes of lone files in tables.
    pub(crate) fn hide(&self, bytes: u64) {
        self.hidden.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether it hides any of them.
    pub(crate) fn hides(&self) -> bool {
        self.hidden.load(Ordering::Relaxed) > 0
    }

    /// The lone files so far.
    pub(crate) fn files(&self) -> UnflushedLone {
        self.files.lock().clone()
    }

    /// Whether this file is one of them.
    pub(crate) fn has(&self, file: FileNumber) -> bool {
        self.files.lock().0.contains_key(&file)
    }

    /// Whether its lone files are as long as a MemTable may be, `most` bytes, or those that it
    /// hides a part of that: what newer versions have replaced takes space until the flush.
    pub(crate) fn wants_flush(&self, most: u64) -> bool {
        self.files.lock().0.values().sum::<u64>() >= most
            || self.hidden.load(Ordering::Relaxed) >= most / HIDDEN_PART
    }
}
