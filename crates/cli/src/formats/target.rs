//! The file of an export: written under a temporary name and renamed at the end, so that a file of
//! the name is always complete. A pipe or a device is written directly.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::{Builder, TempPath};

use super::is_stream;
use crate::failure::{Failure, Result};

/// Mode of a new file, before the umask of the process.
const MODE: u32 = 0o666;

/// A name to be taken at the end.
pub struct PendingFile {
    path: PathBuf,
    /// The temporary file, until it is renamed.
    beside: Option<(TempPath, File)>,
}

impl PendingFile {
    /// A writer, and the target that makes its output `path`.
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
        // A link stays, and the file that it leads to is replaced.
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

    /// Renames the file: its content is durable and complete.
    pub fn take(&mut self) -> Result<()> {
        let Some((beside, file)) = self.beside.take() else { return Ok(()) };
        file.sync_all().map_err(Failure::file("write to", &self.path))?;
        let renamed = beside.persist(&self.path);
        renamed.map_err(|error| Failure::file("create", &self.path)(error.error))
    }
}
