//! The repair of a database: what can be saved goes to a new one, which takes its place.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use cleavedb::{Db, Durability, Error, ErrorKind, Options, PutOptions, Result, Salvage};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::manage::destroy;
use super::options::{self, OpenOptions};
use crate::handles::{Handle, export};
use crate::slices::{Chars, Malloced, OutPlace};

/// Bytes of values between two writes.
const BATCH_BYTES: usize = 4 << 20;

/// Repairs the database in `path`; one that opens and is intact stays as it is. The damaged one is
/// kept beside it, with `.damaged` behind its name. A repair that fails leaves the database as it
/// is: what lies in `.repairing` is no more than a part, and removed.
fn repair(path: &Path, options: Options) -> Result<()> {
    let options = Options { create_if_missing: false, error_if_exists: false, ..options };
    match check(path, options.clone()) {
        Ok(()) => return Ok(()),
        // Whatever else there is, a salvage can try.
        Err(e) if matches!(e.kind(), ErrorKind::Locked | ErrorKind::Forked) => return Err(e),
        Err(_) => {}
    }
    let [saving, repaired, damaged] =
        [".repairing", ".repaired", ".damaged"].map(|end| beside(path, end));
    for kept in [&repaired, &damaged] {
        if fs::symlink_metadata(kept).is_ok() {
            let what = "a database of an earlier repair is in the way; move or remove it";
            return Err(Error::new(ErrorKind::AlreadyExists, what).with("path", kept.display()));
        }
    }
    clear(&saving)?;
    let saved = save(path, &saving, options.clone()).and_then(|()| check(&saving, options));
    if saved.is_err() {
        // The disk may be full. The next repair tries again.
        let _ = clear(&saving);
    }
    saved?;
    fs::rename(&saving, &repaired)
        .map_err(|e| io("give the repaired database its name", &repaired, e))?;
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

/// Removes what a repair that failed has left. Only a whole database is removed, so a creation that
/// was cut off comes to its end before.
fn clear(saving: &Path) -> Result<()> {
    destroy(saving).or_else(|_| {
        Db::open(saving, Options::default())?.close_now()?;
        destroy(saving)
    })
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

export! {
    fn leveldb_repair_db(options: Handle<OpenOptions>, name: Chars; error: OutPlace<Malloced>) {
        repair(name.path()?, options::of_open(&options)?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cleavedb::{KeyspaceOptions, Preset};

    use super::*;

    /// A damaged database with keys 0 to 99, and the options to repair it.
    fn damaged(path: &Path) -> Options {
        let db = Db::open(path, Options::default()).unwrap();
        (0..100u32).for_each(|key| db.put(key.to_be_bytes(), [7; 100]).unwrap());
        db.flush().unwrap();
        db.close().unwrap();
        damage(path);
        OpenOptions::default().options().unwrap()
    }

    /// Names in a directory, sorted.
    fn names(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir).unwrap().map(|it| it.unwrap().file_name());
        let mut names: Vec<_> = names.map(|it| it.into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

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
    fn a_repair_that_fails_does_not_stand_in_the_way_of_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let options = damaged(&path);
        let refused = Options { preset: Some(Preset::Lsm), ..options.clone() };
        assert_eq!(repair(&path, refused).unwrap_err().kind(), ErrorKind::LayoutMismatch);
        assert_eq!(names(dir.path()), ["db"]);
        // As processes leave it that die within a repair, before and behind its first write.
        let saving = dir.path().join("db.repairing");
        fs::create_dir(&saving).unwrap();
        fs::write(saving.join("lock"), "").unwrap();
        clear(&saving).unwrap();
        assert_eq!(names(dir.path()), ["db"]);
        let part = Db::open(saving, Options::default()).unwrap();
        part.put("of the part", "").unwrap();
        part.close().unwrap();
        repair(&path, options.clone()).unwrap();
        assert_eq!(names(dir.path()), ["db", "db.damaged"]);
        let db = Db::open(&path, options).unwrap();
        assert!(db.get("of the part").unwrap().is_none());
        assert_eq!(db.get(99u32.to_be_bytes()).unwrap().unwrap(), [7; 100][..]);
    }

    #[test]
    fn a_repair_removes_nothing_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let options = damaged(&path);
        for (end, kind) in [
            ("repairing", ErrorKind::NotADatabase),
            ("repaired", ErrorKind::AlreadyExists),
            ("damaged", ErrorKind::AlreadyExists),
        ] {
            let foreign = path.with_extension(end);
            fs::create_dir(&foreign).unwrap();
            fs::write(foreign.join("file"), "of others").unwrap();
            let error = repair(&path, options.clone()).unwrap_err();
            assert_eq!((error.kind(), error.fact("path")), (kind, foreign.to_str()), "{error}");
            assert_eq!(fs::read(foreign.join("file")).unwrap(), b"of others");
            fs::remove_dir_all(&foreign).unwrap();
        }
        repair(&path, options).unwrap();
    }

    #[test]
    fn a_directory_beside_another_has_its_name_with_an_end() {
        for path in ["a/db", "a/db/", "a/db//"] {
            assert_eq!(beside(Path::new(path), ".damaged"), Path::new("a/db.damaged"));
        }
    }
}
