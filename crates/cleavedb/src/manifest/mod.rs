//! The manifest: a log of edits, the one commit point for the set of live files.
//!
//! Every edit is written twice, in one write, and synced before anybody acts on it. The second copy
//! is what tells rot from a torn write: a crash leaves the first copy, or nothing, behind the last
//! synced edit; a copy that is damaged while something valid follows was damaged later. An open
//! after a crash, or of a copy, and a manifest that has grown long begin a new file with the whole
//! state in one edit.

mod text;
mod current;
mod stamp;
mod edit;

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{FileIdentity, HEADER_LEN, Header, Record, RecordKind, put_record};
use cleavedb_base::{Error, FileNumber, KeyspaceId, Result, SeqNo};
use cleavedb_index::{TableStore, Version};
use cleavedb_storage::api::{read_exact_at, write_all_at};
use cleavedb_storage::{Access, File, FileKind, Mode, Name, Pace, Placed, Storage};
use cleavedb_values::{GroupTable, Ledger};

pub(crate) use current::Current;
pub(crate) use edit::{Edit, ReplayHead, Session};
pub(crate) use stamp::Stamp;

/// A manifest is replaced by a new one when it is so many times as long as the state that it began
/// with, but not below a length and, unless the state alone is long, not above another, in bytes.
const GROWTH: u64 = 4;
const LEN_MIN: u64 = 64 << 10;
pub(crate) const LEN_MAX: u64 = 4 << 20;

/// File numbers that one edit reserves: one sync for so many new files.
const NUMBERS_RESERVED: u64 = 1000;

/// The set of live files, as the last durable edit left it.
#[derive(Clone)]
pub(crate) struct LiveFiles {
    pub(crate) version: Arc<Version>,
    pub(crate) ledger: Ledger,
    pub(crate) groups: Arc<GroupTable>,
    pub(crate) head: Option<ReplayHead>,
    pub(crate) next_file: u64,
    pub(crate) seq_limit: SeqNo,
    pub(crate) epoch: u64,
    /// Estimated bytes that the ledger counts as live although they are dead.
    pub(crate) hidden: u64,
    /// What [`Edit::separation`] says.
    separation: u64,
    /// The session under way; none after a close.
    pub(crate) session: Option<Session>,
    /// Whether the last one ended with a close: then nothing follows the end of the log.
    pub(crate) closed: bool,
    /// Every operation up to this sequence number is in a table.
    pub(crate) flushed: SeqNo,
    /// The directory in which the database was when it was last written; 0 if nobody knows.
    pub(crate) directory_id: u64,
}

impl LiveFiles {
    /// Nothing, as in a new database.
    pub(crate) fn empty(tables: &Arc<TableStore>) -> Self {
        Self {
            version: Arc::new(Version::empty(tables.clone())),
            ledger: Ledger::default(),
            groups: Arc::default(),
            head: None,
            next_file: 1,
            seq_limit: 1,
            epoch: 0,
            hidden: 0,
            separation: 0,
            session: None,
            closed: false,
            flushed: 0,
            directory_id: 0,
        }
    }

    fn apply(&mut self, edit: &Edit) -> Result<()> {
        if !edit.index.is_empty() {
            self.version = Arc::new(self.version.apply(&edit.index)?);
        }
        let mut ledger = self.ledger.clone();
        edit.ledger.iter().try_for_each(|change| ledger.apply(change))?;
        if !edit.groups.is_empty() {
            let mut groups = GroupTable::clone(&self.groups);
            edit.groups.iter().try_for_each(|change| groups.apply(change))?;
            self.groups = Arc::new(groups);
        }
        self.ledger = ledger;
        self.head = edit.head.or(self.head);
        self.next_file = edit.next_file.unwrap_or(self.next_file);
        self.seq_limit = edit.seq_limit.unwrap_or(self.seq_limit);
        self.epoch = edit.epoch.unwrap_or(self.epoch);
        self.hidden = edit.hidden.unwrap_or(self.hidden).min(hidden_max(&self.version));
        self.separation = edit.separation.unwrap_or(self.separation);
        if let Some(session) = edit.session {
            (self.session, self.closed) = (session, session.is_none());
        }
        self.flushed = edit.flushed.unwrap_or(self.flushed);
        self.directory_id = edit.directory_id.unwrap_or(self.directory_id);
        Ok(())
    }

