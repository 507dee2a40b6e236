//! Making a window from a file, and why a store into it does not end in a signal.
//!
//! A store into mapped memory has no return value: where `write` would report an error, the kernel
//! sends SIGBUS. Each cause of that signal is excluded or turned into a heap window beforehand:
//!
//! * *No block behind the page*: every block was reserved and that was synced before the file is
//!   mapped, or, where the file system cannot reserve, written; no later store allocates.
//!   Copy-on-write and network file systems allocate or transfer on every write-back, so only file
//!   systems that rewrite blocks in place are mapped at all (`IN_PLACE`).
//! * *A page that cannot be read back*: `mlock` reads every page of an old window in and keeps it.
//!   A bad sector is found there, as an error of this call, not of a later store. A page of a new
//!   window is nowhere to be read from: it is locked when it is first stored to.
//! * *A file that became shorter*: the database lock excludes other engines, and ours never cuts a
//!   mapped window. An unfinished window is never taken for a finished one: while it is made, its
//!   length is odd.
//! * *A failed write-back*: the kernel keeps the page and reports the error to `sync`, which nobody
//!   calls on a window: its bytes count as durable only once the log was written and synced.
//!
//! Not promised: what survives power loss (any mix of old and new sectors may); a stranger with
//! the rights of this process who cuts the file; a file system that is shut down under a running
//! database; failing memory chips. A frozen file system makes a store wait.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use cleavedb_base::limits::BLOCK;
use rustix::fs::{FallocateFlags, fallocate, fstatfs};
use rustix::io::Errno;

use super::memory::{Heap, Locked, Mapped};
use crate::window::Window;

/// Magic numbers of file systems that rewrite an allocated block in place: ext2 to 4, XFS, tmpfs.
const IN_PLACE: [u64; 3] = [0xef53, 0x5846_5342, 0x0102_1994];

/// Length of a new window if one of the length that is asked for cannot be locked, in bytes: users
/// without rights may mostly lock 8 MiB.
const LOCKED_MIN: usize = 4 << 20;

/// Length up to which a new window is written, in bytes.
const WRITTEN_MAX: usize = 32 << 20;

/// Turns `file` into a window: of its own length if it is a finished one, else made anew with `len`
/// bytes, or fewer if so many cannot be locked. Its content is kept in either kind of memory; on
/// the heap it is a copy.
pub(super) fn open(file: &File, len: usize) -> io::Result<Window> {
    let found = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    let in_place = rewrites_in_place(file);
    if is_finished(found) {
        let mapped = in_place.then(|| Mapped::new(file, found, Locked::Now).ok()).flatten();
        return mapped.map_or_else(|| heap_copy(file, found), |mapped| Ok(in_memory(mapped)));
    }
    if in_place {
        for len in [len, len.min(LOCKED_MIN)] {
            match reserve(file, len) {
                // A log does with a short one, too.
                Err(e) if e.kind() == io::ErrorKind::StorageFull && len > LOCKED_MIN => continue,
                reserved => reserved?,
            }
            if let Ok(mapped) = Mapped::new(file, len, Locked::WhenTouched) {
                return Ok(in_memory(mapped));
            }
        }
    }
    write_zeros(file, len.min(LOCKED_MIN))?;
    heap_copy(file, len.min(LOCKED_MIN))
}

fn in_memory(mapped: Mapped) -> Window {
    Window::new(Box::new(mapped), true, None)
}

/// A crash while a window was made leaves its file empty or one byte too long.
fn is_finished(len: usize) -> bool {
    len > 0 && len.is_multiple_of(BLOCK)
}

fn rewrites_in_place(file: &File) -> bool {
    // The type of the field differs between architectures, the magic numbers fit 32 bits in all.
    fstatfs(file).is_ok_and(|fs| IN_PLACE.contains(&u64::from(fs.f_type as u32)))
}

/// Makes every block of a window of `len` bytes its own; of what the file held nothing is left. A
/// short one is written. It is drained in direct writes, and the memory of bytes that were written
/// hangs together, of which the device takes more at once: with a reserved one `wisckey` loaded
/// 870,000 values of 1 KiB a second in place of 1,115,000. A long one is drained seldom, and to
/// write it takes a quarter of a second.
fn reserve(file: &File, len: usize) -> io::Result<()> {
    file.set_len(0)?;
    let made = make(file, len);
    if made.is_err() {
        // What was reserved or written so far is not kept from others.
        let _ = file.set_len(0);
    }
    made
}

