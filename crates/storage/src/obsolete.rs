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
    /// The length of the hole, in bytes.
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

    /// Queued log files of length 0: they may become the next log file.
    pub fn unwritten_logs(&self) -> usize {
        self.names.lock().iter().filter(|queued| is_unwritten_log(queued)).count()
    }

    /// Queues a range whose drop is durable in the manifest and which has no readers.
    pub fn give_back(&self, hole: Hole) {
        self.holes.lock().push(hole);
    }

    /// Bytes of the queued ranges.
    pub fn hole_bytes(&self) -> u64 {
        self.holes.lock().iter().map(|hole| hole.len).sum()
    }

    /// Takes all queued ranges.
    pub fn take_holes(&self) -> Vec<Hole> {
        std::mem::take(&mut *self.holes.lock())
    }

    /// Takes the name of the next file to remove: a log if there is one. Bytes of a young log that
    /// the kernel has not written never reach the device if it is removed in time.
    pub fn take_name(&self) -> Option<Name> {
        self.take(is_log).or_else(|| self.take(|_| true))
    }

    /// Takes the name of a log file of length 0.
    pub fn take_unwritten_log(&self) -> Option<Name> {
        self.take(is_unwritten_log)
    }

    /// As [`Self::take_name`], but leaves log files of length 0.
    pub fn take_other(&self) -> Option<Name> {
        let written_log = |queued: &(Name, u64)| is_log(queued) && !is_unwritten_log(queued);
        self.take(written_log).or_else(|| self.take(|queued| !is_log(queued)))
    }

    fn take(&self, wanted: impl Fn(&(Name, u64)) -> bool) -> Option<Name> {
        let mut names = self.names.lock();
        let at = names.iter().position(wanted)?;
        Some(names.remove(at).0)
    }
}

fn is_log(queued: &(Name, u64)) -> bool {
    queued.0.kind() == FileKind::Log
}

fn is_unwritten_log(queued: &(Name, u64)) -> bool {
    is_log(queued) && queued.1 == 0
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
        assert!(obsolete_files.take_other().is_some() && obsolete_files.take_name().is_none());
    }

    #[test]
    fn only_an_unwritten_log_is_kept_for_reuse() {
        let name = |kind, number| Name::numbered(kind, FileNumber(number));
        let obsolete_files = ObsoleteFiles::default();
        let (table, written) = (name(FileKind::Table, 1), name(FileKind::Log, 2));
        let unwritten = name(FileKind::Log, 3);
        [(table, 5), (unwritten, 0), (written, 5)]
            .into_iter()
            .for_each(|(name, len)| obsolete_files.enqueue(name, len));
        assert_eq!(obsolete_files.unwritten_logs(), 1);
        let others = [(); 3].map(|()| obsolete_files.take_other());
        assert_eq!(others, [Some(written), Some(table), None]);
        assert_eq!(obsolete_files.take_unwritten_log(), Some(unwritten));
        assert_eq!(obsolete_files.take_name(), None);
    }
}
