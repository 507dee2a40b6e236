//! The directory as running programs see it, and the record of what they did to it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::Arc;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::sync::atomic::{AtomicUsize, Ordering};
use cleavedb_storage::{FileKind, Name};
use rustix::io::Errno;

use super::content::Content;
use super::event::{Event, FileId};
use super::image::Image;

/// A file that has a name or is open.
#[derive(Default)]
pub(super) struct Inode {
    pub(super) content: Content,
    /// Length that the last sync made durable; no byte below it may be rewritten.
    synced_len: usize,
    /// Length that space is reserved for.
    allocated: u64,
    /// Bytes of its space that another file has as well: they are not taken from this disk, and
    /// not given back to it.
    shared: u64,
    /// Numbers of the blocks that were given back.
    holes: BTreeSet<u64>,
    /// Open handles; a file without a name lives until the last is closed.
    handles: usize,
    has_name: bool,
    /// Whether it may be changed where it was synced: a window, or one that holds nothing.
    is_exempt: bool,
}

impl Inode {
    pub(super) fn space(&self) -> u64 {
        let block = BLOCK as u64;
        let end = self.allocated.max(self.content.len() as u64);
        // The last hole may be cut.
        let beyond = self.holes.last().map_or(0, |last| ((last + 1) * block).saturating_sub(end));
        end - (self.holes.len() as u64 * block - beyond)
    }

    /// Space that is not shared with another file.
    fn own_space(&self) -> u64 {
        self.space().saturating_sub(self.shared)
    }
}

/// Everything behind the lock of a simulator.
pub(super) struct State {
    pub(super) names: BTreeMap<Name, FileId>,
    pub(super) durable_names: BTreeMap<Name, FileId>,
    files: HashMap<FileId, Inode>,
    next_file: u64,
    pub(super) foreign: Vec<String>,
    /// Whether a handle has the lock for itself, and how many share it.
    pub(super) locked: bool,
    pub(super) readers: usize,
    /// The process that is alive: what belongs to an earlier one changes nothing.
    pub(super) process: u64,
    pub(super) capacity: u64,
    /// Number of reservations for which there was no room.
    pub(super) refused: u64,
    pub(super) write_once: bool,
    pub(super) window_survives: bool,
    pub(super) memory: u64,
    /// Tells this directory from a copy.
    pub(super) directory_id: u64,
    /// What the disk held before the first event.
    pub(super) initial: Image,
    /// `None` once recording was switched off.
    pub(super) history: Option<Vec<Event>>,
    /// When each operation of the history was, on the clock.
    pub(super) times: Vec<usize>,
    /// Operations of all disks of the machine so far.
    pub(super) clock: Arc<AtomicUsize>,
}

impl State {
    pub(super) fn new(image: Image, clock: Arc<AtomicUsize>) -> Self {
        let mut state = Self {
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            files: HashMap::new(),
            next_file: 0,
            foreign: Vec::new(),
            locked: false,
            readers: 0,
            process: 0,
            capacity: u64::MAX,
            refused: 0,
            write_once: true,
            window_survives: true,
            memory: 0,
            directory_id: 1,
            initial: image,
            history: Some(Vec::new()),
            times: Vec::new(),
            clock,
        };
        let is_detached = state.initial.is_detached;
        for (name, content) in &state.initial.files {
            let file = FileId(state.next_file);
            state.next_file += 1;
            state.names.insert(*name, file);
            let is_uncertain = is_detached && name.kind() == FileKind::Log;
            let inode = Inode {
                content: content.clone(),
                synced_len: if is_uncertain { 0 } else { content.len() },
                has_name: true,
                is_exempt: is_exempt(name),
                ..Inode::default()
            };
            state.files.insert(file, inode);
        }
        state.durable_names = state.names.clone();
        state
    }

    fn record(&mut self, event: Event) {
        if let Some(history) = &mut self.history {
            history.push(event);
            self.times.push(self.clock.fetch_add(1, Ordering::Relaxed));
        }
    }

