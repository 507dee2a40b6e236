//! What the engine does for readers of changes: the log from which they are told stays.

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{FileNumber, SeqNo};
use cleavedb_storage::segment::Segment;

use crate::engine::Engine;
use crate::store::manifest::{LiveFiles, LoadedRange};
use crate::store::retained_log::LogPart;

impl Engine {
    /// Whether readers may be told of what is written.
    pub(crate) fn tells(&self) -> bool {
        self.options.keeps_changes()
    }

    /// The first sequence number that readers may be told of, if they are told of any.
    pub(crate) fn first_told(&self) -> Option<SeqNo> {
        self.retained_log.first_seq()
    }

    /// Whether the log that a flush covers must be durable because readers are told from it: what
    /// they are told must not be lost where the operations, which are in tables, are not.
    pub(crate) fn tells_from_log(&self) -> bool {
        self.tells() && !planted(Bug::ChangesUnsynced)
    }

    /// Whether the log of a session must begin in a new file: one that goes on may have a hole,
    /// from a time when readers were told of nothing.
    pub(crate) fn begins_to_tell(&self, live: &LiveFiles) -> bool {
        self.tells() && !live.changes.are_kept() && !planted(Bug::ChangesBehindHole)
    }

    /// The log goes on in file `number`, with sequence numbers from `first_seq` on. The file before
    /// has ended at `previous_end`, if it is of the same session.
    pub(crate) fn log_goes_on(
        &self,
        number: FileNumber,
        base: u64,
        first_seq: SeqNo,
        previous_end: Option<u64>,
    ) {
        if self.tells() {
            self.retained_log.begin(number, base, first_seq, previous_end);
        } else if previous_end.is_none() {
            // A session that tells of nothing forgets what sessions before it retained.
            self.retained_log.drop_upto(FileNumber(u64::MAX));
            self.retained_log.set_first_seq(0);
        }
    }

    /// The log of another process ends in the files `last`, as far as it was read.
    pub(crate) fn log_was_read(&self, last: &[LogPart]) {
        self.retained_log.follow(last);
    }

    /// What readers are told of a bulk load, for its edit.
    pub(crate) fn told_of(&self, load: LoadedRange) -> Option<LoadedRange> {
        Some(load).filter(|_| self.tells() && !planted(Bug::LoadNotTold))
    }

    /// Readers are told of these bulk loads, which are not visible yet.
    pub(crate) fn tell(&self, loads: Vec<LoadedRange>) {
        loads.into_iter().for_each(|load| self.retained_log.loaded(load));
    }

    /// Whether a log file stays because readers are told from it, although `live` has no value in
    /// it. Readers of values may still have it as `segment`.
    pub(crate) fn stays_told(
        &self,
        live: &LiveFiles,
        number: FileNumber,
        segment: Option<&Arc<Segment>>,
    ) -> bool {
        let stays = live.value_files.is_retained(number);
        if let Some(segment) = segment.filter(|_| stays) {
            self.retained_log.hold(segment.clone());
        }
        stays
    }
}
