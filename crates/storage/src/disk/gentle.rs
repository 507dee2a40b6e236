//! Removing a long file without a pause for other requests: in pieces, each followed by a rest. A
//! short file is removed at once: with many of them, rests would delay their removal. A caller that
//! has fallen behind, or has no other requests to protect, asks for no rests
//! ([`RemoveMode::Immediate`]).
//!
//! Where the file system passes freed blocks on to the device as it frees them (`discard`), the
//! device serves no other request meanwhile, about half a millisecond a mebibyte. Removing the
//! tables of one compaction at once delayed every write by more than 100 ms (99th percentile of a
//! load of 5,000 operations a second: `docs/decisions/0019-files-are-removed-in-pieces.md`).

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use super::dir::Dir;
use super::file::COUNTED_BLOCK;
use crate::api::RemoveMode;
use crate::name::Name;

/// Bytes cut off at a time; a file shorter than two pieces is removed at once.
const PIECE: u64 = 4 << 20;

/// Removes file `name` of `dir`; a long one in pieces from its end.
pub(super) fn remove(dir: &Dir, name: &Name, pace: RemoveMode) -> io::Result<()> {
    if let Ok(file) = dir.open_file(name, OFlags::WRONLY) {
        match pace {
            // Rests as long as the cut took, so that others can use the device.
            RemoveMode::Paced => shorten(&file, thread::sleep),
            RemoveMode::Immediate => shorten(&file, |_| ()),
        }
    }
    dir.unlink(name)
}

/// Cuts a file until less than two pieces are left, and calls `rest` after each cut with the time
/// that it took. A refused cut only makes the removal less smooth.
fn shorten(file: &File, mut rest: impl FnMut(Duration)) {
    let Ok(metadata) = file.metadata() else { return };
    // Under another name the file is a copy, which keeps its bytes.
    if metadata.nlink() > 1 {
        return;
    }
    let mut left = metadata.len().max(metadata.blocks() * COUNTED_BLOCK);
    if left < 2 * PIECE {
        return;
    }
    // A cut frees blocks reserved beyond the end only if the end lies behind them.
    if left > metadata.len() && file.set_len(left).is_err() {
        return;
    }
    while left >= 2 * PIECE {
        left -= PIECE;
        let begin = Instant::now();
        if file.set_len(left).is_err() {
            return;
        }
        rest(begin.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use cleavedb_base::FileNumber;
    use rustix::fs::{FallocateFlags, fallocate};

    use super::*;
    use crate::name::FileKind;

    /// A directory, and the name of a file of two and a half pieces in it.
    fn with_long(path: &Path) -> (Dir, Name, File) {
        let name = Name::numbered(FileKind::Table, FileNumber(1));
        let file = File::create(path.join(name.to_string())).unwrap();
        file.set_len(2 * PIECE + PIECE / 2).unwrap();
        (Dir::open(path, false).unwrap(), name, file)
    }

    #[test]
    fn a_long_file_goes_from_its_end() {
        let parent = tempfile::tempdir().unwrap();
        let (dir, name, file) = with_long(parent.path());
        remove(&dir, &name, RemoveMode::Immediate).unwrap();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
        assert_eq!(file.metadata().unwrap().len(), PIECE + PIECE / 2);
        assert_eq!(
            remove(&dir, &name, RemoveMode::Paced).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    fn rests(file: &File) -> usize {
        let mut rests = 0;
        shorten(file, |_| rests += 1);
        rests
    }

    #[test]
    fn a_file_of_less_than_two_pieces_needs_no_rest() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("a")).unwrap();
        for (len, expected) in [(2 * PIECE - 1, 0), (2 * PIECE, 1), (5 * PIECE + 1, 4)] {
            file.set_len(len).unwrap();
            assert_eq!(rests(&file), expected, "{len} bytes");
        }
    }

    /// The log reserves its files whole, ahead of what is written.
    #[test]
    fn what_was_reserved_beyond_the_end_is_cut_in_pieces_too() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("a")).unwrap();
        let reserved = 4 * PIECE;
        if fallocate(&file, FallocateFlags::KEEP_SIZE, 0, reserved).is_err() {
            println!("skipped: no space can be reserved here");
            return;
        }
        let blocks = || file.metadata().unwrap().blocks() * COUNTED_BLOCK;
        assert!(blocks() >= reserved);
        assert_eq!(rests(&file), 3);
        assert!(blocks() < 2 * PIECE, "{} bytes are left", blocks());
    }

    /// A copy of a database may be made of links.
    #[test]
    fn a_file_with_another_name_keeps_its_bytes() {
        let parent = tempfile::tempdir().unwrap();
        let (dir, name, file) = with_long(parent.path());
        let (path, copy) = (parent.path().join(name.to_string()), parent.path().join("copy"));
        let len = file.metadata().unwrap().len();
        fs::hard_link(&path, &copy).unwrap();
        remove(&dir, &name, RemoveMode::Paced).unwrap();
        assert_eq!((path.exists(), fs::metadata(&copy).unwrap().len()), (false, len));
    }
}
