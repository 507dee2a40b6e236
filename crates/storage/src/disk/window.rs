//! Mapping a file for a window, and why a store into it does not end in a signal.
//!
//! A store into mapped memory has no return value: where `write` would report an error, the kernel
//! sends SIGBUS. Each cause of that signal is excluded beforehand, or the file is not mapped:
//!
//! * *No block behind the page*: every block is reserved, or written, before a store; no later
//!   store allocates. Copy-on-write and network file systems allocate or transfer on every
//!   write-back, so only file systems that rewrite blocks in place are mapped at all (`IN_PLACE`).
//! * *A block that is shared*: a copy by reflink, also one made by another program while the file
//!   is mapped, shares its blocks, and the next store needs a new one. So files are not mapped on a
//!   file system that can share blocks ([`shares_blocks`]).
//! * *A file that became shorter*: the database lock excludes other engines, and ours cuts a mapped
//!   window only behind the log buffer, after it has made that shorter.
//! * *A failed write-back*: the kernel keeps the page and reports the error to `sync`, which is
//!   never called on a window: its bytes count as durable only once the log was written and synced.
//!
//! Not excluded, since memory is not locked: a page that the kernel wrote back and dropped, and
//! that the device cannot read at the next store. Pages are in constant use while there are writes,
//! and new ones are populated before the first store, where a failure is returned as an error; a
//! failing device under a process that had paused remains. Nor excluded: another program with the
//! rights of this process that cuts the file, and a file system that is shut down under a running
//! database. A frozen file system makes a store wait.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate, fstatfs, ioctl_ficlone};
use rustix::io::Errno;

use crate::mapping::{Mapping, WindowMemory};

/// Magic numbers of file systems that rewrite an allocated block in place: ext2 to 4, XFS, tmpfs.
const IN_PLACE: [u64; 3] = [0xef53, 0x5846_5342, 0x0102_1994];

/// Length up to which a window is written when it is made, in bytes. A short window is drained in
/// direct writes, and written memory is contiguous, of which the device takes more at once: with
/// reserved memory `wisckey` loaded 870,000 values of 1 KiB a second instead of 1,115,000. A long
/// one is drained seldom, and writing it takes a quarter of a second.
const WRITTEN_MAX: u64 = 32 << 20;

/// Maps the first `len` bytes of `file`, which may have fewer yet; `None` where a store might end
/// in a signal.
pub(super) fn map(file: &File, len: usize) -> io::Result<Option<Mapping>> {
    if !rewrites_in_place(file) || shares_blocks(file) {
        return Ok(None);
    }
    match WindowMemory::of_file(file, len) {
        Ok(memory) => Ok(Some(Mapping { memory, observer: None })),
        // The address space of the process may be too small.
        Err(_) => Ok(None),
    }
}

/// Makes `file` `len` bytes long, with all blocks allocated.
pub(super) fn extend(file: &File, len: u64) -> io::Result<()> {
    let old = file.metadata()?.len();
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, len) {
        Err(Errno::OPNOTSUPP) => write_zeros(file, old, len)?,
        reserved => {
            reserved?;
            if len <= WRITTEN_MAX {
                write_zeros(file, old, len)?;
            }
        }
    }
    file.set_len(len)
}

fn write_zeros(file: &File, from: u64, to: u64) -> io::Result<()> {
    static ZEROS: [u8; 256 * 1024] = [0; 256 * 1024];
    let mut at = from;
    while at < to {
        let len = (to - at).min(ZEROS.len() as u64);
        file.write_all_at(&ZEROS[..len as usize], at)?;
        at += len;
    }
    Ok(())
}

fn rewrites_in_place(file: &File) -> bool {
    // The type of the field differs between architectures, the magic numbers fit 32 bits in all.
    fstatfs(file).is_ok_and(|fs| IN_PLACE.contains(&u64::from(fs.f_type as u32)))
}