    /// Makes all files clones of others.
    pub(super) fn share(&mut self) {
        self.files.values_mut().for_each(|inode| inode.shared = inode.space());
    }

    /// The file called `name`.
    pub(super) fn find(&self, name: &Name) -> io::Result<FileId> {
        self.names.get(name).copied().ok_or_else(|| Errno::NOENT.into())
    }

    /// The inode of an open or named file.
    pub(super) fn inode(&self, file: FileId) -> &Inode {
        &self.files[&file]
    }

    fn inode_mut(&mut self, file: FileId) -> &mut Inode {
        self.files.get_mut(&file).expect("a file lives while it is open or has a name")
    }

    pub(super) fn create(&mut self, name: &Name) -> io::Result<FileId> {
        if self.names.contains_key(name) {
            return Err(Errno::EXIST.into());
        }
        let file = FileId(self.next_file);
        self.next_file += 1;
        let is_exempt = is_exempt(name);
        self.files.insert(file, Inode { has_name: true, is_exempt, ..Inode::default() });
        self.names.insert(*name, file);
        self.record(Event::Create { file, name: *name });
        Ok(file)
    }

    pub(super) fn open(&mut self, file: FileId) {
        self.inode_mut(file).handles += 1;
    }

    pub(super) fn close(&mut self, file: FileId) {
        self.inode_mut(file).handles -= 1;
        self.free(file);
    }

    /// Forgets a file without a name or a handle.
    fn free(&mut self, file: FileId) {
        let inode = self.inode(file);
        if inode.handles == 0 && !inode.has_name {
            self.files.remove(&file);
        }
    }

    fn unlink(&mut self, file: FileId) {
        self.inode_mut(file).has_name = false;
        self.free(file);
    }

    pub(super) fn rename(&mut self, from: &Name, to: &Name) -> io::Result<()> {
        let file = self.find(from)?;
        if from == to {
            return Ok(());
        }
        self.names.remove(from);
        if let Some(replaced) = self.names.insert(*to, file) {
            self.unlink(replaced);
        }
        self.record(Event::Rename { file, from: *from, to: *to });
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &Name) -> io::Result<()> {
        let file = self.find(name)?;
        self.names.remove(name);
        self.unlink(file);
        self.record(Event::Remove { file, name: *name });
        Ok(())
    }

    pub(super) fn sync_dir(&mut self) {
        self.durable_names = self.names.clone();
        self.record(Event::SyncDir);
    }

    /// Panics if the file may not be changed at `offset`.
    fn check_write_once(&self, file: FileId, offset: usize, what: &str) {
        let inode = self.inode(file);
        let allowed = !self.write_once || inode.is_exempt || offset >= inode.synced_len;
        assert!(
            allowed,
            "write-once is broken: {what} of {} at {offset}, below its synced length {}",
            self.spell(file),
            inode.synced_len
        );
    }

    fn spell(&self, file: FileId) -> String {
        let name = self.names.iter().find(|(_, f)| **f == file);
        name.map_or_else(|| format!("{file}, which has no name"), |(name, _)| name.to_string())
    }

    /// Bytes that files may still grow by.
    pub(super) fn free_space(&self) -> u64 {
        let used = self.files.values().map(Inode::own_space).sum();
        self.capacity.saturating_sub(used)
    }

    /// Length up to which the file may be written before the disk is full.
    fn room(&self, file: FileId) -> u64 {
        if self.capacity == u64::MAX {
            return u64::MAX;
        }
        self.inode(file).space() + self.free_space()
    }

    /// Writes what there is room for, in whole multiples of `alignment`.
    pub(super) fn write(
        &mut self,
        file: FileId,
        offset: u64,
        bytes: &[u8],
        alignment: usize,
    ) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let start = usize::try_from(offset).map_err(|_| Errno::FBIG)?;
        self.check_write_once(file, start, "a write");
        let room = usize::try_from(self.room(file).saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = if room < bytes.len() { room - room % alignment } else { bytes.len() };
        if len == 0 {
            return Err(Errno::NOSPC.into());
        }
        self.put(file, start, &bytes[..len]);
        Ok(len)
    }

