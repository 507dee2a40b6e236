//! The log: user commits, once, and nothing else.
//!
//! One stream of records, cut into files, with its newest part in the window. In log-as-store
//! presets the files are also the youngest value segments: a separated value stays where its commit
//! put it. See `docs/format.md`, "Log file".

mod frame;
mod released;
mod reader;
mod rest;
mod buffer;
mod writer;
pub mod salvage;

#[cfg(all(test, feature = "loom"))]
mod loom_tests;
#[cfg(all(test, feature = "shuttle"))]
mod shuttle_tests;

pub use buffer::{BufferPin, LogBuffer, Slot};
pub use frame::{FORMAT_VERSION, FileHeader, SyncMarker, newer_format};
pub use reader::LogReader;
pub use writer::{
    ALLOCATED_MIN, Appender, First, Log, LogFile, PreallocatedLog, Reserved, WriteBack,
};

/// A log file of `storage`, created ahead.
#[cfg(test)]
fn spare_of(storage: &impl crate::Storage, number: u64) -> PreallocatedLog {
    use crate::{Access, FileKind, Mode, Name};
    let number = cleavedb_base::FileNumber(number);
    let name = Name::numbered(FileKind::Log, number);
    let file = storage.open(&name, Mode::CreateNew, Access::Random).unwrap();
    storage.sync_dir().unwrap();
    PreallocatedLog { number, file, allocated: u64::MAX }
}

/// A log of `sim` that was begun, with a window and files of `len` bytes.
#[cfg(test)]
fn log_of(storage: &impl crate::Storage, len: usize, drain: WriteBack) -> (Log, Appender) {
    let identity = crate::WindowIdentity { database_id: 1, number: cleavedb_base::FileNumber(1) };
    let window = crate::Window::create(storage, identity, 0, (len, len)).unwrap();
    let (log, mut appender) = Log::idle(1, 0, len as u64);
    log.begin(&mut appender, window, drain, First::New(spare_of(storage, 1)));
    (log, appender)
}
