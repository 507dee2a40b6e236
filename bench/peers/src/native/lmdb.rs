//! Opening LMDB, which maps its file into memory.

use std::path::Path;

use heed::{Env, EnvFlags, EnvOpenOptions};

/// Opens the environment in `directory`, which nothing else may change while it is open.
///
/// `NO_SYNC`: commits reach the system, not the disk. `NO_READ_AHEAD`: a fault reads its page only.
/// `readers` bounds the threads that read at once.
pub fn open(directory: &Path, map_size: usize, readers: u32) -> heed::Result<Env> {
    let mut options = EnvOpenOptions::new();
    options.map_size(map_size).max_readers(readers);
    // SAFETY: neither flag lifts LMDB's locks or makes its map writable. What `NO_SYNC` gives up is
    // the file after a power loss, and a run starts on a directory that it emptied.
    unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_READ_AHEAD) };
    // SAFETY: the directory is one that the benchmark made and emptied for this engine, on a local
    // disk, so nothing but LMDB changes the mapped file; its lock file is left alone.
    unsafe { options.open(directory) }
}
