//! The manifest: a log of edits, the one commit point for the set of live files.
//!
//! Every edit is written twice, in one write, and synced before anybody acts on it. The second copy
//! is what tells rot from a torn write: a crash leaves the first copy, or nothing, behind the last
//! synced edit; a copy that is damaged while something valid follows was damaged later. Each open,
//! and a manifest that has grown long, begin a new file with the whole state in one edit.

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
pub(crate) use edit::{Edit, ReplayHead};
pub(crate) use stamp::Stamp;

/// Length at which a manifest is replaced by a new one, in bytes.
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

    /// Bytes that values take, but for logs in use.
    pub(crate) fn value_bytes(&self) -> u64 {
        self.ledger.sealed() + self.groups.bytes()
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
    file: Arc<dyn File>,
    identity: FileIdentity,
    offset: u64,
    /// The live files.
    live: LiveFiles,
    /// Next number to hand out; numbers up to `live.next_file` are reserved on disk.
    next_file: u64,
    written: u64,
}

impl Manifest {
    /// Reads the manifest that `current` names; also says how many copies of edits in it were
    /// damaged, of which the other copy served.
    pub(crate) fn load(
        storage: &dyn Storage,
        current: &Current,
        tables: &Arc<TableStore>,
    ) -> Result<(LiveFiles, u64)> {
        let name = Name::numbered(FileKind::Manifest, current.manifest);
        let failed = |e| Error::unopened("read the manifest", e).with("file", name);
        let file = storage.open(&name, Mode::Read, Access::Sequential).map_err(failed)?;
        let mut bytes = vec![0; file.len().map_err(failed)? as usize];
        read_exact_at(&*file, &mut bytes, 0).map_err(failed)?;
        let identity = FileIdentity::new(current.database_id, current.manifest);
        let mut live = LiveFiles::empty(tables);
        let (edits, healed) = read_edits(&bytes, identity).map_err(|e| e.with("file", name))?;
        if edits.is_empty() {
            let what = "the manifest holds no edit; restore it from a backup";
            return Err(Error::corruption(what).with("file", name));
        }
        for edit in &edits {
            live.apply(edit).map_err(|e| e.with("file", name))?;
        }
        Ok((live, healed))
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
        Ok(read_copies(&bytes, identity, &mut 0, &mut 0)?.is_some())
    }

    /// Begins the new manifest that `current` names, with `live` in it, and makes it the current
    /// one. The stamps of the volumes go first, see `stamp`.
    pub(crate) fn begin(storage: Arc<Placed>, current: Current, live: LiveFiles) -> Result<Self> {
        let number = current.manifest;
        let mut live = live;
        live.next_file = number.0 + NUMBERS_RESERVED;
        let name = Name::numbered(FileKind::Manifest, number);
        let file = storage
            .open(&name, Mode::CreateNew, Access::Random)
            .map_err(|e| Error::io("create the manifest", e).with("file", name))?;
        let mut manifest = Self {
            storage,
            identity: FileIdentity::new(current.database_id, number),
            current,
            file,
            offset: 0,
            next_file: number.0 + 1,
            live,
            written: 0,
        };
        manifest.append(&manifest.live.export())?;
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

    /// Bytes written so far, all files counted.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Makes `edit` durable and then true. After an error the manifest's file may or may not hold
    /// it: the caller poisons the database.
    pub(crate) fn commit(&mut self, edit: &Edit) -> Result<()> {
        // Applied to a copy first: an edit that contradicts the state must not reach the disk.
        let mut live = self.live.clone();
        live.apply(edit)?;
        if self.offset > LEN_MAX {
            self.replace()?;
        }
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
        write_all_at(&*self.file, &bytes, self.offset)
            .map_err(|e| Error::io("write the manifest", e).with("file", name))?;
        self.file.sync().map_err(|e| Error::sync_failed("the manifest", e).with("file", name))?;
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

/// The edits of a manifest. Each stands there twice; one whole copy is enough. Also says how many
/// copies are not whole.
fn read_edits(bytes: &[u8], identity: FileIdentity) -> Result<(Vec<Edit>, u64)> {
    let mut edits = Vec::new();
    let (mut offset, mut healed) = (0, 0);
    while let Some(edit) = read_copies(bytes, identity, &mut offset, &mut healed)? {
        edits.push(edit);
    }
    // Every edit is synced before the next is written: a whole record behind the end means that the
    // end is damage and not a torn write. (A header alone may be the second copy's, torn as well.)
    let rest = offset + 1..bytes.len().saturating_sub(HEADER_LEN);
    for later in rest {
        if Record::parse(&bytes[later..], identity, later as u64).is_ok() {
            let what = "an edit of the manifest is damaged; restore the database from a backup";
            return Err(Error::corruption(what).with("offset", offset));
        }
    }
    Ok((edits, healed))
}

/// Reads the two copies of one edit at `offset`, which moves behind them; `healed` grows if one of
/// them is not whole.
fn read_copies(
    bytes: &[u8],
    identity: FileIdentity,
    offset: &mut usize,
    healed: &mut u64,
) -> Result<Option<Edit>> {
    let parse = |at: usize| {
        let record = Record::parse(bytes.get(at..)?, identity, at as u64).ok()?;
        (record.header.kind == RecordKind::Edit).then_some(record)
    };
    if let Some(first) = parse(*offset) {
        *healed += u64::from(parse(*offset + first.header.record_len()).is_none());
        *offset += 2 * first.header.record_len();
        return Edit::decode(first.value).map(Some);
    }
    // The second copy lies one record's length on; both have the same length.
    for at in *offset + HEADER_LEN..bytes.len().saturating_sub(HEADER_LEN) + 1 {
        if let Some(second) = parse(at)
            && at - *offset == second.header.record_len()
        {
            *healed += 1;
            *offset = at + second.header.record_len();
            return Edit::decode(second.value).map(Some);
        }
    }
    Ok(None)
}
