//! What the simulator records: every call that changes what is, or will be, on the disk.

use std::fmt;
use std::sync::Arc;

use cleavedb_storage::Name;

/// A file independent of its name, as an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub(super) u64);

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// One recorded operation.
#[derive(Clone, Debug)]
pub enum Event {
    /// A file got a name and is empty.
    Create {
        /// The new file.
        file: FileId,
        /// The name of the file.
        name: Name,
    },
    /// Bytes were written to a file, or stored into a window.
    Write {
        /// The file written to.
        file: FileId,
        /// Where the bytes begin.
        offset: u64,
        /// The bytes.
        bytes: Arc<[u8]>,
    },
    /// A file was cut or extended.
    Truncate {
        /// The file.
        file: FileId,
        /// The new length of the file.
        len: u64,
    },
    /// Space of a file was given back: from here on the range may read as zeros, or not yet.
    Punch {
        /// The file.
        file: FileId,
        /// Where the range begins.
        offset: u64,
        /// The length of the hole.
        len: u64,
    },
    /// All bytes of a file, and its length, became durable.
    Sync {
        /// The file.
        file: FileId,
    },
    /// A sync failed: what it was to make durable never will be, unless it is written again.
    LoseSync {
        /// The file.
        file: FileId,
    },
    /// A file replaced another name.
    Rename {
        /// The file.
        file: FileId,
        /// The old name of the file.
        from: Name,
        /// The new name of the file.
        to: Name,
    },
    /// A file lost its name.
    Remove {
        /// The file.
        file: FileId,
        /// The name.
        name: Name,
    },
    /// All names became durable.
    SyncDir,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { file, name } => write!(f, "create {name} as {file}"),
            Self::Write { file, offset, bytes } => {
                write!(f, "write {file} at {offset}, {} bytes", bytes.len())
            }
            Self::Truncate { file, len } => write!(f, "truncate {file} to {len}"),
            Self::Punch { file, offset, len } => {
                write!(f, "punch {file} at {offset}, {len} bytes")
            }
            Self::Sync { file } => write!(f, "sync {file}"),
            Self::LoseSync { file } => write!(f, "failed sync {file}"),
            Self::Rename { file, from, to } => write!(f, "rename {from} to {to}, {file}"),
            Self::Remove { file, name } => write!(f, "remove {name}, {file}"),
            Self::SyncDir => write!(f, "sync directory"),
        }
    }
}
