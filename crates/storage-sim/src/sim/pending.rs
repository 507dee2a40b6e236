//! One file at a crash point: what is durable, and what each part of it may hold instead.

use std::collections::BTreeMap;

use cleavedb_base::limits::BLOCK;

use super::content::Content;

/// Versions remembered of one unit of a window. A window is never synced, so there would be no end
/// to them; the oldest state (as if the kernel had never written it back) and the youngest remain.
const WINDOW_VERSIONS: usize = 8;

/// What a unit of the disk held after the write at `time`.
pub(super) struct Version {
    pub(super) time: usize,
    pub(super) bytes: Box<[u8]>,
}

/// A file during a replay. Times are indices of events.
pub(super) struct Pending {
    /// What the program sees.
    pub(super) current: Content,
    /// What is on the disk for certain; where nothing is pending, that is all.
    pub(super) durable: Content,
    /// By number of the unit: contents that it may have instead of the durable one, oldest first.
    pub(super) units: BTreeMap<usize, Vec<Version>>,
    /// Ranges that were given back and may read as zeros or as they were: time, offset, length.
    pub(super) punches: Vec<(usize, usize, usize)>,
    /// Lengths that the file had since its length was durable, oldest first.
    pub(super) lengths: Vec<(usize, usize)>,
    /// Time of a failed sync: what was written before it is not made durable by a later one.
    lost: Option<usize>,
    is_window: bool,
}

impl Pending {
    /// A file that holds `content`, durably.
    pub(super) fn new(content: Content, is_window: bool) -> Self {
        Self {
            current: content.clone(),
            durable: content,
            units: BTreeMap::new(),
            punches: Vec::new(),
            lengths: Vec::new(),
            lost: None,
            is_window,
        }
    }

    /// Whether the file is the same in every state that a crash may leave.
    pub(super) fn is_certain(&self) -> bool {
        self.units.is_empty() && self.lengths.is_empty() && self.punches.is_empty()
    }

    /// Greatest length that the file may have after a crash.
    pub(super) fn longest(&self) -> usize {
        self.lengths.iter().map(|(_, len)| *len).max().unwrap_or(0).max(self.durable.len())
    }

    pub(super) fn write(&mut self, time: usize, offset: usize, bytes: &[u8], unit: usize) {
        let (old_len, end) = (self.current.len(), offset + bytes.len());
        self.current.write(offset, bytes);
        self.note_units(time, offset, end, unit);
        if end > old_len {
            // The kernel grows a file page by page while it copies a long write.
            let inner = (old_len / BLOCK + 1)..end.div_ceil(BLOCK);
            self.lengths.extend(inner.map(|page| (time, page * BLOCK)));
            self.lengths.push((time, end));
        }
    }

    pub(super) fn truncate(&mut self, time: usize, len: usize, unit: usize) {
        let old_len = self.current.len();
        self.current.set_len(len);
        if len < old_len {
            // What was cut reads as zeros if the file grows again.
            self.note_units(time, len, old_len, unit);
        }
        self.lengths.push((time, len));
    }

    pub(super) fn punch(&mut self, time: usize, offset: usize, len: usize) {
        self.current.punch(offset, len);
        self.punches.push((time, offset, len));
    }

    /// A sync of the directory commits the journal, and with it the holes that were made before.
    pub(super) fn settle_punches(&mut self) {
        for (_, offset, len) in self.punches.drain(..) {
            self.durable.punch(offset, len);
        }
    }

    /// Remembers what the units between two offsets hold now.
    fn note_units(&mut self, time: usize, start: usize, end: usize, unit: usize) {
        for number in start / unit..end.div_ceil(unit) {
            let mut bytes = vec![0; unit].into_boxed_slice();
            self.current.read(number * unit, &mut bytes);
            let versions = self.units.entry(number).or_default();
            if self.is_window && versions.len() == WINDOW_VERSIONS {
                versions.remove(0);
            }
            versions.push(Version { time, bytes });
        }
    }

    pub(super) fn sync(&mut self, unit: usize) {
        let Some(lost) = self.lost else {
            *self = Self::new(self.current.clone(), self.is_window);
            return;
        };
        self.settle_punches();
        // Only what was touched after the failed sync is dirty, hence written now.
        let len = self.current.len();
        for (number, versions) in &self.units {
            if let Some(last) = versions.last().filter(|v| v.time > lost) {
                let start = number * unit;
                let end = len.min(start + unit).max(start);
                self.durable.write(start, &last.bytes[..end - start]);
            }
        }
        self.units.retain(|_, versions| versions.last().is_none_or(|v| v.time <= lost));
        if self.lengths.last().is_some_and(|(time, _)| *time > lost) {
            self.durable.set_len(len);
            self.lengths.clear();
        }
    }

    pub(super) fn lose_sync(&mut self, time: usize) {
        self.lost = Some(time);
    }
}
