//! The log files that hold changes, oldest first, and which of them must go.
//!
//! A change is read from the log file that made it durable. The list has every log file that holds
//! some, whatever else it is for: the one in use, those that replay needs, those that hold values,
//! and those that are kept for nothing else. It is empty where no changes are kept.

use std::sync::Arc;

use cleavedb_base::sync::Mutex;
use cleavedb_base::{FileNumber, SeqNo};
use cleavedb_storage::segment::Segment;

use crate::store::manifest::{LiveFiles, LoadedRange};

/// A log file that holds changes.
#[derive(Clone)]
pub(crate) struct LogPart {
    pub(crate) number: FileNumber,
    /// Log position of its first byte.
    pub(crate) base: u64,
    /// Log position behind its last record; none while it is the last file.
    pub(crate) end: Option<u64>,
    /// Whether another process may still write it, so that its end may lie in the window of that.
    pub(crate) is_open: bool,
    /// A number that is greater than those of all files before, and not greater than any of its
    /// own; none until it was read.
    pub(crate) first_seq: Option<SeqNo>,
}

/// What may be read as changes.
#[derive(Default)]
struct RetainedParts {
    parts: Vec<LogPart>,
    /// The first file with changes; none if there is none yet.
    first_file: Option<FileNumber>,
    /// Every batch from this number on is there; 0 if none is kept.
    first_seq: SeqNo,
    loads: Vec<LoadedRange>,
    /// Files that readers may still have as value files, although they are kept for changes only.
    segments: Vec<Arc<Segment>>,
}

/// The log files that hold changes. Its lock is a leaf.
pub(crate) struct RetainedLog(Mutex<RetainedParts>);

impl RetainedLog {
    /// What `live` has after an open; `is_kept` says that the options ask for changes, and
    /// `visible` is the last sequence number.
    pub(crate) fn of(live: &LiveFiles, is_kept: bool, visible: SeqNo) -> Self {
        let log = live.changes.log;
        if log.first_seq == 0 {
            let first_seq = if is_kept { visible + 1 } else { 0 };
            return Self(Mutex::new(RetainedParts { first_seq, ..RetainedParts::default() }));
        }
        let retained =
            live.value_files.retained().map(|(number, file)| (number, file.base, file.len));
        // Log files without a length go on: see `follow`.
        let logs = live.value_files.logs();
        let logs = logs.filter_map(|(number, facts)| Some((number, facts.base, facts.len?)));
        let logs = logs.filter(|(number, ..)| *number >= log.first_file);
        let part = |(number, base, len): (FileNumber, u64, u64)| LogPart {
            number,
            base,
            end: Some(base + len),
            is_open: false,
            first_seq: None,
        };
        let mut parts: Vec<LogPart> = retained.chain(logs).map(part).collect();
        parts.sort_unstable_by_key(|part| part.number);
        let (first_seq, loads) = (log.first_seq, live.changes.loads.clone());
        let first_file = Some(log.first_file);
        Self(Mutex::new(RetainedParts {
            parts,
            first_file,
            first_seq,
            loads,
            segments: Vec::new(),
        }))
    }

    /// The log of another process ends in the files `last`, as far as it was read.
    pub(crate) fn follow(&self, last: &[LogPart]) {
        let mut content = self.0.lock();
        let (Some(first_file), Some(first)) = (content.first_file, last.first()) else { return };
        content.parts.retain(|part| part.number < first.number);
        let with_changes = last.iter().filter(|part| part.number >= first_file);
        content.parts.extend(with_changes.cloned());
    }

    /// The log goes on in file `number`, with sequence numbers from `first_seq` on; the file before
    /// has ended at `previous_end`.
    pub(crate) fn begin(
        &self,
        number: FileNumber,
        base: u64,
        first_seq: SeqNo,
        previous_end: Option<u64>,
    ) {
        let mut content = self.0.lock();
        match content.parts.last_mut() {
            // A file of an earlier session goes on.
            Some(last) if last.number == number => return last.end = None,
            Some(last) => last.end = previous_end.or(last.end),
            None => {}
        }
        let first_seq = Some(first_seq);
        content.parts.push(LogPart { number, base, end: None, is_open: false, first_seq });
    }

    /// Every batch from this sequence number on is there; none if no changes are kept.
    pub(crate) fn first_seq(&self) -> Option<SeqNo> {
        Some(self.0.lock().first_seq).filter(|seq| *seq > 0)
    }

    /// Changes from `first_seq` on are there, or, at 0, none.
    pub(crate) fn set_first_seq(&self, first_seq: SeqNo) {
        let mut content = self.0.lock();
        content.first_seq = first_seq;
        content.loads.retain(|load| load.seq >= first_seq);
    }

    /// All files, oldest first.
    pub(crate) fn parts(&self) -> Vec<LogPart> {
        self.0.lock().parts.clone()
    }

