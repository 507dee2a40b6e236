//! Reading a manifest: its edits, and whether its end is torn or damaged.

use std::sync::Arc;

use cleavedb_base::record::{FileIdentity, HEADER_LEN, Record, RecordKind};
use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_index::TableStore;
use cleavedb_storage::api::read_exact_at;
use cleavedb_storage::{Access, FileKind, Mode, Name, Storage};
use cleavedb_values::ValueLayout;

use super::current::Current;
use super::edit::Edit;
use super::live::LiveFiles;

/// A manifest as it was read.
pub(crate) struct StoredManifest {
    name: Name,
    edits: Vec<Edit>,
    /// Bytes of the edits.
    len: usize,
    /// Whether nothing follows them, and both copies of each are valid.
    is_whole: bool,
    /// Edits of which one copy is damaged.
    healed: u64,
}

/// The content of a manifest, and whether it can be continued.
pub(crate) struct Loaded {
    pub(crate) live: LiveFiles,
    /// Length of the edits.
    pub(super) len: u64,
    /// See [`StoredManifest::is_whole`].
    pub(super) is_whole: bool,
    /// Edits of which one copy was damaged.
    pub(crate) healed: u64,
}

impl StoredManifest {
    /// Reads the manifest that `current` names.
    pub(crate) fn read(storage: &dyn Storage, current: &Current) -> Result<Self> {
        Self::read_from(storage, current, 0)
    }

    /// Reads the edits of the manifest that `current` names from the offset `from` on, where one
    /// begins or the file ends.
    pub(super) fn read_from(storage: &dyn Storage, current: &Current, from: u64) -> Result<Self> {
        let name = Name::numbered(FileKind::Manifest, current.manifest);
        let failed = |e| Error::unopened("read the manifest", e).with("file", name);
        let file = storage.open(&name, Mode::Read, Access::Sequential).map_err(failed)?;
        let (len, from) = (file.len().map_err(failed)? as usize, from as usize);
        // Bytes in front are left at zero: offsets are those of the file.
        let mut bytes = vec![0; len.max(from)];
        read_exact_at(&*file, &mut bytes[from..len.max(from)], from as u64).map_err(failed)?;
        let copied = file.is_copied().map_err(failed)?;
        let identity = FileIdentity::new(current.database_id, current.manifest);
        let mut stored = Self { name, edits: Vec::new(), len: from, is_whole: false, healed: 0 };
        stored.read_edits(&bytes, identity).map_err(|e| e.with("file", name))?;
        stored.is_whole = stored.len == bytes.len() && stored.healed == 0 && !copied;
        Ok(stored)
    }

    /// Reads the edits. Each is stored twice; one valid copy is enough.
    fn read_edits(&mut self, bytes: &[u8], identity: FileIdentity) -> Result<()> {
        let name = self.name;
        loop {
            let read = read_copies(bytes, identity, &mut self.len);
            let read = read.map_err(|e| match e.kind() {
                // The first edit of an earlier build has fields with another meaning.
                ErrorKind::Corruption if self.edits.is_empty() => no_layout(name),
                _ => e,
            })?;
            let Some((edit, whole)) = read else { break };
            self.edits.push(edit);
            self.healed += u64::from(!whole);
        }
        // Every edit is synced before the next is written: a valid record behind the end means that
        // the end is damaged and not torn. (A lone header may belong to the second copy, torn as
        // well.)
        match next_record(bytes, identity, self.len + 1) {
            Some(_) => {
                let what = "an edit of the manifest is damaged; restore the database from a backup";
                Err(Error::corruption(what).with("offset", self.len))
            }
            None => Ok(()),
        }
    }

    /// The layout in the first edit.
    pub(crate) fn value_layout(&self) -> Result<ValueLayout> {
        let layout = self.edits.first().and_then(|edit| edit.layout);
        layout.ok_or_else(|| no_layout(self.name))
    }

    /// The space limit of the database, in bytes, if it has one.
    pub(crate) fn space_limit(&self) -> Option<u64> {
        let last = self.edits.iter().rev().find_map(|edit| edit.space_limit);
        last.filter(|limit| *limit != 0)
    }

    /// Whether no edit was read.
    pub(super) fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Applies the edits to `live`, to which those in front of them were applied. Returns their
    /// number, and the offset behind the last one.
    pub(super) fn apply_to(&self, live: &mut LiveFiles) -> Result<(usize, u64)> {
        for edit in &self.edits {
            live.apply(edit).map_err(|e| e.with("file", self.name))?;
        }
        Ok((self.edits.len(), self.len as u64))
    }

    /// Bytes of the log that the database keeps for readers of changes.
    pub(crate) fn log_kept(&self) -> u64 {
        self.edits.iter().rev().find_map(|edit| edit.changes.bytes()).unwrap_or_default()
    }

    /// Applies all edits.
    pub(crate) fn load(self, tables: &Arc<TableStore>) -> Result<Loaded> {
        if self.edits.is_empty() {
            let what = "the manifest holds no edit; restore it from a backup";
            return Err(Error::corruption(what).with("file", self.name));
        }
        self.value_layout()?;
        let mut live = LiveFiles::empty(tables);
        let (_, len) = self.apply_to(&mut live)?;
        let Self { is_whole, healed, .. } = self;
        Ok(Loaded { live, len, is_whole, healed })
    }
}

#[cold]
fn no_layout(manifest: Name) -> Error {
    let what = "the manifest does not say in its first edit how values are kept: it is damaged, or \
                a build before the first release has written it";
    Error::corruption(what).with("file", manifest)
}

/// The first place from `from` on where a whole record stands.
pub(crate) fn next_record(bytes: &[u8], identity: FileIdentity, from: usize) -> Option<usize> {
    let mut places = from..bytes.len().saturating_sub(HEADER_LEN);
    places.find(|at| Record::parse(&bytes[*at..], identity, *at as u64).is_ok())
}

/// Reads the two copies of one edit at `offset`, which moves behind them, and returns whether both
/// are valid.
pub(crate) fn read_copies(
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
    // The second copy begins one record's length further; both have the same length.
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
