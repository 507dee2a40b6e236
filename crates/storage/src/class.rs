//! FileClass: the kinds of files that a placement can tell apart, decided when a file is created.
//!
//! A class is finer than a [`FileKind`]: tables of level 0 and tables below it are files of one
//! kind. A file stays in the directory that it was created in.

use crate::name::FileKind;

/// What a new file is created for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileClass {
    /// Log files. The window stays in the database's own directory, which should therefore lie on
    /// the faster disk.
    Log,
    /// Tables of level 0: written by flushes, by collections and by merges within level 0.
    Level0,
    /// Tables that compactions write for the levels below.
    Levels,
    /// Segments: values that collections moved.
    Segments,
    /// Group files that flushes write: young values of groups.
    Groups,
    /// Group files that collections write: values that outlived others of their group.
    Survivors,
    /// Group files with hot segments: values of keys that are used often.
    Hot,
    /// Blobs: values that have a file of their own.
    Blobs,
}

impl FileClass {
    /// All classes.
    pub const ALL: [Self; 8] = [
        Self::Log,
        Self::Level0,
        Self::Levels,
        Self::Segments,
        Self::Groups,
        Self::Survivors,
        Self::Hot,
        Self::Blobs,
    ];

    /// The name on the command line and in the data.
    pub fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Level0 => "level0",
            Self::Levels => "levels",
            Self::Segments => "segments",
            Self::Groups => "groups",
            Self::Survivors => "survivors",
            Self::Hot => "hot",
            Self::Blobs => "blobs",
        }
    }

    /// The class of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// The class of a table that is written for `level`.
    #[doc(hidden)]
    pub fn of_level(level: u8) -> Self {
        if level == 0 { Self::Level0 } else { Self::Levels }
    }

    /// The kind of its files.
    #[doc(hidden)]
    pub fn kind(self) -> FileKind {
        match self {
            Self::Log => FileKind::Log,
            Self::Level0 | Self::Levels => FileKind::Table,
            Self::Segments => FileKind::Segment,
            Self::Groups | Self::Survivors | Self::Hot => FileKind::Group,
            Self::Blobs => FileKind::Blob,
        }
    }
}

impl std::fmt::Display for FileClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