    fn export(&self) -> Edit {
        Edit {
            index: self.version.export(),
            ledger: self.ledger.export(),
            groups: self.groups.export(),
            head: self.head,
            next_file: Some(self.next_file),
            seq_limit: Some(self.seq_limit),
            epoch: Some(self.epoch),
            hidden: Some(self.hidden),
            separation: Some(self.separation),
            session: (self.session.is_some() || self.closed).then_some(self.session),
            flushed: Some(self.flushed),
            directory_id: Some(self.directory_id),
        }
    }

    /// Estimated bytes of records that somebody can still see.
    pub(crate) fn estimated_live(&self) -> u64 {
        self.owned().saturating_sub(self.hidden)
    }

    /// Least length that is separated, if one is saved.
    pub(crate) fn saved_separation(&self) -> Option<usize> {
        self.separation.checked_sub(1).map(|least| least as usize)
    }

    /// Bytes of records that index entries own.
    pub(crate) fn owned(&self) -> u64 {
        self.ledger.live() + self.groups.live()
    }

    /// Bytes that values take, but for logs that replay would need, which nobody may collect.
    pub(crate) fn value_bytes(&self) -> u64 {
        self.ledger.sealed(self.head_file()) + self.groups.bytes()
    }

    /// First log file that replay would need.
    pub(crate) fn head_file(&self) -> FileNumber {
        self.head.map_or(FileNumber(0), |head| head.file)
    }
}

/// Most bytes of records that can be hidden: each entry above the deepest level, a tombstone too,
/// may hide one record of average length.
fn hidden_max(version: &Version) -> u64 {
    let deepest = version.tables().map(|(level, _)| level).max().unwrap_or_default();
    let (mut owned, mut values, mut above) = (0, 0, 0);
    for (level, table) in version.tables() {
        let meta = table.meta();
        owned += meta.pointer_bytes;
        values += meta.entries - meta.tombstones;
        if level < deepest || deepest == 0 {
            above += meta.entries;
        }
    }
    above.saturating_mul(owned) / values.max(1)
}

/// The manifest, open for edits.
pub(crate) struct Manifest {
    storage: Arc<Placed>,
    current: Current,
    /// Opened for the first edit.
    file: Option<Arc<dyn File>>,
    identity: FileIdentity,
    offset: u64,
    /// Length at which the file is replaced by a new one.
    len_max: u64,
    /// The live files.
    live: LiveFiles,
    /// Next number to hand out; numbers up to `live.next_file` are reserved on disk.
    next_file: u64,
    written: u64,
}

/// What a manifest says, and whether edits may follow it.
pub(crate) struct Loaded {
    pub(crate) live: LiveFiles,
    /// Length of the edits.
    len: u64,
    /// Whether nothing follows them, and both copies of each are whole.
    is_whole: bool,
    /// Edits of which one copy was damaged.
    pub(crate) healed: u64,
}

impl Manifest {
    /// Reads the manifest that `current` names.
    pub(crate) fn load(
        storage: &dyn Storage,
        current: &Current,
        tables: &Arc<TableStore>,
    ) -> Result<Loaded> {
        let name = Name::numbered(FileKind::Manifest, current.manifest);
        let failed = |e| Error::unopened("read the manifest", e).with("file", name);
        let file = storage.open(&name, Mode::Read, Access::Sequential).map_err(failed)?;
        let mut bytes = vec![0; file.len().map_err(failed)? as usize];
        read_exact_at(&*file, &mut bytes, 0).map_err(failed)?;
        let identity = FileIdentity::new(current.database_id, current.manifest);
        let mut live = LiveFiles::empty(tables);
        let read = read_edits(&bytes, identity).map_err(|e| e.with("file", name))?;
        if read.edits.is_empty() {
            let what = "the manifest holds no edit; restore it from a backup";
            return Err(Error::corruption(what).with("file", name));
        }
        for edit in &read.edits {
            live.apply(edit).map_err(|e| e.with("file", name))?;
        }
        let copied = file.is_copied().map_err(failed)?;
        let is_whole = read.len == bytes.len() && read.healed == 0 && !copied;
        Ok(Loaded { live, len: read.len as u64, is_whole, healed: read.healed })
    }

