//! Files that are replaced as a whole.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Puts `content` into the place of a file: after a loss of power there is the old file or the new
/// one. The permissions stay; a file that was not there is for its owner alone.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = parent.unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(content)?;
    if let Ok(old) = path.metadata() {
        file.as_file().set_permissions(old.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(directory)?.sync_all()
}
