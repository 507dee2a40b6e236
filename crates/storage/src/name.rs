//! File names: the one place where a name is spelled.
//!
//! A name is flat: no separators, no parents, so nothing above can leave the directory.

use std::fmt;

use cleavedb_base::FileNumber;

/// What a file holds; decides its suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// `000001.log`: user commits, once; in log-as-store presets also the youngest values.
    Log,
    /// `000001.seg`: values that collection moved.
    Segment,
    /// `000001.grp`: values of groups, in extents.
    Group,
    /// `000001.blob`: one value, in pieces.
    Blob,
    /// `000001.tbl`: a sorted table of the index.
    Table,
    /// `000001.manifest`: the log of edits, the one commit point for the set of live files.
    Manifest,
    /// `current`: names the manifest; replaced by rename.
    Current,
    /// `current.new`: the next `current`, before its rename.
    CurrentNew,
    /// `window`: the newest part of the log, mapped into memory.
    Window,
    /// `reserve`: space that is kept for a full disk.
    Reserve,
    /// `lock`: held while the database is open.
    Lock,
    /// `volume`: in a further directory, names the database that it belongs to; replaced by rename.
    Volume,
    /// `volume.new`: the next `volume`, before its rename.
    VolumeNew,
    /// `backup`: in a backup, says when it was made and of which files.
    Backup,
}

impl FileKind {
    /// Whether jobs write such files, to hold keys or values.
    pub fn is_data(self) -> bool {
        matches!(self, Self::Table | Self::Segment | Self::Group | Self::Blob)
    }

    fn suffix(self) -> Option<&'static str> {
        match self {
            Self::Log => Some("log"),
            Self::Segment => Some("seg"),
            Self::Group => Some("grp"),
            Self::Blob => Some("blob"),
            Self::Table => Some("tbl"),
            Self::Manifest => Some("manifest"),
            Self::Current
            | Self::CurrentNew
            | Self::Window
            | Self::Reserve
            | Self::Lock
            | Self::Volume
            | Self::VolumeNew
            | Self::Backup => None,
        }
    }

    fn fixed_name(self) -> Option<&'static str> {
        match self {
            Self::Current => Some("current"),
            Self::CurrentNew => Some("current.new"),
            Self::Window => Some("window"),
            Self::Reserve => Some("reserve"),
            Self::Lock => Some("lock"),
            Self::Volume => Some("volume"),
            Self::VolumeNew => Some("volume.new"),
            Self::Backup => Some("backup"),
            Self::Log | Self::Segment | Self::Group | Self::Blob | Self::Table | Self::Manifest => {
                None
            }
        }
    }

    /// Whether the manifest says where the parts of such a file lie; else it is read from its
    /// beginning.
    pub fn has_extents(self) -> bool {
        self == Self::Group
    }

    /// The kinds of files with values of users.
    pub const VALUES: [Self; 4] = [Self::Log, Self::Segment, Self::Group, Self::Blob];

    const ALL: [Self; 14] = [
        Self::Log,
        Self::Segment,
        Self::Group,
        Self::Blob,
        Self::Table,
        Self::Manifest,
        Self::Current,
        Self::CurrentNew,
        Self::Window,
        Self::Reserve,
        Self::Lock,
        Self::Volume,
        Self::VolumeNew,
        Self::Backup,
    ];
}

/// A checked file name of the database directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    kind: FileKind,
    number: FileNumber,
}

impl Name {
    /// The name of numbered file `number` of `kind`.
    pub fn numbered(kind: FileKind, number: FileNumber) -> Self {
        debug_assert!(kind.suffix().is_some(), "{kind:?} has no number");
        Self { kind, number }
    }

    /// The name of the one file of `kind`.
    pub fn fixed(kind: FileKind) -> Self {
        debug_assert!(kind.fixed_name().is_some(), "{kind:?} needs a number");
        Self { kind, number: FileNumber(0) }
    }

    /// Reads a name as it is spelled on disk; `None` if it is not one of ours.
    pub fn parse(spelled: &str) -> Option<Self> {
        if let Some(kind) = FileKind::ALL.into_iter().find(|k| k.fixed_name() == Some(spelled)) {
            return Some(Self::fixed(kind));
        }
        let (digits, suffix) = spelled.split_once('.')?;
        let kind = FileKind::ALL.into_iter().find(|k| k.suffix() == Some(suffix))?;
        let number = FileNumber(digits.parse().ok()?);
        let name = Self::numbered(kind, number);
        // One spelling per name: "7.log" and "+7.log" are foreign files.
        (name.to_string() == spelled).then_some(name)
    }

    /// What the file holds.
    pub fn kind(&self) -> FileKind {
        self.kind
    }

    /// The number of the file; 0 for kinds of which there is one.
    pub fn number(&self) -> FileNumber {
        self.number
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind.suffix(), self.kind.fixed_name()) {
            (Some(suffix), _) => write!(f, "{}.{suffix}", self.number),
            (None, Some(fixed)) => f.write_str(fixed),
            (None, None) => unreachable!("every kind has a suffix or a fixed name"),
        }
    }
}

/// The name of a backup in a directory of backups: itself a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BackupName {
    /// `000001`: all of it is there.
    Whole(u64),
    /// `000001.unfinished`: being made or removed.
    Unfinished(u64),
}

/// What follows the number of a backup that is not whole.
const UNFINISHED: &str = ".unfinished";

impl BackupName {
    /// Reads a name as it is spelled on disk; `None` if it is not one of ours.
    pub fn parse(spelled: &str) -> Option<Self> {
        let name = match spelled.strip_suffix(UNFINISHED) {
            Some(digits) => Self::Unfinished(digits.parse().ok()?),
            None => Self::Whole(spelled.parse().ok()?),
        };
        // One spelling per name.
        (name.to_string() == spelled).then_some(name)
    }
}

impl fmt::Display for BackupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => write!(f, "{number:06}"),
            Self::Unfinished(number) => write!(f, "{number:06}{UNFINISHED}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_backups_round_trip_and_strangers_are_refused() {
        for number in [1, 999_999, 1_000_000, u64::MAX] {
            for name in [BackupName::Whole(number), BackupName::Unfinished(number)] {
                assert_eq!(BackupName::parse(&name.to_string()), Some(name));
            }
        }
        for stranger in ["", "7", "0000007", "+00007", "000007.log", "../000007", ".unfinished"] {
            assert_eq!(BackupName::parse(stranger), None, "{stranger}");
        }
    }

    #[test]
    fn names_round_trip_and_strangers_are_refused() {
        for number in [0, 7, 999_999, 1_000_000, u64::MAX] {
            for kind in [FileKind::Log, FileKind::Segment, FileKind::Table, FileKind::Manifest] {
                let name = Name::numbered(kind, FileNumber(number));
                assert_eq!(Name::parse(&name.to_string()), Some(name));
            }
        }
        assert_eq!(Name::parse("lock"), Some(Name::fixed(FileKind::Lock)));
        for stranger in ["", "7.log", "0000007.log", "+00007.log", "000007.sst", "../lock", "LOCK"]
        {
            assert_eq!(Name::parse(stranger), None, "{stranger}");
        }
    }
}
