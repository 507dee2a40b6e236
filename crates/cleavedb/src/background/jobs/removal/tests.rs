//! What a copy shares with a database stays as it is, in whatever order its files and holes go; and
//! which dead log files wait for their next use.

use std::fs;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cleavedb_base::FileNumber;
use cleavedb_storage::{Access, Disk, File, FileKind, Hole, Mode, Name, Storage, StorageLayer};

use super::{run_punch, run_remove};
use crate::api::db::Db;
use crate::settings::options::{Background, Options};

/// How long a punch waits for the removal of its file.
const PATIENCE: Duration = Duration::from_millis(300);

/// A disk on which a file that is opened to be punched loses its name then, if anything removes it.
struct Slow {
    disk: Disk,
    name: Name,
}

impl Slow {
    fn has_name(&self) -> bool {
        self.disk.list().unwrap().iter().any(|(name, _)| *name == self.name)
    }
}

impl StorageLayer for Slow {
    fn inner(&self) -> &dyn Storage {
        &self.disk
    }

    fn open(&self, name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(name, mode, access)?;
        let start = Instant::now();
        let punches = *name == self.name && mode == Mode::ReadWrite;
        while punches && self.has_name() && start.elapsed() < PATIENCE {
            thread::yield_now();
        }
        Ok(file)
    }
}

#[test]
fn a_file_that_is_removed_is_not_punched_in_its_copy() {
    let dir = tempfile::tempdir().unwrap();
    let (store, copy) = (dir.path().join("db"), dir.path().join("copy"));
    let name = Name::numbered(FileKind::Group, FileNumber(1 << 20));
    let disk = Disk::open(&store, true).unwrap();
    let storage = Arc::new(Slow { disk, name });
    let options = Options { background: Background::Manual, ..Options::default() };
    let db = Db::open_in(storage, options, 7).unwrap();
    let (file, bytes) = (store.join(name.to_string()), vec![7; 16 << 10]);
    fs::write(&file, &bytes).unwrap();
    fs::hard_link(&file, &copy).unwrap();
    let engine = db.default_keyspace().open_engine().unwrap();
    engine.obsolete_files.give_back(Hole { name, offset: 0, len: 8 << 10 });
    engine.obsolete_files.enqueue(name, 16 << 10);
    thread::scope(|scope| {
        scope.spawn(|| assert!(run_punch(engine)));
        scope.spawn(|| assert!(run_remove(engine)));
    });
    assert!(!file.exists());
    assert!(fs::read(&copy).unwrap() == bytes, "the copy was punched");
}

/// Before, a written log waited as well, and so one more for each log file of a load.
#[test]
fn while_the_next_log_is_due_only_unwritten_logs_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let storage = Arc::new(Disk::open(&path, true).unwrap());
    let options = Options { background: Background::Manual, ..Options::default() };
    let db = Db::open_in(storage, options, 7).unwrap();
    let engine = db.default_keyspace().open_engine().unwrap();
    let [written, unwritten] =
        [0, 1].map(|i| Name::numbered(FileKind::Log, FileNumber((1 << 20) + i)));
    for (name, len) in [(unwritten, 0), (written, 5)] {
        fs::write(path.join(name.to_string()), vec![7; len]).unwrap();
        engine.obsolete_files.enqueue(name, len as u64);
    }
    *engine.preallocated_log.lock() = None;
    assert!(run_remove(engine));
    assert!(!run_remove(engine));
    let exists = |name: Name| path.join(name.to_string()).exists();
    assert_eq!([written, unwritten].map(exists), [false, true]);
}
