//! Making a window from a file, and why a store into it does not end in a signal.
//!
//! A store into mapped memory has no return value: where `write` would report an error, the kernel
//! sends SIGBUS. Each cause of that signal is excluded or turned into a heap window beforehand:
//!
//! * *No block behind the page*: every byte was written and synced before the file is mapped, so
//!   its blocks are allocated; no later store allocates. Copy-on-write and network file systems
//!   allocate or transfer on every write-back, so only file systems that rewrite blocks in place
//!   are mapped at all (`IN_PLACE`).
//! * *A page that cannot be read back*: `mlock` reads every page in and keeps it. A bad sector is
//!   found there, as an error of this call, not of a later store.
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
use rustix::fs::fstatfs;

use super::memory::{Heap, Mapped};
use crate::window::Window;

/// Magic numbers of file systems that rewrite an allocated block in place: ext2 to 4, XFS, tmpfs.
const IN_PLACE: [u64; 3] = [0xef53, 0x5846_5342, 0x0102_1994];

/// Turns `file` into a window: of its own length if it is a finished one, else made anew with `len`
/// bytes. Its content is kept in either kind of memory; on the heap it is a copy.
pub(super) fn open(file: &File, len: usize) -> io::Result<Window> {
    let found = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    let len = if is_finished(found) {
        found
    } else {
        write_zeros(file, len)?;
        len
    };
    let mapped = if rewrites_in_place(file) { Mapped::new(file, len).ok() } else { None };
    match mapped {
        Some(mapped) => Ok(Window::new(Box::new(mapped), true, None)),
        None => heap_copy(file, len),
    }
}

/// A crash while a window was made leaves its file empty or one byte too long.
fn is_finished(len: usize) -> bool {
    len > 0 && len.is_multiple_of(BLOCK)
}

fn rewrites_in_place(file: &File) -> bool {
    // The type of the field differs between architectures, the magic numbers fit 32 bits in all.
    fstatfs(file).is_ok_and(|fs| IN_PLACE.contains(&u64::from(fs.f_type as u32)))
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
        let path = dir.path().join("window");
        let file = fs::File::options().read(true).write(true).create_new(true).open(path).unwrap();
        let window = open(&file, 64 * BLOCK).unwrap();
        assert_eq!(window.len(), 64 * BLOCK);
        assert!(file.metadata().unwrap().blocks() * 512 >= 64 * BLOCK as u64);
    }
}
