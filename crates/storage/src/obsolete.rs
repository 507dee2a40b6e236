//! Obsolete files and file ranges, waiting to be removed or punched.
//!
//! A table, a segment or an extent that an edit dropped may still be read through an older read
//! state. Its last reader may release it anywhere, also deep in a `get`; that thread only queues it
//! here, and a background job removes the file or punches the hole.

use cleavedb_base::sync::Mutex;

use crate::name::{FileKind, Name};

/// An obsolete range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// The file.
    pub name: Name,
    /// Where the range begins, in bytes.
    pub offset: u64,
    /// Its length, in bytes.
    pub len: u64,
}

/// Queue of files to remove and of ranges to punch.
#[derive(Default)]
pub struct ObsoleteFiles {
    /// Names, and the lengths of the files.
    names: Mutex<Vec<(Name, u64)>>,
    holes: Mutex<Vec<Hole>>,
}

impl ObsoleteFiles {
    /// Queues a file of `len` bytes whose drop is durable in the manifest and which has no readers.
    pub fn enqueue(&self, name: Name, len: u64) {
        self.names.lock().push((name, len));
    }

    /// Bytes of the queued files.
    pub fn dead_bytes(&self) -> u64 {
        self.names.lock().iter().map(|(_, len)| len).sum()
    }

    /// Queued log files.
    pub fn logs(&self) -> usize {
        self.names.lock().iter().filter(|(name, _)| name.kind() == FileKind::Log).count()
    }

    /// Queues a range whose drop is durable in the manifest and which has no readers.
    pub fn give_back(&self, hole: Hole) {
        self.holes.lock().push(hole);
    }

    /// Takes all queued ranges.
    pub fn take_holes(&self) -> Vec<Hole> {
        std::mem::take(&mut *self.holes.lock())
    }

    /// Takes the name of the next file to remove: a log if there is one. Bytes of a young log that
    /// the kernel has not written never reach the device if it is removed in time.
    pub fn take_name(&self) -> Option<Name> {
        self.take_log().or_else(|| self.take_other())
    }

    /// Takes the name of a log.
    pub fn take_log(&self) -> Option<Name> {
        self.take(|kind| kind == FileKind::Log)
    }

    /// Takes the name of a file that is not a log.
    pub fn take_other(&self) -> Option<Name> {
        self.take(|kind| kind != FileKind::Log)
    }

    fn take(&self, wanted: impl Fn(FileKind) -> bool) -> Option<Name> {
        let mut names = self.names.lock();
        let at = names.iter().position(|(name, _)| wanted(name.kind()))?;
        Some(names.remove(at).0)
    }
}

#[cfg(test)]
mod tests {
    use cleavedb_base::FileNumber;

    use super::*;

    #[test]
    fn a_log_goes_before_what_was_buried_earlier() {
        let name = |kind, number| Name::numbered(kind, FileNumber(number));
        let obsolete_files = ObsoleteFiles::default();
        let (table, log) = (name(FileKind::Table, 1), name(FileKind::Log, 2));
        [table, name(FileKind::Table, 3), log]
            .into_iter()
            .for_each(|name| obsolete_files.enqueue(name, 5));
        assert_eq!(obsolete_files.dead_bytes(), 15);
        assert_eq!(
            [obsolete_files.take_name(), obsolete_files.take_name()],
            [Some(log), Some(table)]
        );
        assert_eq!(obsolete_files.dead_bytes(), 5);
        assert_eq!(obsolete_files.take_log(), None);
        assert!(obsolete_files.take_other().is_some() && obsolete_files.take_name().is_none());
    }
}
