//! The request for a dump.

use std::path::PathBuf;

use cleavedb_storage::FileKind;

/// Which files a dump reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpKind {
    /// Manifests: the edits.
    Manifest,
    /// Log files: the records and marks.
    Log,
    /// Tables of the index: properties, filter, blocks, entries.
    Table,
    /// Segments, group files and blobs: the records, filters, key blocks and key directories.
    Values,
}

impl DumpKind {
    /// The kinds of files to read.
    pub(super) fn files(self) -> &'static [FileKind] {
        const FILES: [&[FileKind]; 4] = [
            &[FileKind::Manifest],
            &[FileKind::Log],
            &[FileKind::Table],
            &[FileKind::Segment, FileKind::Group, FileKind::Blob],
        ];
        FILES[self as usize]
    }
}

/// The files to dump, and the details to show.
#[derive(Clone, Debug)]
pub struct DumpRequest {
    /// The kind of the files.
    pub kind: DumpKind,
    /// One file of that kind, by its number, its name, or a path to a copy of it. `None` is the
    /// current manifest or, of the other kinds, all files.
    pub file: Option<PathBuf>,
    /// Whether lines have the values of records and entries.
    pub values: bool,
    /// Whether the state at the end of a manifest follows its edits.
    pub state: bool,
}