fn make(file: &File, len: usize) -> io::Result<()> {
    if len <= WRITTEN_MAX {
        return write_zeros(file, len);
    }
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, len as u64) {
        Err(Errno::OPNOTSUPP) => return write_zeros(file, len),
        reserved => reserved?,
    }
    file.sync_all()?;
    file.set_len(len as u64)?;
    file.sync_all()
}

/// Writes every byte once, so that the file system has allocated every block.
fn write_zeros(file: &File, len: usize) -> io::Result<()> {
    debug_assert!(is_finished(len), "a window of {len} bytes is not whole pages");
    static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
    file.set_len(0)?;
    file.set_len(len as u64 + 1)?;
    for start in (0..len).step_by(ZEROS.len()) {
        file.write_all_at(&ZEROS[..ZEROS.len().min(len - start)], start as u64)?;
    }
    file.sync_all()?;
    file.set_len(len as u64)?;
    file.sync_all()
}

fn heap_copy(file: &File, len: usize) -> io::Result<Window> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(Window::new(Box::new(Heap::new(&bytes)), false, None))
}

/// Access to a window that nobody else uses, for the tests of this crate.
#[cfg(test)]
pub(crate) mod probe {
    use super::Window;

    pub(crate) fn store(window: &mut Window, at: u64, bytes: &[u8]) {
        // SAFETY: the exclusive reference excludes all other access.
        unsafe { window.store(at, bytes) };
    }

    pub(crate) fn load(window: &mut Window, at: u64, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        // SAFETY: as above.
        unsafe { window.load(at, &mut out) };
        out
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::probe::{load, store};
    use super::*;

    fn with_file(test: impl FnOnce(&File)) {
        test(&tempfile::tempfile().unwrap());
    }

    #[test]
    fn stores_reach_the_file_and_the_next_opener() {
        with_file(|file| {
            let mut window = open(file, 2 * BLOCK).unwrap();
            if !window.survives() {
                eprintln!("skipped: this machine cannot map and lock a file");
                return;
            }
            store(&mut window, 2 * BLOCK as u64 - 2, b"abcd");
            let bytes = {
                let mut bytes = vec![0; 2 * BLOCK];
                file.read_exact_at(&mut bytes, 0).unwrap();
                bytes
            };
            assert_eq!((&bytes[2 * BLOCK - 2..], &bytes[..2]), (&b"ab"[..], &b"cd"[..]));
            drop(window);
            let mut again = open(file, 2 * BLOCK).unwrap();
            assert_eq!(load(&mut again, 2 * BLOCK as u64 - 2, 4), b"abcd");
        });
    }

    #[test]
    fn a_finished_window_keeps_its_length_and_an_unfinished_one_is_made_anew() {
        with_file(|file| {
            assert_eq!(open(file, BLOCK).unwrap().len(), BLOCK);
            assert_eq!(open(file, 4 * BLOCK).unwrap().len(), BLOCK);
            file.write_all_at(b"stale", 0).unwrap();
            file.set_len(4 * BLOCK as u64 + 1).unwrap();
            let mut window = open(file, 2 * BLOCK).unwrap();
            assert_eq!(window.len(), 2 * BLOCK);
            assert_eq!(load(&mut window, 0, 5), [0; 5]);
        });
    }

    #[test]
    fn the_heap_window_starts_with_the_content_of_the_file() {
        with_file(|file| {
            write_zeros(file, BLOCK).unwrap();
            file.write_all_at(b"kept", 8).unwrap();
            let mut window = heap_copy(file, BLOCK).unwrap();
            assert!(!window.survives());
            assert_eq!(load(&mut window, 8, 4), b"kept");
        });
    }

    #[test]
    fn a_new_window_occupies_all_its_blocks() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        for (name, len) in [("written", 64 * BLOCK), ("reserved", WRITTEN_MAX + BLOCK)] {
            let path = dir.path().join(name);
            let file = fs::File::options().read(true).write(true).create_new(true).open(path);
            let file = file.unwrap();
            let window = open(&file, len).unwrap();
            let blocks = file.metadata().unwrap().blocks() * 512;
            assert!(blocks >= window.len() as u64, "{name}: {blocks} bytes");
            let may_be_locked = window.survives() && window.len() > LOCKED_MIN;
            assert!(window.len() == len || !may_be_locked, "{name}: {}", window.len());
        }
    }

    #[test]
    fn a_window_that_cannot_be_made_leaves_no_blocks() {
        use std::os::unix::fs::MetadataExt;
        with_file(|file| {
            assert!(reserve(file, usize::MAX / 4 / BLOCK * BLOCK).is_err());
            assert_eq!((file.metadata().unwrap().len(), file.metadata().unwrap().blocks()), (0, 0));
        });
    }
}
