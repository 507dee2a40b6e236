//! Databases as directories, the environment, and the rest.

use std::ffi::c_int;
use std::path::Path;
use std::{env, fs};

use cleavedb::{Db, ErrorKind, Result};
use rustix::process::geteuid;

use super::options::OpenOptions;
use crate::handles::{Handle, export};
use crate::slices::{Chars, Malloced, OutPlace};

/// The version of LevelDB whose functions these are.
const VERSION: (c_int, c_int) = (1, 23);

/// The environment: files, threads and time are those of the system.
struct Environment;

/// Removes a database, and its directory unless it has files of others. As for LevelDB, there is
/// nothing to do if it is not there.
pub(super) fn destroy(path: &Path) -> Result<()> {
    let is_empty = || fs::read_dir(path).map_or(true, |mut files| files.next().is_none());
    match Db::destroy(path) {
        Err(e) if e.kind() == ErrorKind::NotADatabase && is_empty() => {}
        destroyed => _ = destroyed?,
    }
    let _ = fs::remove_dir(path);
    Ok(())
}

export! {
    fn leveldb_destroy_db(_options: Handle<OpenOptions>, name: Chars; error: OutPlace<Malloced>) {
        destroy(name.path()?)
    }

    fn leveldb_create_default_env() -> Handle<Environment> {
        Handle::new(Environment)
    }

    fn leveldb_env_destroy(env: Handle<Environment>) {
        drop(env.take());
    }

    fn leveldb_env_get_test_directory(_env: Handle<Environment>) -> Malloced {
        let usual = || env::temp_dir().join(format!("leveldbtest-{}", geteuid().as_raw()));
        let path = env::var_os("TEST_TMPDIR").map_or_else(usual, Into::into);
        // Whether it is there shows when it is used.
        let _ = fs::create_dir(&path);
        path.to_str().map_or_else(Malloced::null, Malloced::text)
    }

    fn leveldb_free(memory: Malloced) {
        memory.free();
    }

    fn leveldb_major_version() -> c_int {
        VERSION.0
    }

    fn leveldb_minor_version() -> c_int {
        VERSION.1
    }
}
