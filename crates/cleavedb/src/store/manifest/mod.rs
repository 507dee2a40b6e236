//! The manifest: a log of edits, the one commit point for the set of live files.
//!
//! Every edit is written twice, in one write, and synced before it takes effect. The second copy
//! tells bit rot from a torn write: a crash leaves the first copy, or nothing, behind the last
//! synced edit; a damaged copy followed by something valid was damaged later. An open after a
//! crash, or of a copy, and a manifest that has grown long begin a new file with the whole state in
//! one edit.

pub(crate) mod text;
mod unexposed;
mod current;
mod volume_identity;
mod changes;
mod edit;
mod live;
mod read;
mod followed;

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{FileIdentity, Header, RecordKind, put_record};
use cleavedb_base::{Error, FileNumber, KeyspaceId, Result};
use cleavedb_index::TableStore;
use cleavedb_storage::api::{read_exact_at, write_all_at};
use cleavedb_storage::{Access, File, FileKind, Mode, MultiDirStorage, Name, RemoveMode, Storage};

pub(crate) use changes::{ChangeLog, ChangesEdit, KeptChanges, LoadedRange};
pub(crate) use current::Current;
pub(crate) use edit::{Edit, ReplayHead, Session};
pub(crate) use followed::{Followed, ManifestMark, News};
pub(crate) use live::LiveFiles;
pub(crate) use read::{Loaded, StoredManifest, next_record, read_copies};
pub(crate) use volume_identity::VolumeIdentity;

/// A manifest is replaced by a new one when its length is `GROWTH` times that of the state that it
/// began with, but never below `LEN_MIN` bytes and, unless the state alone is longer, at `LEN_MAX`
/// bytes at the latest.
const GROWTH: u64 = 4;
const LEN_MIN: u64 = 64 << 10;
pub(crate) const LEN_MAX: u64 = 4 << 20;

/// File numbers that one edit reserves, which saves a sync per new file.
const NUMBERS_RESERVED: u64 = 1000;

/// The manifest, open for edits.
pub(crate) struct Manifest {
    storage: Arc<MultiDirStorage>,
    current: Current,
    /// Opened for the first edit.
    file: Option<Arc<dyn File>>,
    identity: FileIdentity,
    offset: u64,
    /// Length of the initial state of the file, as far as it is known.
    state_len: u64,
    /// Length at which the file is replaced by a new one.
    len_max: u64,
    /// The live files.
    live: LiveFiles,
    /// Next number to use; numbers up to `live.next_file` are reserved on disk.
    next_file: u64,
    written: u64,
    /// Whether a failure from here on leaves the content of the disk unknown.
    in_doubt: bool,
}

impl Manifest {
    /// Reads the manifest that `current` names.
    pub(crate) fn load(
        storage: &dyn Storage,
        current: &Current,
        tables: &Arc<TableStore>,
    ) -> Result<Loaded> {
        StoredManifest::read(storage, current)?.load(tables)
    }

    /// Continues the manifest that `current` names, in whose directory nothing else was changed.
    /// Nothing is written before the first edit.
    pub(crate) fn resume(storage: Arc<MultiDirStorage>, current: Current, loaded: Loaded) -> Self {
        let Loaded { live, len, is_whole, .. } = loaded;
        let number = current.manifest;
        let state_len = 2 * live.export().encode().len() as u64;
        Self {
            storage,
            identity: FileIdentity::new(current.database_id, number),
            current,
            file: None,
            offset: len,
            state_len,
            // A manifest that cannot be continued is replaced before the first edit.
            len_max: if is_whole { len_max(state_len) } else { 0 },
            // A close that has begun a new manifest released its number again.
            next_file: live.next_file.max(number.0 + 1),
            live,
            written: 0,
            in_doubt: false,
        }
    }

    /// A manifest of this state that is never written: that of a reader beside the writer.
    pub(crate) fn of_reader(storage: Arc<MultiDirStorage>, followed: &Followed) -> Self {
        let (live, len) = (followed.live().clone(), followed.len());
        let loaded = Loaded { live, len, is_whole: true, healed: 0 };
        Self::resume(storage, followed.current().clone(), loaded)
    }

    /// A manifest as [`Self::of_reader`] makes it, but without a live file.
    pub(crate) fn of_nothing(
        storage: Arc<MultiDirStorage>,
        followed: &Followed,
        tables: &Arc<TableStore>,
    ) -> Self {
        let live = LiveFiles::empty(tables);
        let loaded = Loaded { live, len: followed.len(), is_whole: true, healed: 0 };
        Self::resume(storage, followed.current().clone(), loaded)
    }

