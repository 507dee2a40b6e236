//! The manifest of a database that another process writes, read again and again.
//!
//! The other process appends edits, and now and then begins a new manifest. What was read before is
//! not read again. An edit counts as soon as it can be read, even if its sync is not over: what it
//! names was made before it was written.

use std::sync::Arc;

use cleavedb_base::{Error, ErrorKind, FileNumber, Result};
use cleavedb_index::TableStore;
use cleavedb_storage::{Access, FileKind, Mode, Name, Storage};

use super::current::Current;
use super::live::LiveFiles;
use super::read::StoredManifest;

/// A manifest, as far as it was read.
pub(crate) struct Followed {
    current: Current,
    live: LiveFiles,
    /// Offset behind the last edit that was read.
    len: u64,
}

/// What a further look at a manifest found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// No further edit.
    None,
    /// The number of further edits.
    Edits(usize),
    /// Another manifest, which was read whole.
    Anew,
}

impl Followed {
    /// Reads the manifest that `current` names.
    pub(crate) fn read(
        storage: &dyn Storage,
        current: Current,
        tables: &Arc<TableStore>,
    ) -> Result<Self> {
        let stored = StoredManifest::read(storage, &current)?;
        let mut live = LiveFiles::empty(tables);
        stored.value_layout()?;
        let (_, len) = stored.apply_to(&mut live)?;
        Ok(Self { current, live, len })
    }

    /// Reads what was added since. After an error nothing has changed.
    pub(crate) fn look(&mut self, storage: &dyn Storage, tables: &Arc<TableStore>) -> Result<News> {
        let current = Current::read(storage)?.ok_or_else(|| gone("the database is gone"))?;
        if current.database_id != self.current.database_id {
            return Err(gone("another database has taken the place of the one that was opened"));
        }
        if current.volumes != self.current.volumes {
            let what = "the database has got other volumes; close this handle, and open again";
            return Err(Error::new(ErrorKind::MissingVolume, what));
        }
        if current.manifest != self.current.manifest {
            *self = Self::read(storage, current, tables)?;
            return Ok(News::Anew);
        }
        let added = StoredManifest::read_from(storage, &self.current, self.len)?;
        if added.is_empty() {
            return Ok(News::None);
        }
        let mut live = self.live.clone();
        let (edits, len) = added.apply_to(&mut live)?;
        (self.live, self.len) = (live, len);
        Ok(News::Edits(edits))
    }

    /// What `current` said.
    pub(crate) fn current(&self) -> &Current {
        &self.current
    }

    /// The live files.
    pub(crate) fn live(&self) -> &LiveFiles {
        &self.live
    }

    /// Offset behind the last edit that was read.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// How far it was read.
    pub(crate) fn mark(&self, storage: Arc<dyn Storage>) -> ManifestMark {
        ManifestMark { storage, manifest: self.current.manifest, len: self.len }
    }
}

/// How far a manifest was read: tells whether its writer has gone on since.
pub(crate) struct ManifestMark {
    storage: Arc<dyn Storage>,
    manifest: FileNumber,
    len: u64,
}

impl ManifestMark {
    /// Whether the writer has gone on, or it cannot be found out. Files are removed and punched
    /// after the edit that drops them: what is missing under a mark that is not outdated is damage.
    pub(crate) fn is_outdated(&self) -> bool {
        let same = |current: Current| current.manifest == self.manifest;
        if !Current::read(&*self.storage).ok().flatten().is_some_and(same) {
            return true;
        }
        let name = Name::numbered(FileKind::Manifest, self.manifest);
        let file = self.storage.open(&name, Mode::Read, Access::Sequential);
        file.and_then(|file| file.len()).map_or(true, |len| len > self.len)
    }
}

fn gone(what: &str) -> Error {
    Error::new(ErrorKind::NotADatabase, format!("{what}; close this handle, and open again"))
}