    /// Writes and records, without asking for room: the part that stores into windows share.
    pub(super) fn put(&mut self, file: FileId, offset: usize, bytes: &[u8]) {
        let inode = self.inode_mut(file);
        inode.content.write(offset, bytes);
        if !inode.holes.is_empty() {
            let written = (offset / BLOCK) as u64..(offset + bytes.len()).div_ceil(BLOCK) as u64;
            inode.holes.retain(|block| !written.contains(block));
        }
        if self.history.is_some() {
            self.record(Event::Write { file, offset: offset as u64, bytes: Arc::from(bytes) });
        }
    }

    pub(super) fn truncate(&mut self, file: FileId, len: u64) -> io::Result<()> {
        let new_len = usize::try_from(len).map_err(|_| Errno::FBIG)?;
        let old_len = self.inode(file).content.len();
        if new_len <= old_len {
            // As on a real disk, what was reserved behind the new end goes, even if it is the old
            // one.
            let inode = self.inode_mut(file);
            inode.allocated = inode.allocated.min(len);
            inode.shared = inode.shared.min(len);
        }
        if new_len == old_len {
            return Ok(());
        }
        self.check_write_once(file, new_len, "a truncation");
        let inode = self.inode_mut(file);
        if new_len < old_len {
            inode.holes.retain(|block| block * (BLOCK as u64) < len);
        }
        inode.synced_len = inode.synced_len.min(new_len);
        inode.content.set_len(new_len);
        self.record(Event::Truncate { file, len });
        Ok(())
    }

    pub(super) fn allocate(&mut self, file: FileId, len: u64) -> io::Result<()> {
        if len > self.room(file) {
            self.refused += 1;
            return Err(Errno::NOSPC.into());
        }
        let inode = self.inode_mut(file);
        let end = inode.allocated.max(inode.content.len() as u64);
        if len > end {
            inode.holes.remove(&(end / BLOCK as u64));
        }
        inode.allocated = inode.allocated.max(len);
        Ok(())
    }

    /// Gives back a range, which may lie below the synced length. The caller promises that it will
    /// not be read any more; in the replay it may hold its old bytes or zeros.
    pub(super) fn punch(&mut self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| Errno::FBIG)?;
        let inode = self.inode_mut(file);
        let before = inode.space();
        inode.content.punch(start, usize::try_from(len).map_err(|_| Errno::FBIG)?);
        let end = offset.saturating_add(len).min(inode.content.len() as u64);
        inode.holes.extend(offset.div_ceil(BLOCK as u64)..end / BLOCK as u64);
        inode.shared = inode.shared.saturating_sub(before - inode.space());
        self.record(Event::Punch { file, offset, len });
        Ok(())
    }

    pub(super) fn sync(&mut self, file: FileId) {
        let inode = self.inode_mut(file);
        inode.synced_len = inode.content.len();
        self.record(Event::Sync { file });
    }

    pub(super) fn lose_sync(&mut self, file: FileId) {
        self.record(Event::LoseSync { file });
    }

    /// Stores into a window. What follows the store before without a gap is one operation with it:
    /// how much of it a crash leaves is chosen all the same.
    pub(super) fn store(&mut self, file: FileId, offset: usize, bytes: &[u8]) {
        if let Some(Event::Write { file: last, offset: begin, bytes: before }) =
            self.history.as_mut().and_then(|history| history.last_mut())
            && *last == file
            && *begin as usize + before.len() == offset
        {
            *before = [before, bytes].concat().into();
            self.inode_mut(file).content.write(offset, bytes);
            return;
        }
        self.put(file, offset, bytes);
    }

    /// What the disk would hold if everything were written back now.
    pub(super) fn image(&self) -> Image {
        let files = self.names.iter().map(|(n, f)| (*n, self.inode(*f).content.clone())).collect();
        let Image { boots, is_detached, .. } = self.initial;
        Image { files, boots, is_detached }
    }
}

fn is_exempt(name: &Name) -> bool {
    matches!(name.kind(), FileKind::Window | FileKind::Reserve)
}
