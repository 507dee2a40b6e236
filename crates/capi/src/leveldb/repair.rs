//! The repair of a database: what can be saved goes to a new one, which takes its place.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use cleavedb::{Db, Durability, Error, ErrorKind, Options, PutOptions, Result, Salvage};
use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Bytes of values between two writes.
const BATCH_BYTES: usize = 4 << 20;

/// Repairs the database in `path`; one that opens and is intact stays as it is. The damaged one is
/// kept beside it, with `.damaged` behind its name.
pub(super) fn repair(path: &Path, options: Options) -> Result<()> {
    let options = Options { create_if_missing: false, error_if_exists: false, ..options };
    match check(path, options.clone()) {
        Ok(()) => return Ok(()),
        // Whatever else there is, a salvage can try.
        Err(e) if matches!(e.kind(), ErrorKind::Locked | ErrorKind::Forked) => return Err(e),
        Err(_) => {}
    }
    let (repaired, damaged) = (beside(path, ".repaired"), beside(path, ".damaged"));
    if fs::symlink_metadata(&damaged).is_ok() {
        let what = "a damaged database of an earlier repair is in the way; move or remove it";
        return Err(Error::new(ErrorKind::AlreadyExists, what).with("path", damaged.display()));
    }
    save(path, &repaired, options.clone())?;
    check(&repaired, options)?;
    // At once: a program that finds no database here, after a crash between two renames, makes one.
    renameat_with(CWD, path, CWD, &repaired, RenameFlags::EXCHANGE)
        .map_err(|e| io("exchange the database for the repaired one", &repaired, e.into()))?;
    fs::rename(&repaired, &damaged)
        .map_err(|e| io("give the damaged directory its new name", &damaged, e))?;
    let parent = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = File::open(parent).and_then(|it| it.sync_all());
    synced.map_err(|e| io("sync the directory", parent, e))
}

/// Fails if the database does not open, or has damage.
fn check(path: &Path, options: Options) -> Result<()> {
    let db = Db::open(path, options)?;
    let report = db.verify();
    db.close_now()?;
    report?.problems.into_iter().next().map_or(Ok(()), Err)
}

/// Saves what can be read into a new database, which is as the damaged one was made.
fn save(from: &Path, to: &Path, asked: Options) -> Result<()> {
    let salvage = Salvage::search(from)?;
    let stored = salvage.options();
    let options = Options {
        error_if_exists: true,
        durability: Durability::Os,
        compression: asked.compression,
        value_compression: asked.value_compression,
        ..stored
    };
    let db = Db::open(to, options)?;
    for (name, options) in salvage.keyspaces() {
        db.create_keyspace(name, options)?;
    }
    if let Some(least) = salvage.min_separated() {
        db.default_keyspace().store_min_separated(Some(least))?;
    }
    let blob_bytes = db.options().tuning.blob_bytes;
    let mut batch = db.batch();
    salvage.hand_out(&mut |saved| {
        let keyspace = db.keyspace(saved.keyspace)?;
        if saved.value.len() as u64 >= blob_bytes {
            let terms = PutOptions::new().until(saved.expires);
            return keyspace.put_reader_with(saved.key, saved.value, terms).map(|_| ());
        }
        batch.keyspace(&keyspace).put_until(saved.key, saved.value, saved.expires)?;
        if batch.size_bytes() >= BATCH_BYTES as u64 {
            db.write(&batch)?;
            batch.clear();
        }
        Ok(())
    })?;
    db.write_with(&batch, Durability::Sync)?;
    db.close_now()
}

fn beside(path: &Path, end: &str) -> PathBuf {
    // Without a slash at the end, behind which the name would be one of a file within.
    let mut name = path.components().as_path().as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn io(doing: &str, path: &Path, cause: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot {doing}: {cause}")).with("path", path.display())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cleavedb::{KeyspaceOptions, Preset};

    use super::super::options::OpenOptions;
    use super::*;

    /// A file of the directory with this end of its name.
    fn file(path: &Path, end: &str) -> Option<PathBuf> {
        let mut files = fs::read_dir(path).unwrap().map(|it| it.unwrap().path());
        files.find(|it| it.extension().is_some_and(|it| it == end))
    }

    /// Overwrites bytes of a table of the database.
    fn damage(path: &Path) {
        let table = file(path, "tbl").unwrap();
        let mut bytes = fs::read(&table).unwrap();
        bytes[100..108].copy_from_slice(b"damaged!");
        fs::write(table, bytes).unwrap();
    }

    #[test]
    fn a_repaired_database_is_as_it_was_made() {
        for preset in Preset::ALL {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("db");
            let db = Db::open(&path, Options::preset(preset)).unwrap();
            let kept =
                KeyspaceOptions { ttl: Some(Duration::from_secs(3600)), ..Default::default() };
            db.create_keyspace("kept", kept).unwrap();
            let separated = db.options().layout().separates().then_some(77);
            if separated.is_some() {
                db.default_keyspace().store_min_separated(separated).unwrap();
            }
            for key in 0..100u32 {
                db.put(key.to_be_bytes(), [7; 100]).unwrap();
            }
            let blob = vec![7; 5 << 20];
            db.default_keyspace().put_reader("blob", &blob[..]).unwrap();
            db.flush().unwrap();
            db.close().unwrap();
            damage(&path);
            repair(&path, OpenOptions::default().options().unwrap()).unwrap();
            let db = Db::open(&path, Options::preset(preset)).unwrap();
            assert_eq!(db.keyspace("kept").unwrap().stored_options().unwrap(), kept);
            assert_eq!(db.options().min_separated, separated, "{preset:?}");
            assert_eq!(db.get("blob").unwrap().unwrap(), blob, "{preset:?}");
            assert!(dir.path().join("db.damaged").exists() && file(&path, "blob").is_some());
        }
    }

    #[test]
    fn a_directory_beside_another_has_its_name_with_an_end() {
        for path in ["a/db", "a/db/", "a/db//"] {
            assert_eq!(beside(Path::new(path), ".damaged"), Path::new("a/db.damaged"));
        }
    }
}
