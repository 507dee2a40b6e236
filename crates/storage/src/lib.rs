//! The disk: the only crate of CleaveDB that knows files exist.
//!
//! [`api`] is the trait that everything above goes through; [`Disk`] is the real one,
//! [`MultiDirStorage`] spreads classes of files over several directories, [`QuotaStorage`] bounds
//! what they take together, [`Reserving`] has some space left when the disk is full, [`ReadOnly`]
//! keeps all changes in memory, and [`Beside`] is read while another process writes. On top of the
//! trait stand the log and the segments. Modules are listed bottom first; a module uses only those
//! above it.

pub mod process;
pub mod machine;
pub mod prefetch;
pub mod pages;
pub mod mapped;
pub mod name;
pub mod class;
mod window_header;
mod mapping;
mod layer;
pub mod api;
pub mod backups;
mod left_window;
pub mod window;
pub mod obsolete;
pub mod niceness;
pub mod processor_time;
pub mod aligned;
mod write_behind;
pub mod copy;
pub mod log;
pub mod segment;
pub mod disk;
pub mod multi_dir;
pub mod quota;
pub mod reserve;
mod overlay;
mod read_only;
mod beside;

#[cfg(all(test, feature = "test-loom"))]
mod loom_tests;

pub use api::{
    Access, File, FileLayer, Lock, LockMode, Mode, Reach, RemoveMode, Storage, StorageLayer,
};
pub use backups::BackupStorage;
pub use beside::Beside;
pub use class::FileClass;
pub use disk::lock::{DirLock, Holder};
pub use disk::{Disk, DiskBackups, open_files};
pub use left_window::{FoundWindow, LeftWindow};
pub use mapping::{Mapping, WindowMemory, WindowObserver};
pub use multi_dir::{Directory, MultiDirStorage};
pub use name::{BackupName, FileKind, Name};
pub use obsolete::{Hole, ObsoleteFiles};
pub use quota::QuotaStorage;
pub use read_only::ReadOnly;
pub use reserve::{Borrower, Reserve, Reserving, Wanted};
pub use window::Window;
pub use window_header::{HEADER_LEN as WINDOW_HEADER_LEN, Watermark, WindowIdentity};
pub use write_behind::WriteBehind;