    /// Goes on with the manifest that `current` names, in whose directory nothing else was changed.
    /// Nothing is written before the first edit.
    pub(crate) fn resume(storage: Arc<Placed>, current: Current, loaded: Loaded) -> Self {
        let Loaded { live, len, is_whole, .. } = loaded;
        Self {
            storage,
            identity: FileIdentity::new(current.database_id, current.manifest),
            current,
            file: None,
            offset: len,
            // What cannot be continued is replaced before the first edit.
            len_max: if is_whole { len_max(len) } else { 0 },
            next_file: live.next_file,
            live,
            written: 0,
        }
    }

    /// Whether manifest `number` of a database, with an edit or more, lies in `storage`.
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

    /// Begins the new manifest that `current` names, with `live` in it, and makes it the current
    /// one. The stamps of the volumes go first, see `stamp`.
    pub(crate) fn begin(storage: Arc<Placed>, current: Current, live: LiveFiles) -> Result<Self> {
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
            len_max: 0,
            next_file: number.0 + 1,
            live,
            written: 0,
        };
        manifest.append(&manifest.live.export())?;
        manifest.len_max = len_max(manifest.offset);
        let synced = manifest.storage.sync_dir();
        synced.map_err(|e| Error::sync_failed("the directory", e))?;
        if !planted(Bug::VolumeStampedLate) {
            manifest.stamp_volumes()?;
        }
        manifest.current.write(&*manifest.storage)?;
        if planted(Bug::VolumeStampedLate) {
            manifest.stamp_volumes()?;
        }
        Ok(manifest)
    }

    /// Says in every volume that it has seen this manifest.
    fn stamp_volumes(&self) -> Result<()> {
        let Current { database_id, manifest, .. } = self.current;
        for (at, volume) in self.storage.volumes().enumerate() {
            let stamp = Stamp { database_id, number: at + 1, manifest };
            let written = stamp.write(&*volume.storage).map_err(Error::with_remedy);
            written.map_err(|e| e.with("volume", &volume.path))?;
        }
        Ok(())
    }

    /// The live files.
    pub(crate) fn live(&self) -> &LiveFiles {
        &self.live
    }

    /// Name of the manifest's file.
    pub(crate) fn name(&self) -> Name {
        Name::numbered(FileKind::Manifest, self.current.manifest)
    }

    /// Bytes that the next manifest may begin with.
    pub(crate) fn next_len_max(&self) -> u64 {
        let state = self.len_max / GROWTH;
        self.offset.min(state.saturating_mul(2)).max(self.offset / 2)
    }

    /// Bytes written so far, all files counted.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Makes `edit` durable and then true. After an error the manifest's file may or may not hold
    /// it: the caller poisons the database.
    pub(crate) fn commit(&mut self, edit: &Edit) -> Result<()> {
        // Before the copy is made: the new file reserves numbers.
        if self.offset > self.len_max {
            self.replace()?;
        }
        // Applied to a copy first: an edit that contradicts the state must not reach the disk.
        let mut live = self.live.clone();
        live.apply(edit)?;
        self.append(edit)?;
        self.live = live;
        Ok(())
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
        let file = match &self.file {
            Some(file) => file.clone(),
            None => self.storage.open(&name, Mode::ReadWrite, Access::Random).map_err(failed)?,
        };
        write_all_at(&*file, &bytes, self.offset).map_err(failed)?;
        file.sync().map_err(|e| Error::sync_failed("the manifest", e).with("file", name))?;
        self.file = Some(file);
        self.offset += bytes.len() as u64;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Continues in a new file that begins with the whole state.
    fn replace(&mut self) -> Result<()> {
        let old = self.name();
        let current = Current { manifest: FileNumber(self.next_file), ..self.current.clone() };
        let mut new = Self::begin(self.storage.clone(), current, self.live.clone())?;
        new.written += self.written;
        *self = new;
        self.storage
            .remove(&old, Pace::Swift)
            .map_err(|e| Error::io("remove the old manifest", e).with("file", old))
    }

    /// The next file number that was never used, before an edit reserves it: for files that prove
    /// nothing if the edit does not come about.
    pub(crate) fn take_number(&mut self) -> FileNumber {
        self.next_file += 1;
        FileNumber(self.next_file - 1)
    }

    /// Where an edit puts the end of the numbers that are spoken for, so that others follow without
    /// an edit.
    pub(crate) fn numbers_reserved(&self) -> u64 {
        self.next_file + NUMBERS_RESERVED
    }

    /// The first number that was not handed out.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_file
    }

    /// Has the numbers go on at `number` or above, and a new file hold the edits: what a copy
    /// writes is never taken for what its original does.
    pub(crate) fn become_a_copy(&mut self, number: u64) {
        self.next_file = self.next_file.max(number);
        self.begin_anew();
    }

    /// Has the next edit begin a new file, whose number the volumes see: an older copy of one of
    /// them is noticed by it.
    pub(crate) fn begin_anew(&mut self) {
        self.len_max = 0;
    }

    /// A file number that was never used.
    pub(crate) fn allocate(&mut self) -> Result<FileNumber> {
        if self.next_file == self.live.next_file {
            let next_file = Some(self.next_file + NUMBERS_RESERVED);
            self.commit(&Edit { next_file, ..Edit::default() })?;
        }
        self.next_file += 1;
        Ok(FileNumber(self.next_file - 1))
    }
}