    /// Whether `storage` holds manifest `number` of a database, with at least one edit.
    pub(crate) fn is_there(
        storage: &dyn Storage,
        number: FileNumber,
        database_id: u64,
    ) -> Result<bool> {
        let name = Name::numbered(FileKind::Manifest, number);
        let failed = |e| Error::io("read the manifest", e).with("file", name);
        let file = match storage.open(&name, Mode::Read, Access::Sequential) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(failed(e)),
        };
        let mut bytes = vec![0; file.len().map_err(failed)? as usize];
        read_exact_at(&*file, &mut bytes, 0).map_err(failed)?;
        let identity = FileIdentity::new(database_id, number);
        Ok(read_copies(&bytes, identity, &mut 0)?.is_some())
    }

    /// Begins the new manifest that `current` names, with the content `live`, and makes it the
    /// current one.
    pub(crate) fn begin(
        storage: Arc<MultiDirStorage>,
        current: Current,
        live: LiveFiles,
    ) -> Result<Self> {
        let manifest = Self::prepare(storage, current, live)?;
        manifest.take_effect()?;
        Ok(manifest)
    }

    /// Writes the manifest that `current` will name, and the files that will name it, none of which
    /// is valid yet. After a failure the manifest is removed.
    fn prepare(storage: Arc<MultiDirStorage>, current: Current, live: LiveFiles) -> Result<Self> {
        let number = current.manifest;
        let mut live = live;
        live.next_file = live.next_file.max(number.0 + 1);
        let name = Name::numbered(FileKind::Manifest, number);
        let file = storage
            .open(&name, Mode::CreateNew, Access::Random)
            .map_err(|e| Error::io("create the manifest", e).with("file", name))?;
        let mut manifest = Self {
            storage,
            identity: FileIdentity::new(current.database_id, number),
            current,
            file: Some(file),
            offset: 0,
            state_len: 0,
            len_max: 0,
            next_file: number.0 + 1,
            live,
            written: 0,
            in_doubt: false,
        };
        let written = manifest.append(&manifest.live.export());
        if let Err(e) = written.and_then(|()| manifest.prepare_names()) {
            // If it cannot be removed now it is an orphan, which the next open removes.
            let _ = manifest.storage.remove(&name, RemoveMode::Immediate);
            return Err(e);
        }
        (manifest.state_len, manifest.len_max) = (manifest.offset, len_max(manifest.offset));
        Ok(manifest)
    }

    /// Writes the files that will name this manifest, here and in every volume.
    fn prepare_names(&self) -> Result<()> {
        let Current { database_id, manifest, .. } = self.current;
        for (at, volume) in self.storage.volumes().enumerate() {
            let stamp = VolumeIdentity { database_id, number: at + 1, manifest };
            let written = stamp.prepare(&*volume.storage).map_err(Error::with_remedy);
            written.map_err(|e| e.with("volume", &volume.path))?;
        }
        self.current.prepare(&*self.storage)
    }

    /// Makes a prepared manifest the current one. The stamps of the volumes are replaced first, see
    /// `stamp`.
    fn take_effect(&self) -> Result<()> {
        let synced = self.storage.sync_dir();
        synced.map_err(|e| Error::sync_failed("the directory", e))?;
        if !planted(Bug::VolumeStampedLate) {
            self.stamp_volumes()?;
        }
        Current::replace(&*self.storage)?;
        if planted(Bug::VolumeStampedLate) {
            self.stamp_volumes()?;
        }
        Ok(())
    }

    /// Writes this manifest's number to the stamp of every volume.
    fn stamp_volumes(&self) -> Result<()> {
        for volume in self.storage.volumes() {
            let stamped = VolumeIdentity::replace(&*volume.storage).map_err(Error::with_remedy);
            stamped.map_err(|e| e.with("volume", &volume.path))?;
        }
        Ok(())
    }

    /// The live files.
    pub(crate) fn live(&self) -> &LiveFiles {
        &self.live
    }

    /// What `current` says.
    pub(crate) fn current(&self) -> &Current {
        &self.current
    }

    /// Name of the manifest's file.
    pub(crate) fn name(&self) -> Name {
        Name::numbered(FileKind::Manifest, self.current.manifest)
    }

    /// Greatest initial length of the next manifest, in bytes.
    pub(crate) fn next_len_max(&self) -> u64 {
        self.offset.min(self.state_len.saturating_mul(2)).max(self.offset / 2)
    }

    /// Replaces the file at half the usual length, since the disk is full.
    pub(crate) fn keep_short(&mut self) {
        self.len_max = self.len_max.min(self.state_len.max(LEN_MIN / GROWTH) * GROWTH / 2);
    }

    /// Lets the next edit begin a new file if this one is long compared with the current state.
    pub(crate) fn forget_what_went(&mut self) {
        if self.offset > LEN_MIN {
            let state_len = 2 * self.live.export().encode().len() as u64;
            self.len_max = self.len_max.min(len_max(state_len));
        }
    }

    /// Bytes written so far, to all files.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Makes `edit` durable and then applies it. After an error it is open whether the file holds
    /// it, if the manifest [is in doubt](Self::is_in_doubt): the caller poisons the database.
    pub(crate) fn commit(&mut self, edit: &Edit) -> Result<()> {
        // Before the state is copied: the new file reserves numbers.
        if self.offset > self.len_max {
            match self.replace() {
                // The old file can still be used for a while.
                Err(_) if !self.in_doubt && self.len_max > 0 => {
                    (self.state_len, self.len_max) = (self.offset, self.offset + LEN_MIN);
                }
                replaced => replaced?,
            }
        }
        self.open()?;
        self.in_doubt = true;
        // Applied to a copy first: an edit that contradicts the state must not reach the disk.
        let mut live = self.live.clone();
        live.apply(edit)?;
        self.append(edit)?;
        self.live = live;
        self.in_doubt = false;
        Ok(())
    }

    /// Whether the last commit failed in a way that leaves the content of the disk unknown.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// The file, which is opened for the first edit.
    fn open(&mut self) -> Result<Arc<dyn File>> {
        if let Some(file) = &self.file {
            return Ok(file.clone());
        }
        let opened = self.storage.open(&self.name(), Mode::ReadWrite, Access::Random);
        let name = self.name();
        let file =
            opened.map_err(|e| Error::unopened("write the manifest", e).with("file", name))?;
        Ok(self.file.insert(file).clone())
    }

    fn append(&mut self, edit: &Edit) -> Result<()> {
        let payload = edit.encode();
        let header = Header::new(RecordKind::Edit, KeyspaceId(0), 0, &[], &payload);
        let len = header.record_len() as u64;
        let mut bytes = Vec::with_capacity(2 * len as usize);
        for copy in 0..2 {
            let offset = self.offset + copy * len;
            put_record(&mut bytes, &header, &[], &payload, self.identity, offset);
        }
        let name = self.name();
        let failed = |e| Error::io("write the manifest", e).with("file", name);
        let file = self.open()?;
        write_all_at(&*file, &bytes, self.offset).map_err(failed)?;
        file.sync().map_err(|e| Error::sync_failed("the manifest", e).with("file", name))?;
        self.offset += bytes.len() as u64;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Continues in a new file that begins with the whole state.
    fn replace(&mut self) -> Result<()> {
        let old = self.name();
        let current = Current { manifest: self.take_number(), ..self.current.clone() };
        let mut new = Self::prepare(self.storage.clone(), current, self.live.clone())?;
        self.in_doubt = true;
        new.take_effect()?;
        new.written += self.written;
        *self = new;
        // If it cannot be removed now it is an orphan, which the next open removes.
        let _ = self.storage.remove(&old, RemoveMode::Immediate);
        Ok(())
    }

    /// The next unused file number, before an edit reserves it: for files that prove nothing if the
    /// edit fails.
    pub(crate) fn take_number(&mut self) -> FileNumber {
        self.next_file += 1;
        FileNumber(self.next_file - 1)
    }

    /// The end of the reserved numbers after an edit, so that the next ones need no edit.
    pub(crate) fn numbers_reserved(&self) -> u64 {
        self.next_file + NUMBERS_RESERVED
    }

    /// The first number that was not used.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_file
    }

    /// Continues the numbers at `number` or above, and the edits in a new file: files of a copy are
    /// thereby never taken for those of its original.
    pub(crate) fn become_a_copy(&mut self, number: u64) {
        self.next_file = self.next_file.max(number);
        self.begin_anew();
    }

    /// Lets the next edit begin a new file, whose number the volumes store: it reveals an older
    /// copy of a volume.
    pub(crate) fn begin_anew(&mut self) {
        self.len_max = 0;
    }

    /// An unused file number.
    pub(crate) fn allocate(&mut self) -> Result<FileNumber> {
        if self.next_file >= self.live.next_file {
            let next_file = Some(self.next_file + NUMBERS_RESERVED);
            self.commit(&Edit { next_file, ..Edit::default() })?;
        }
        self.next_file += 1;
        Ok(FileNumber(self.next_file - 1))
    }
}

/// Length at which a manifest with an initial state of `len` bytes is replaced.
fn len_max(len: u64) -> u64 {
    (GROWTH * len).clamp(LEN_MIN, LEN_MAX.max(2 * len))
}

#[cfg(test)]
mod tests;