    /// Whether file `number` is among them.
    pub(crate) fn has(&self, number: FileNumber) -> bool {
        self.0.lock().parts.iter().any(|part| part.number == number)
    }

    /// The first file.
    pub(crate) fn first_part(&self) -> Option<LogPart> {
        self.0.lock().parts.first().cloned()
    }

    /// File `number`, and the number of the one behind it, if there was one at that moment: then
    /// the end of the file does not move any more.
    pub(crate) fn part_and_next(
        &self,
        number: FileNumber,
    ) -> Option<(LogPart, Option<FileNumber>)> {
        let content = self.0.lock();
        let at = content.parts.iter().position(|part| part.number == number)?;
        let next = content.parts.get(at + 1).map(|next| next.number);
        Some((content.parts[at].clone(), next))
    }

    /// Notes the least sequence number of a file, once it was read.
    pub(crate) fn found(&self, number: FileNumber, first_seq: SeqNo) {
        let mut content = self.0.lock();
        let part = content.parts.iter_mut().find(|part| part.number == number);
        if let Some(part) = part {
            part.first_seq = Some(first_seq);
        }
    }

    /// Adds a bulk load, before it is visible.
    pub(crate) fn loaded(&self, load: LoadedRange) {
        self.0.lock().loads.push(load);
    }

    /// The first bulk load from sequence number `from` on.
    pub(crate) fn load_from(&self, from: SeqNo) -> Option<LoadedRange> {
        self.0.lock().loads.iter().find(|load| load.seq >= from).cloned()
    }

    /// Keeps a file that readers may have as a value file until it is released here.
    pub(crate) fn hold(&self, segment: Arc<Segment>) {
        self.0.lock().segments.push(segment);
    }

    /// Drops the files up to `last`. Returns those among them that readers may have.
    pub(crate) fn drop_upto(&self, last: FileNumber) -> Vec<Arc<Segment>> {
        let mut content = self.0.lock();
        content.parts.retain(|part| part.number > last);
        let segments = std::mem::take(&mut content.segments);
        let (released, kept) = segments.into_iter().partition(|it| it.number() <= last);
        content.segments = kept;
        released
    }
}

/// A file as the policy sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartSize {
    /// Bytes of log in it.
    pub(crate) bytes: u64,
    /// Whether it is kept for changes only, so that it can go.
    pub(crate) is_retained: bool,
    /// Whether all of its changes were given up.
    pub(crate) is_given_up: bool,
}

/// The limits of the log that is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    /// Bytes of the log that must stay, if there is room for them.
    pub(crate) bytes: u64,
    /// Bytes that must be freed, even of those, as far as that goes.
    pub(crate) missing: u64,
}

/// How many of the files, the oldest first, are left behind: those that can go among them go.
pub(crate) fn left_behind(parts: &[PartSize], keep: Keep) -> usize {
    let mut rest: u64 = parts.iter().map(|part| part.bytes).sum();
    let (mut left, mut freed) = (0, 0);
    for (at, part) in parts.iter().enumerate() {
        rest -= part.bytes;
        let goes = part.is_given_up || rest >= keep.bytes || freed < keep.missing;
        if at + 1 == parts.len() || !goes {
            break;
        }
        // A file that cannot go is left behind only if a later one goes.
        if part.is_retained {
            (left, freed) = (at + 1, freed + part.bytes);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(of: &[(u64, bool)]) -> Vec<PartSize> {
        let part = |&(bytes, is_retained)| PartSize { bytes, is_retained, is_given_up: false };
        of.iter().map(part).collect()
    }

    #[test]
    fn the_oldest_go_as_long_as_enough_stays() {
        let three = parts(&[(10, true), (10, true), (10, false)]);
        let keep = |bytes, missing| left_behind(&three, Keep { bytes, missing });
        assert_eq!([keep(31, 0), keep(30, 0), keep(21, 0)], [0, 0, 0]);
        assert_eq!([keep(20, 0), keep(11, 0), keep(10, 0), keep(0, 0)], [1, 1, 2, 2]);
        assert_eq!([keep(99, 1), keep(99, 10), keep(99, 11), keep(99, 99)], [1, 1, 2, 2]);
        assert_eq!(left_behind(&[], Keep { bytes: 0, missing: 9 }), 0);
    }

    #[test]
    fn what_holds_values_stays_and_is_left_behind() {
        let mut files = parts(&[(10, false), (10, true), (10, false), (5, false)]);
        assert_eq!(left_behind(&files, Keep { bytes: 15, missing: 0 }), 2);
        assert_eq!(left_behind(&files, Keep { bytes: 16, missing: 0 }), 0, "nothing can go");
        files.iter_mut().take(2).for_each(|part| part.is_given_up = true);
        assert_eq!(left_behind(&files, Keep { bytes: 99, missing: 0 }), 2);
    }
}
