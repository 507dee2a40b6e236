//! The file of an export: written beside its name, which it takes at the end, so that what bears
//! the name is whole. A pipe or a device is written as it is.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::{Builder, TempPath};

use super::is_stream;
use crate::failure::{Failure, Result};

/// Mode of a new file, of which the process takes away what its mask says.
const MODE: u32 = 0o666;

/// A name that is to be taken.
pub struct Target {
    path: PathBuf,
    /// The file beside the name, until it takes it.
    beside: Option<(TempPath, File)>,
}

impl Target {
    /// Something to write to, and how it becomes `path`.
    pub fn create(path: &Path) -> Result<(Box<dyn Write>, Self)> {
        let path = path.to_owned();
        if is_stream(&path) {
            return Ok((Box::new(io::stdout()), Self { path, beside: None }));
        }
        let failed = || Failure::file("create", &path);
        if fs::metadata(&path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            let file = File::options().write(true).open(&path).map_err(failed())?;
            return Ok((Box::new(file), Self { path, beside: None }));
        }
        // A link stays, and what it leads to is replaced.
        let target = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        let directory = target.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        if target.is_dir() {
            return Err(failed()(io::ErrorKind::IsADirectory.into()));
        }
        let mut builder = Builder::new();
        builder.prefix(".cleave-export-").permissions(Permissions::from_mode(MODE));
        let file = builder.tempfile_in(directory).map_err(failed())?;
        let (file, beside) = file.into_parts();
        let written = file.try_clone().map_err(failed())?;
        Ok((Box::new(written), Self { path: target, beside: Some((beside, file)) }))
    }

    /// The name is taken: what was written is durable, and whole.
    pub fn take(&mut self) -> Result<()> {
        let Some((beside, file)) = self.beside.take() else { return Ok(()) };
        file.sync_all().map_err(Failure::file("write to", &self.path))?;
        let renamed = beside.persist(&self.path);
        renamed.map_err(|error| Failure::file("create", &self.path)(error.error))
    }
}