/// Length at which a manifest that began with a state of `len` bytes is replaced.
fn len_max(len: u64) -> u64 {
    (GROWTH * len).clamp(LEN_MIN, LEN_MAX.max(2 * len))
}

/// Edits that were read.
struct Read {
    edits: Vec<Edit>,
    /// Bytes that they take.
    len: usize,
    /// Edits of which one copy is damaged.
    healed: u64,
}

/// The edits of a manifest. Each stands there twice; one whole copy is enough.
fn read_edits(bytes: &[u8], identity: FileIdentity) -> Result<Read> {
    let mut read = Read { edits: Vec::new(), len: 0, healed: 0 };
    while let Some((edit, whole)) = read_copies(bytes, identity, &mut read.len)? {
        read.edits.push(edit);
        read.healed += u64::from(!whole);
    }
    // Every edit is synced before the next is written: a whole record behind the end means that the
    // end is damage and not a torn write. (A header alone may be the second copy's, torn as well.)
    let rest = read.len + 1..bytes.len().saturating_sub(HEADER_LEN);
    for later in rest {
        if Record::parse(&bytes[later..], identity, later as u64).is_ok() {
            let what = "an edit of the manifest is damaged; restore the database from a backup";
            return Err(Error::corruption(what).with("offset", read.len));
        }
    }
    Ok(read)
}

/// Reads the two copies of one edit at `offset`, which moves behind them, and says whether both are
/// whole.
fn read_copies(
    bytes: &[u8],
    identity: FileIdentity,
    offset: &mut usize,
) -> Result<Option<(Edit, bool)>> {
    let parse = |at: usize| {
        let record = Record::parse(bytes.get(at..)?, identity, at as u64).ok()?;
        (record.header.kind == RecordKind::Edit).then_some(record)
    };
    if let Some(first) = parse(*offset) {
        let len = first.header.record_len();
        let second = parse(*offset + len);
        *offset += 2 * len;
        let whole = second.is_some_and(|second| second.value == first.value);
        return Ok(Some((Edit::decode(first.value)?, whole)));
    }
    // The second copy lies one record's length on; both have the same length.
    for at in *offset + HEADER_LEN..bytes.len().saturating_sub(HEADER_LEN) + 1 {
        if let Some(second) = parse(at)
            && at - *offset == second.header.record_len()
        {
            *offset = at + second.header.record_len();
            return Ok(Some((Edit::decode(second.value)?, false)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
