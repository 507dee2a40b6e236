//! Saves: what is asked for by `SAVE` and `BGSAVE` is on the disk, and in the directory of backups
//! if there is one; `BGREWRITEAOF` gives back the space of dead values.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cleavedb::{Db, Error, ErrorKind};

/// What is told of saves.
#[derive(Default)]
pub struct Saves {
    /// The time of the last one that was done, in milliseconds since 1970.
    last: AtomicU64,
    is_saving: AtomicBool,
    is_collecting: AtomicBool,
    has_failed: AtomicBool,
}

/// A job that runs once at a time.
struct JobTurn<'a>(&'a AtomicBool);

impl<'a> JobTurn<'a> {
    fn take(is_taken: &'a AtomicBool) -> Option<Self> {
        (!is_taken.swap(true, Ordering::AcqRel)).then_some(Self(is_taken))
    }
}

impl Drop for JobTurn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Saves {
    /// The time of the last save, in milliseconds since 1970; none before the first one.
    pub fn last(&self) -> Option<u64> {
        Some(self.last.load(Ordering::Relaxed)).filter(|last| *last > 0)
    }

    /// Whether one runs.
    pub fn is_saving(&self) -> bool {
        self.is_saving.load(Ordering::Acquire)
    }

    /// Whether the last one has failed.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Makes all writes so far survive a loss of power, and a backup of them in `to`, if it is one.
    /// Returns whether no other save ran. `now` is in milliseconds since 1970.
    pub fn save(&self, db: &Db, to: Option<&Path>, now: u64) -> cleavedb::Result<bool> {
        let Some(_turn) = JobTurn::take(&self.is_saving) else { return Ok(false) };
        let saved = db.sync().and_then(|()| to.map_or(Ok(()), |to| db.backup(to).map(drop)));
        self.has_failed.store(saved.is_err(), Ordering::Relaxed);
        saved?;
        self.last.store(now, Ordering::Relaxed);
        Ok(true)
    }

    /// Gives back the space of dead values. Returns whether no other call does.
    pub fn collect(&self, db: &Db) -> cleavedb::Result<bool> {
        let Some(_turn) = JobTurn::take(&self.is_collecting) else { return Ok(false) };
        db.collect().map(|()| true)
    }

    /// Whether the space of dead values is given back now.
    pub fn is_collecting(&self) -> bool {
        self.is_collecting.load(Ordering::Acquire)
    }
}

/// Runs a job in a thread of its own. An error of it is told by what counts jobs.
pub fn in_background(
    name: &str,
    saves: &Arc<Saves>,
    job: impl FnOnce(&Saves) + Send + 'static,
) -> std::io::Result<()> {
    let saves = saves.clone();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || job(&saves)).map(drop)
}

/// The place of a checkpoint with a name in the directory of backups, which holds nothing else of
/// that name. A name is one plain word, so that no client reaches other directories.
pub fn place(backup_dir: Option<&Path>, name: &[u8]) -> cleavedb::Result<PathBuf> {
    let refused = |why: &str| Error::new(ErrorKind::InvalidArgument, why);
    let dir = backup_dir.ok_or_else(|| refused("start with --backup-dir to make copies there"))?;
    let name = str::from_utf8(name).ok().map(Path::new);
    let mut parts = name.into_iter().flat_map(Path::components);
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(name)), None) if !name.as_encoded_bytes().contains(&0) => {
            Ok(dir.join("checkpoints").join(name))
        }
        _ => Err(refused("the name of a checkpoint is one word without a slash")),
    }
}

#[cfg(test)]
mod tests {
    use cleavedb::Options;

    use super::*;

    #[test]
    fn a_checkpoint_stays_in_its_directory() {
        let dir = Some(Path::new("/backups"));
        assert_eq!(place(dir, b"monday").unwrap(), Path::new("/backups/checkpoints/monday"));
        for wrong in [&b""[..], b".", b"..", b"a/b", b"../a", b"/etc", b"a\0b", b"\xff"] {
            assert!(place(dir, wrong).is_err(), "{}", wrong.escape_ascii());
        }
        assert!(place(None, b"monday").is_err());
    }

    #[test]
    fn a_save_is_durable_and_has_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path().join("db"), Options::default()).unwrap();
        db.put("key", "value").unwrap();
        let saves = Saves::default();
        assert_eq!(saves.last(), None);
        assert!(saves.save(&db, Some(&dir.path().join("backups")), 5).unwrap());
        assert_eq!((saves.last(), saves.is_saving(), saves.has_failed()), (Some(5), false, false));
        assert!(saves.save(&db, Some(&dir.path().join("db")), 6).is_err());
        assert_eq!((saves.last(), saves.has_failed()), (Some(5), true));
        let turn = JobTurn::take(&saves.is_saving).unwrap();
        assert!(!saves.save(&db, None, 7).unwrap());
        drop(turn);
        assert!(saves.save(&db, None, 7).unwrap() && saves.collect(&db).unwrap());
    }
}
