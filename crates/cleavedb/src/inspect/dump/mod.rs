//! Dump: shows the content of the files of a database that is not opened, in one line for each
//! part.
//!
//! Files are only opened for reading, and no lock is taken, so a process that has the database open
//! is not hindered. That process may remove a file, or punch a part of one, after the manifest was
//! read: the dump then reports damage, which the next dump does not. Only bytes with a valid
//! checksum are trusted. Damage is reported with its place, and reading continues behind it as far
//! as anything is found there.
//!
//! Checksums are seeded with the database id. It comes from `current`, from the header of any log
//! or value file, or from the caller: tables and manifests that were copied out of their database
//! do not have it.

mod request;
mod line;
mod words;
mod edits;
mod records;
mod log;
mod table;
mod extents;
mod reading;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::path::Path;

use cleavedb_base::{Error, ErrorKind, FileNumber, Result};
use cleavedb_storage::{FileKind, Name};

pub use line::{DumpFact, DumpLine, DumpVisit, Dumped};
pub use request::{DumpKind, DumpRequest};

use crate::control::debug::debug;
use crate::inspect::unopened::Unopened;
use crate::store::manifest::{LiveFiles, Loaded, Manifest};
use line::Out;
use reading::Reading;

/// The files of a database, or of what is left of one, for dumps.
pub struct Dump {
    files: Unopened,
    /// `None` if no file has it.
    database_id: Option<u64>,
    /// Damage that was met when the files were searched.
    damage: Vec<Error>,
}

debug!(Dump, |_| {});

impl Dump {
    /// Finds the files in the directory `path`, and in its volumes, if `current` names them.
    /// `database_id` is that of `current` or of any log or value file, if it is not given.
    ///
    /// # Errors
    /// [`ErrorKind::NotADatabase`] if the directory has no file of a database.
    pub fn open(path: impl AsRef<Path>, database_id: Option<u64>) -> Result<Self> {
        let path = path.as_ref();
        let (files, damage) = Unopened::find(path)?;
        let listed = files.own().list().map_err(|e| Error::io("list the directory", e))?;
        if listed.is_empty() {
            let what = "no file of a database is there; is it the right directory?";
            return Err(Error::new(ErrorKind::NotADatabase, what).with("path", path.display()));
        }
        let database_id = database_id.or_else(|| files.find_id().ok());
        Ok(Self { files, database_id, damage })
    }

    /// Passes the requested content to `visit`, until it breaks off.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the request names no file of its kind. Damage of files is
    /// passed to `visit` as [`Dumped::Damage`].
    pub fn read(&self, request: &DumpRequest, visit: &mut DumpVisit<'_>) -> Result<()> {
        let (names, elsewhere) = self.chosen(request)?;
        let mut out = Out::new(visit, request.values);
        // The visitor may end the dump early: that is no failure.
        let _ = self.read_files(request, &names, elsewhere.as_ref(), &mut out);
        Ok(())
    }

    /// The names of the requested files, and the directory that has them if not the database's.
    fn chosen(&self, request: &DumpRequest) -> Result<(BTreeSet<Name>, Option<Unopened>)> {
        let kinds = request.kind.files();
        let Some(path) = &request.file else {
            if let (DumpKind::Manifest, Some(current)) = (request.kind, &self.files.current) {
                let name = Name::numbered(FileKind::Manifest, current.manifest);
                return Ok((BTreeSet::from([name]), None));
            }
            return Ok((all(&self.files, kinds)?, None));
        };
        let spelled = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let elsewhere = parent.map(Unopened::find).transpose()?.map(|(files, _)| files);
        if let Ok(number) = spelled.parse() {
            let files = elsewhere.as_ref().unwrap_or(&self.files);
            let mut names = all(files, kinds)?;
            names.retain(|name| name.number() == FileNumber(number));
            if names.is_empty() {
                names.insert(Name::numbered(kinds[0], FileNumber(number)));
            }
            return Ok((names, elsewhere));
        }
        match Name::parse(spelled).filter(|name| kinds.contains(&name.kind())) {
            Some(name) => Ok((BTreeSet::from([name]), elsewhere)),
            None => {
                let what = "no file of this kind has such a name; give its number, or its name as \
                            it is in the directory";
                Err(Error::new(ErrorKind::InvalidArgument, what).with("file", path.display()))
            }
        }
    }

    fn read_files(
        &self,
        request: &DumpRequest,
        names: &BTreeSet<Name>,
        elsewhere: Option<&Unopened>,
        out: &mut Out<'_>,
    ) -> ControlFlow<()> {
        for error in &self.damage {
            out.damage(error.clone())?;
        }
        let live = match request.kind {
            DumpKind::Manifest => self.say_current(out)?,
            _ => self.live(out)?,
        };
        let window = self.files.read_window().unwrap_or_default();
        let Self { files, database_id, .. } = self;
        let (live, database_id, window) = (live.as_ref(), *database_id, &*window);
        let reading = Reading { files, database_id, live, window, request };
        for name in names {
            out.begin(name);
            match elsewhere.unwrap_or(&self.files).open(name) {
                Ok(file) => reading.file(*name, file, out)?,
                Err(error) => out.damage(self.unread(*name, error))?,
            }
        }
        ControlFlow::Continue(())
    }

    /// Shows the content of `current`, if it can be read.
    fn say_current(&self, out: &mut Out<'_>) -> ControlFlow<(), Option<LiveFiles>> {
        if let Some(current) = &self.files.current {
            out.begin(Name::fixed(FileKind::Current));
            let facts = vec![
                ("manifest", current.manifest.0.into()),
                ("database", format!("{:016x}", current.database_id).into()),
                ("preset", current.preset.name().into()),
            ];
            out.line(None, "current", facts)?;
            for volume in &current.volumes {
                let facts = vec![("volume", volume.directory.display().to_string().into())];
                out.line(None, "volume", facts)?;
            }
        }
        ControlFlow::Continue(None)
    }

    /// The live files of the manifest. `None` if no manifest can be read; each one that is there is
    /// then reported as damaged.
    fn live(&self, out: &mut Out<'_>) -> ControlFlow<(), Option<LiveFiles>> {
        let Some(id) = self.database_id else { return ControlFlow::Continue(None) };
        let candidates = match self.files.manifests(id) {
            Ok(candidates) => candidates,
            Err(error) => {
                out.damage(error)?;
                return ControlFlow::Continue(None);
            }
        };
        let tables = self.files.tables(id);
        for candidate in candidates {
            match Manifest::load(&**self.files.own(), &candidate, &tables) {
                Ok(Loaded { live, .. }) => return ControlFlow::Continue(Some(live)),
                Err(error) => {
                    let name = Name::numbered(FileKind::Manifest, candidate.manifest);
                    out.damage(self.unread(name, error))?;
                }
            }
        }
        ControlFlow::Continue(None)
    }

    /// The error of a file that cannot be read; if the file is missing, with a possible cause.
    fn unread(&self, name: Name, error: Error) -> Error {
        let listed = self.files.names(name.kind());
        if listed.is_ok_and(|names| names.contains(&name)) {
            return error;
        }
        let why = "a process that has the database open removes files; if one has, dump again";
        error.with("perhaps", why)
    }
}

/// All files of these kinds.
fn all(files: &Unopened, kinds: &[FileKind]) -> Result<BTreeSet<Name>> {
    let mut names = BTreeSet::new();
    for kind in kinds {
        names.extend(files.names(*kind)?);
    }
    Ok(names)
}

#[cfg(test)]
mod tests;
