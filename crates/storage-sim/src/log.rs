//! A log that was begun in any storage, for the tests of the log and of the storages.

use cleavedb_base::FileNumber;
use cleavedb_storage::log::{Appender, First, Log, PreallocatedLog, WriteBack};
use cleavedb_storage::{Access, FileKind, Mode, Name, Storage, Window, WindowIdentity};

/// The identity of the window of every such log.
pub const WINDOW: WindowIdentity = WindowIdentity { database_id: 1, number: FileNumber(1) };

/// A log file of `storage`, created ahead.
///
/// # Panics
/// If the storage fails.
pub fn spare_of(storage: &dyn Storage, number: u64) -> PreallocatedLog {
    let number = FileNumber(number);
    let name = Name::numbered(FileKind::Log, number);
    let file = storage.open(&name, Mode::CreateNew, Access::Random).expect("a log file is created");
    storage.sync_dir().expect("its name is durable");
    PreallocatedLog { number, file, allocated: u64::MAX }
}

/// A log of `storage` that was begun in file 1, with a window and files of `len` bytes.
///
/// # Panics
/// If the storage fails.
pub fn log_of(storage: &dyn Storage, len: usize, drain: WriteBack) -> (Log, Appender) {
    let window = Window::create(storage, WINDOW, 0, len, len).expect("a window is made");
    let (log, mut appender) = Log::idle(1, 0, len as u64);
    log.begin(&mut appender, window, drain, First::New(spare_of(storage, 1)));
    (log, appender)
}
