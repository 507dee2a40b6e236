//! The content of a manifest: the set of live files, and how an edit changes it.

use std::sync::Arc;

use cleavedb_base::{Error, FileNumber, Result, SeqNo, ValuePointer};
use cleavedb_index::{TableStore, Version};
use cleavedb_values::groups::Location;
use cleavedb_values::{GroupEdit, GroupTable, ValueFileEdit, ValueFiles, ValueLayout};

use super::changes::KeptChanges;
use super::edit::{Edit, ReplayHead, Session};
use super::unexposed::hidden_max;
use crate::control::totals::Totals;

/// The set of live files, as the last durable edit left it.
#[derive(Clone)]
pub(crate) struct LiveFiles {
    /// How values are kept; none before the first edit.
    pub(crate) layout: Option<ValueLayout>,
    pub(crate) version: Arc<Version>,
    pub(crate) value_files: ValueFiles,
    pub(crate) groups: Arc<GroupTable>,
    pub(crate) head: Option<ReplayHead>,
    pub(crate) next_file: u64,
    pub(crate) seq_limit: SeqNo,
    pub(crate) epoch: u64,
    /// Estimated bytes that the counts of live bytes include although they are dead: unexposed
    /// garbage.
    pub(crate) unexposed: u64,
    /// See [`Edit::min_separated`].
    pub(super) min_separated: u64,
    /// See [`Edit::space_limit`].
    pub(crate) space_limit: u64,
    /// The current session; none after a close.
    pub(crate) session: Option<Session>,
    /// Whether the last session ended with a close: then nothing may follow the end of the log.
    pub(crate) closed: bool,
    /// Every operation up to this sequence number is in a table.
    pub(crate) flushed: SeqNo,
    /// The directory of the database when it was last written; 0 if unknown.
    pub(crate) directory_id: u64,
    /// Counters of the database up to the last close.
    pub(crate) totals: Totals,
    pub(crate) changes: KeptChanges,
}

impl LiveFiles {
    /// An empty set, as in a new database.
    pub(crate) fn empty(tables: &Arc<TableStore>) -> Self {
        Self {
            version: Arc::new(Version::empty(tables.clone())),
            layout: None,
            value_files: ValueFiles::default(),
            groups: Arc::default(),
            head: None,
            next_file: 1,
            seq_limit: 1,
            epoch: 0,
            unexposed: 0,
            min_separated: 0,
            space_limit: 0,
            session: None,
            closed: false,
            flushed: 0,
            directory_id: 0,
            totals: Totals::default(),
            changes: KeptChanges::default(),
        }
    }

    pub(crate) fn apply(&mut self, edit: &Edit) -> Result<()> {
        if !edit.index.is_empty() {
            self.version = Arc::new(self.version.apply(&edit.index)?);
        }
        if let Some(layout) = edit.layout {
            if self.layout.is_some() {
                return Err(Error::corruption("the layout of a database is changed"));
            }
            self.layout = Some(layout);
            self.groups = Arc::new(GroupTable::new(layout.groups));
        }
        let mut value_files = self.value_files.clone();
        edit.value_files.iter().try_for_each(|change| value_files.apply(change))?;
        if !edit.groups.is_empty() {
            let mut groups = GroupTable::clone(&self.groups);
            edit.groups.iter().try_for_each(|change| groups.apply(change))?;
            self.groups = Arc::new(groups);
        }
        self.value_files = value_files;
        self.head = edit.head.or(self.head);
        self.next_file = edit.next_file.unwrap_or(self.next_file);
        self.seq_limit = edit.seq_limit.unwrap_or(self.seq_limit);
        self.epoch = edit.epoch.unwrap_or(self.epoch);
        self.unexposed = edit.unexposed.unwrap_or(self.unexposed).min(hidden_max(&self.version));
        self.min_separated = edit.min_separated.unwrap_or(self.min_separated);
        self.space_limit = edit.space_limit.unwrap_or(self.space_limit);
        if let Some(session) = edit.session {
            (self.session, self.closed) = (session, session.is_none());
        }
        self.flushed = edit.flushed.unwrap_or(self.flushed);
        self.directory_id = edit.directory_id.unwrap_or(self.directory_id);
        self.totals = edit.totals.unwrap_or(self.totals);
        self.changes.apply(&edit.changes);
        Ok(())
    }

    /// Forgets the log that is kept for readers of changes, as in a copy: its first session
    /// begins to keep it anew.
    pub(crate) fn without_changes(&mut self) {
        self.value_files.only_with_values();
        self.changes = KeptChanges::none_yet(self.changes.log.bytes);
    }

    pub(crate) fn export(&self) -> Edit {
        Edit {
            layout: self.layout,
            index: self.version.export(),
            value_files: self.value_files.export(),
            groups: self.groups.export(),
            head: self.head,
            next_file: Some(self.next_file),
            seq_limit: Some(self.seq_limit),
            epoch: Some(self.epoch),
            unexposed: Some(self.unexposed),
            min_separated: Some(self.min_separated),
            space_limit: Some(self.space_limit),
            session: (self.session.is_some() || self.closed).then_some(self.session),
            flushed: Some(self.flushed),
            directory_id: Some(self.directory_id),
            totals: Some(self.totals),
            changes: self.changes.export(),
        }
    }

    /// Estimated bytes of records that are still visible.
    pub(crate) fn estimated_live(&self) -> u64 {
        self.owned().saturating_sub(self.unexposed)
    }

    /// Least length that is separated, if one is saved.
    pub(crate) fn saved_separation(&self) -> Option<usize> {
        self.min_separated.checked_sub(1).map(|least| least as usize)
    }

    /// Bytes of records that index entries own.
    pub(crate) fn owned(&self) -> u64 {
        self.value_files.live() + self.groups.live()
    }

    /// The place that counts a pointer's record: its log file or segment, or its extent of a group.
    /// None if that does not exist any more.
    pub(crate) fn place_of(&self, pointer: ValuePointer) -> Option<Location> {
        let file = || self.value_files.get_whole(pointer.file);
        let extent = self.groups.extent_of(pointer).map(|extent| extent.place);
        extent.or_else(|| file().map(|_| Location::of_file(pointer.file)))
    }

    /// The places where live bytes are counted, with their numbers.
    pub(crate) fn live_by_place(&self) -> impl Iterator<Item = (Location, u64)> {
        let files = self.value_files.whole();
        let files = files.map(|(number, facts)| (Location::of_file(number), facts.live));
        files.chain(self.groups.extents().map(|extent| (extent.place, extent.live)))
    }

    /// Adds to `edit` that this number of bytes died at `place`; returns the number, or 0 if the
    /// place does not exist any more.
    pub(crate) fn remove_live(&self, place: Location, bytes: u64, edit: &mut Edit) -> u64 {
        if self.groups.has_extent(place) {
            edit.groups.push(GroupEdit::LiveRemoved(place, bytes));
        } else if place.offset == 0 && self.value_files.get_whole(place.file).is_some() {
            edit.value_files.push(ValueFileEdit::LiveRemoved(place.file, bytes));
        } else {
            return 0;
        }
        bytes
    }

    /// Bytes of values, without logs that replay still needs, which cannot be collected.
    pub(crate) fn value_bytes(&self) -> u64 {
        self.value_files.sealed(self.head_file()) + self.groups.bytes()
    }

    /// First log file that replay needs.
    pub(crate) fn head_file(&self) -> FileNumber {
        self.head.map_or(FileNumber(0), |head| head.file)
    }
}
