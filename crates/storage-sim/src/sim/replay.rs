//! A walk through a record, stopping between operations to see what a crash there may leave.
//!
//! Rules of a power loss (stricter than any one file system, so that all of them are covered):
//!
//! * A sync makes the bytes and the length of a file durable, not its name; a sync of the directory
//!   makes names durable, not bytes.
//! * Every sector (512 bytes) of what is not synced holds, independently of all others, its old
//!   bytes or any content that it had since. The length is any that the file had since.
//! * What the file grew by but no surviving write covers is zeros, noise, or stale data.
//! * Creations, renames and removals survive up to some point, or each on its own (strict); a
//!   rename is atomic. A file without a durable name vanishes.
//! * A hole that was punched into a file may have reached the disk or not, until the file or the
//!   directory is synced.
//! * After a failed sync, what it did not write stays uncertain, whatever later syncs return.
//! * A window is a file that is never synced.
//!
//! If only the process dies, everything that was written survives, window stores included.

use std::collections::BTreeMap;

use cleavedb_storage::{FileKind, Name};

use super::content::{CHUNK, Content};
use super::event::{Event, FileId};
use super::image::Image;
use super::pending::Pending;

/// Bytes that a disk writes at once or not at all.
pub const SECTOR: usize = 512;

/// A change of the directory.
#[derive(Clone, Copy)]
pub(super) enum NameChange {
    Create(Name, FileId),
    /// The file of the id, wherever it was, gets the name.
    Rename(Name, FileId),
    Remove(Name, FileId),
}

impl NameChange {
    pub(super) fn apply(self, names: &mut BTreeMap<Name, FileId>) {
        match self {
            Self::Create(name, file) => _ = names.insert(name, file),
            Self::Rename(to, file) => {
                names.retain(|_, f| *f != file);
                names.insert(to, file);
            }
            Self::Remove(name, file) => {
                if names.get(&name) == Some(&file) {
                    names.remove(&name);
                }
            }
        }
    }
}

/// A position between two recorded operations, and all that is durable or pending there.
pub struct Replay {
    history: Vec<Event>,
    point: usize,
    pub(super) unit: usize,
    pub(super) files: BTreeMap<FileId, Pending>,
    names: BTreeMap<Name, FileId>,
    pub(super) durable_names: BTreeMap<Name, FileId>,
    /// Changes of names since they were durable, with their times.
    pub(super) name_changes: Vec<(usize, NameChange)>,
    /// How often the machine had lost power before.
    pub(super) boots: u64,
    is_detached: bool,
}

impl Replay {
    pub(super) fn new(initial: &Image, history: Vec<Event>, unit: usize) -> Self {
        let valid = unit.is_power_of_two() && unit <= CHUNK;
        assert!(valid, "a disk cannot write units of {unit} bytes: not a power of two in a page");
        let mut replay = Self {
            history,
            point: 0,
            unit,
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            name_changes: Vec::new(),
            boots: initial.boots,
            is_detached: initial.is_detached,
        };
        for (number, (name, content)) in initial.files.iter().enumerate() {
            // The simulator numbers the files of an image in the same order.
            let file = FileId(number as u64);
            let is_window = name.kind() == FileKind::Window;
            replay.files.insert(file, Pending::new(content.clone(), is_window));
            replay.names.insert(*name, file);
        }
        replay.durable_names = replay.names.clone();
        replay
    }

    /// The crash point: how many operations happened before it.
    pub fn point(&self) -> usize {
        self.point
    }

    /// The last crash point: the end of the record.
    pub fn last_point(&self) -> usize {
        self.history.len()
    }

    /// The operations before the crash point, latest first; for messages.
    pub fn before(&self) -> impl Iterator<Item = &Event> {
        self.history[..self.point].iter().rev()
    }

    /// Walks on to `point`, which is not before the present one.
    ///
    /// # Panics
    /// If `point` lies behind, or beyond the record.
    pub fn advance(&mut self, point: usize) {
        assert!(point >= self.point, "a replay does not walk back from {} to {point}", self.point);
        while self.point < point {
            let event = self.history[self.point].clone();
            self.apply(&event);
            self.point += 1;
        }
    }

    fn apply(&mut self, event: &Event) {
        let (time, unit) = (self.point, self.unit);
        match event {
            Event::Create { file, name } => {
                let is_window = name.kind() == FileKind::Window;
                self.files.insert(*file, Pending::new(Content::default(), is_window));
                self.names.insert(*name, *file);
                self.name_changes.push((time, NameChange::Create(*name, *file)));
            }
            Event::Rename { file, from, to } => {
                self.names.remove(from);
                self.names.insert(*to, *file);
                self.name_changes.push((time, NameChange::Rename(*to, *file)));
            }
            Event::Remove { file, name } => {
                self.names.remove(name);
                self.name_changes.push((time, NameChange::Remove(*name, *file)));
            }
            Event::SyncDir => self.sync_dir(),
            Event::Write { file, offset, bytes } => {
                self.on(*file, |f| f.write(time, *offset as usize, bytes, unit));
            }
            Event::Truncate { file, len } => {
                self.on(*file, |f| f.truncate(time, *len as usize, unit));
            }
            Event::Punch { file, offset, len } => {
                self.on(*file, |f| f.punch(time, *offset as usize, *len as usize));
            }
            Event::Sync { file } => self.on(*file, |f| f.sync(unit)),
            Event::LoseSync { file } => self.on(*file, |f| f.lose_sync(time)),
        }
    }

    /// Changes a file, unless no crash can bring it back, however long it is still open.
    fn on(&mut self, file: FileId, change: impl FnOnce(&mut Pending)) {
        if let Some(pending) = self.files.get_mut(&file) {
            change(pending);
        }
    }

    fn sync_dir(&mut self) {
        self.durable_names.clone_from(&self.names);
        self.name_changes.clear();
        let mut named: Vec<FileId> = self.names.values().copied().collect();
        named.sort_unstable();
        self.files.retain(|file, _| named.binary_search(file).is_ok());
        self.files.values_mut().for_each(Pending::settle_punches);
    }

    /// What the disk holds if only the process dies at this point.
    pub fn process_kill(&self) -> Image {
        let content = |file: &FileId| self.files[file].current.clone();
        let files = self.names.iter().map(|(n, f)| (*n, content(f))).collect();
        Image { files, boots: self.boots, is_detached: self.is_detached }
    }

    /// What the disk holds if the process dies in the middle of the next operation, after `len`
    /// bytes of it were copied; `None` if that operation is not a write of more than `len` bytes.
    pub fn process_kill_within(&self, len: usize) -> Option<Image> {
        let Some(Event::Write { file, offset, bytes }) = self.history.get(self.point) else {
            return None;
        };
        let (name, _) = self.names.iter().find(|(_, f)| *f == file)?;
        // A word of a window is stored at once.
        if name.kind() == FileKind::Window && bytes.len() == 8 && offset.is_multiple_of(8) {
            return None;
        }
        let mut image = self.process_kill();
        image.files.get_mut(name)?.write(*offset as usize, bytes.get(..len)?);
        (len < bytes.len()).then_some(image)
    }
}
