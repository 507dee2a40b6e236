//! What a dump is asked for.

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
    /// Segments and group files: the records, and what helps to find them.
    Values,
}

impl DumpKind {
    /// The kinds of files.
    pub(super) fn files(self) -> &'static [FileKind] {
        const FILES: [&[FileKind]; 4] = [
            &[FileKind::Manifest],
            &[FileKind::Log],
            &[FileKind::Table],
            &[FileKind::Segment, FileKind::Group],
        ];
        FILES[self as usize]
    }
}

/// What a dump is to say.
#[derive(Clone, Debug)]
pub struct DumpRequest {
    /// Which files.
    pub kind: DumpKind,
    /// The one of them that is meant, by its number, its name, or a path to a copy of it elsewhere.
    /// None is the current manifest, or all files of the other kinds.
    pub file: Option<PathBuf>,
    /// Whether lines have the values of records and entries.
    pub values: bool,
    /// Whether the state at the end of a manifest follows its edits.
    pub state: bool,
}
