//! The list of engines that were compiled in.

use cleavedb_bench::{BenchError, Opener, Result};

use crate::fresh::Fresh;
use crate::settings::{Durability, PeerArgs};

/// An engine by name.
pub struct Entry {
    /// Name on the command line and in results.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// Whether it runs only where it is named: it is no store for general use, or too slow.
    pub extra: bool,
    /// Whether it can be asked for [`Durability::Sync`].
    syncs: bool,
    open: fn(&PeerArgs) -> Result<Box<dyn Opener>>,
}

impl Entry {
    /// An opener of this engine with the settings of `args`.
    pub fn opener(&self, args: &PeerArgs) -> Result<Box<dyn Opener>> {
        if args.durability == Durability::Sync && !self.syncs {
            return Err(BenchError::Usage(format!(
                "--durability sync: not here for {}",
                self.name
            )));
        }
        Ok(Box::new(Fresh((self.open)(args)?)))
    }
}

/// HashKV's values over the stores of `index`.
fn over(name: &'static str, index: impl Opener + 'static) -> Result<Box<dyn Opener>> {
    Ok(Box::new(crate::over::OverOpener::new(name, Box::new(index))))
}

/// All engines; the first one is the default.
pub const ENGINES: &[Entry] = &[
    #[cfg(feature = "rocksdb")]
    Entry {
        name: crate::rocks::NAME,
        about: "RocksDB, leveled",
        extra: false,
        syncs: true,
        open: |args| Ok(Box::new(crate::rocks::RocksOpener::plain(args))),
    },
    #[cfg(feature = "rocksdb")]
    Entry {
        name: crate::rocks::BLOB_NAME,
        about: "RocksDB with values in blob files",
        extra: false,
        syncs: true,
        open: |args| Ok(Box::new(crate::rocks::RocksOpener::blob(args))),
    },
    #[cfg(feature = "leveldb")]
    Entry {
        name: crate::level::NAME,
        about: "LevelDB, reads not mapped",
        extra: false,
        syncs: false,
        open: |args| Ok(Box::new(crate::level::LevelOpener::new(args))),
    },
    #[cfg(feature = "fjall")]
    Entry {
        name: crate::fjall::NAME,
        about: "fjall, leveled",
        extra: false,
        syncs: true,
        open: |args| Ok(Box::new(crate::fjall::FjallOpener::plain(args))),
    },
    #[cfg(feature = "fjall")]
    Entry {
        name: crate::fjall::SEPARATED_NAME,
        about: "fjall with large values in blob files",
        extra: false,
        syncs: true,
        open: |args| Ok(Box::new(crate::fjall::FjallOpener::separated(args))),
    },
    #[cfg(feature = "lmdb")]
    Entry {
        name: crate::lmdb::NAME,
        about: "LMDB, a mapped B+ tree",
        extra: false,
        syncs: false,
        open: |_| Ok(Box::new(crate::lmdb::LmdbOpener)),
    },
    #[cfg(feature = "redb")]
    Entry {
        name: crate::redb::NAME,
        about: "redb, a B+ tree",
        extra: false,
        syncs: true,
        open: |args| Ok(Box::new(crate::redb::RedbOpener::new(args))),
    },
    #[cfg(feature = "sqlite")]
    Entry {
        name: crate::sqlite::NAME,
        about: "SQLite, a table of keys and values",
        extra: true,
        syncs: true,
        open: |args| Ok(Box::new(crate::sqlite::SqliteOpener::new(args))),
    },
    #[cfg(feature = "badger")]
    Entry {
        name: crate::badger::NAME,
        about: "Badger in a process of its own, values in its tree",
        extra: false,
        syncs: false,
        open: |args| Ok(Box::new(crate::badger::BadgerOpener::plain(args)?)),
    },
    #[cfg(feature = "badger")]
    Entry {
        name: crate::badger::SEPARATED_NAME,
        about: "Badger in a process of its own, large values in its value log",
        extra: false,
        syncs: false,
        open: |args| Ok(Box::new(crate::badger::BadgerOpener::separated(args)?)),
    },
    #[cfg(feature = "rocksdb")]
    Entry {
        name: crate::over::ON_ROCKSDB,
        about: "HashKV's values over RocksDB, for its experiment 13",
        extra: true,
        syncs: false,
        open: |args| over(crate::over::ON_ROCKSDB, crate::rocks::RocksOpener::plain(args)),
    },
    #[cfg(feature = "leveldb")]
    Entry {
        name: crate::over::ON_LEVELDB,
        about: "HashKV's values over LevelDB, for its experiment 13",
        extra: true,
        syncs: false,
        open: |args| over(crate::over::ON_LEVELDB, crate::level::LevelOpener::new(args)),
    },
];