/// Whether files of this file system may share blocks. Tested by cloning the file onto itself,
/// which changes nothing: a file system without clones says so before it checks anything else.
fn shares_blocks(file: &File) -> bool {
    ioctl_ficlone(file, file) != Err(Errno::OPNOTSUPP)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::sync::Arc;

    use cleavedb_base::FileNumber;
    use cleavedb_base::limits::BLOCK;

    use crate::left_window::{FoundWindow, LeftWindow};
    use crate::window::Window;
    use crate::window::probe::{load, store};
    use crate::window_header::{HEADER_LEN, Watermark, WindowIdentity};
    use crate::{Disk, FileKind, Name, Storage};

    const OURS: WindowIdentity = WindowIdentity { database_id: 1, number: FileNumber(2) };

    /// A window of one block that may grow to four, unless files cannot be mapped here.
    fn with_window(test: impl FnOnce(&std::path::Path, &Arc<dyn Storage>, Window)) {
        let dir = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Storage> = Arc::new(Disk::open(dir.path(), false).unwrap());
        let window = Window::create(&*disk, OURS, 9, BLOCK, 4 * BLOCK).unwrap();
        if !window.survives() {
            eprintln!("skipped: this machine cannot map a file");
            return;
        }
        test(&dir.path().join("window"), &disk, window);
    }

    fn left(disk: &Arc<dyn Storage>) -> LeftWindow {
        match LeftWindow::find(&**disk, OURS, true).unwrap() {
            FoundWindow::Ours(left) => left,
            _ => panic!("the window is there"),
        }
    }

    #[test]
    fn stores_and_watermarks_reach_the_file_and_its_next_reader() {
        with_window(|_, disk, mut window| {
            store(&mut window, BLOCK as u64 - 2, b"abcd");
            window.note(Watermark::Visible, 77);
            let left = left(disk);
            let mut out = [0; 4];
            left.load(BLOCK as u64 - 2, &mut out).unwrap();
            assert_eq!((&out, left.len()), (b"abcd", BLOCK as u64));
            assert_eq!(left.mark(Watermark::Visible), Some(77));
            assert_eq!(left.mark(Watermark::Drained), Some(9), "where the log was");
            assert_eq!(left.mark(Watermark::Durable), None, "it was never noted");
        });
    }

    #[test]
    fn a_window_grows_in_place_and_all_its_blocks_are_its_own() {
        with_window(|path, disk, mut window| {
            window.extend(&**disk, 3 * BLOCK).unwrap();
            // SAFETY: no other code uses it.
            unsafe { window.set_len(3 * BLOCK) };
            store(&mut window, 2 * BLOCK as u64, b"far");
            assert_eq!(load(&mut window, 2 * BLOCK as u64, 3), b"far");
            let metadata = std::fs::metadata(path).unwrap();
            assert_eq!(metadata.len() as usize, HEADER_LEN + 3 * BLOCK);
            assert!(metadata.blocks() * 512 >= metadata.len());
            assert_eq!(left(disk).len(), 3 * BLOCK as u64);
        });
    }

    #[test]
    fn a_foreign_window_and_a_blank_one_are_told_apart() {
        with_window(|path, disk, _| {
            let other = WindowIdentity { number: FileNumber(3), ..OURS };
            let found = LeftWindow::find(&**disk, other, true).unwrap();
            assert!(matches!(found, FoundWindow::Foreign(OURS)));
            for (bytes, is_unwritten) in
                [(vec![], true), (vec![0; 8192], true), (vec![1; 8192], false)]
            {
                std::fs::write(path, bytes).unwrap();
                let found = LeftWindow::find(&**disk, OURS, true).unwrap();
                assert_eq!(matches!(found, FoundWindow::Unwritten), is_unwritten);
                assert_eq!(matches!(found, FoundWindow::Blank), !is_unwritten);
            }
            disk.remove(&Name::fixed(FileKind::Window), crate::RemoveMode::Immediate).unwrap();
            let found = LeftWindow::find(&**disk, OURS, true).unwrap();
            assert!(matches!(found, FoundWindow::Missing));
        });
    }
}
