//! Removing a long file without a pause for others: in pieces, each followed by a rest. A short one
//! goes at once: where there are many, rests would leave them lying.
//!
//! Where the file system passes freed blocks on to the device as it frees them (`discard`), the
//! device serves nobody meanwhile, about half a millisecond a mebibyte. The tables of one
//! compaction, removed at once, held up every write for more than 100 ms (99th percentile of a load
//! of 5,000 operations a second: `docs/decisions/0019-files-are-removed-in-pieces.md`).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::Instant;

use rustix::fs::OFlags;

/// Bytes that are cut off at a time.
const PIECE: u64 = 4 << 20;

/// Removes the file at `path`, a long one from its end on.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let flags = OFlags::NOFOLLOW.bits() as i32;
    if let Ok(file) = OpenOptions::new().write(true).custom_flags(flags).open(path) {
        shorten(&file);
    }
    fs::remove_file(path)
}

/// Cuts a file to a piece, and lets others use the device for as long as each cut took. What is
/// refused costs smoothness only.
fn shorten(file: &File) {
    let Ok(metadata) = file.metadata() else { return };
    // Under another name the file is somebody's copy.
    if metadata.nlink() > 1 {
        return;
    }
    let mut len = metadata.len();
    while len > PIECE {
        len -= PIECE;
        let begin = Instant::now();
        if file.set_len(len).is_err() {
            return;
        }
        thread::sleep(begin.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of two and a half pieces.
    fn long(path: &Path) -> File {
        let file = File::create(path).unwrap();
        file.set_len(2 * PIECE + PIECE / 2).unwrap();
        file
    }

    #[test]
    fn a_long_file_goes_from_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let file = long(&path);
        remove(&path).unwrap();
        assert!(!path.exists());
        assert_eq!(file.metadata().unwrap().len(), PIECE / 2);
        assert_eq!(remove(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// A copy of a database may be made of links.
    #[test]
    fn a_file_with_another_name_keeps_its_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let (path, copy) = (dir.path().join("a"), dir.path().join("b"));
        let len = long(&path).metadata().unwrap().len();
        fs::hard_link(&path, &copy).unwrap();
        remove(&path).unwrap();
        assert_eq!((path.exists(), fs::metadata(&copy).unwrap().len()), (false, len));
    }
}
