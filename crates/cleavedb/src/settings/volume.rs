//! Volume: a directory besides the database's own, and the classes of files placed there.

use std::path::{Path, PathBuf};

use cleavedb_storage::FileClass;

/// Most volumes of a database: more disks than one process keeps busy.
pub(crate) const VOLUMES_MAX: usize = 8;

/// Longest path of a volume, in bytes: what systems allow, and short enough for `current`.
const PATH_LEN_MAX: usize = 4096;

/// Placeholder of an absent field in the file.
const NONE: &str = "-";

/// A directory besides the database's own, and the classes of files placed there (OHDB, section
/// III.B). The database remembers its volumes; an open needs to name them only to add one, to
/// change a placement from now on, or if a disk was mounted elsewhere.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let (path, other) = (dir.path().join("db"), dir.path().join("ssd"));
/// use cleavedb::{Db, FileClass, Options, Preset, Volume};
///
/// let volumes = vec![Volume::new(&other, [FileClass::Levels])];
/// Db::open(&path, Options { volumes, ..Options::preset(Preset::Ohdb) })?.close()?;
/// // The database knows where its volumes are.
/// Db::open(&path, Options::preset(Preset::Ohdb))?.close()?;
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// The directory; kept as an absolute path. A new volume must be empty. A directory that is
    /// already a volume of the database is recognised by its file `volume`, whatever its path was.
    /// If it is the database's own directory, the classes are placed there again.
    pub directory: PathBuf,
    /// Classes to create here from now on, besides those that the database already places here;
    /// existing files stay where they are.
    pub classes: Vec<FileClass>,
    /// Bytes of files here from which on new ones are created in the database's own directory.
    /// Files that are being written are not moved, so it may be exceeded a little. `None` is no
    /// limit, or the one that the database remembers.
    pub capacity: Option<u64>,
}

impl Volume {
    /// Places `classes` in `directory`, without a capacity.
    pub fn new(directory: impl AsRef<Path>, classes: impl IntoIterator<Item = FileClass>) -> Self {
        let directory = directory.as_ref().to_owned();
        Self { directory, classes: classes.into_iter().collect(), capacity: None }
    }

    /// A line of `current`: classes, capacity and path, which comes last since it may hold spaces.
    pub(crate) fn encode(&self) -> String {
        let classes: Vec<_> = self.classes.iter().map(|class| class.name()).collect();
        let classes = if classes.is_empty() { NONE.to_owned() } else { classes.join(",") };
        let capacity = self.capacity.map_or(NONE.to_owned(), |bytes| bytes.to_string());
        format!("{classes} {capacity} {}", self.directory.display())
    }

    /// Reads what [`Volume::encode`] wrote.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let mut fields = text.splitn(3, ' ');
        let classes = match fields.next()? {
            NONE => Vec::new(),
            names => names.split(',').map(FileClass::from_name).collect::<Option<_>>()?,
        };
        let capacity = match fields.next()? {
            NONE => None,
            bytes => Some(bytes.parse().ok()?),
        };
        Some(Self { directory: fields.next()?.into(), classes, capacity })
    }

    /// A fault of this volume by itself.
    fn fault(&self) -> Option<&'static str> {
        let path = self.directory.to_str();
        let kept =
            path.is_some_and(|path| path.len() <= PATH_LEN_MAX && !path.contains(['\n', '\r']));
        [
            (kept, "the path of a volume must be UTF-8 of at most 4096 bytes, without line ends"),
            (!self.directory.as_os_str().is_empty(), "a volume needs a directory"),
            (!self.classes.is_empty(), "a volume needs a class of files that is placed there"),
            (self.capacity != Some(0), "the capacity of a volume must be at least 1 byte"),
        ]
        .into_iter()
        .find_map(|(holds, rule)| (!holds).then_some(rule))
    }
}

/// The first fault of `volumes`.
pub(crate) fn fault(volumes: &[Volume]) -> Option<&'static str> {
    let twice =
        |nth: usize, class| volumes[..nth].iter().any(|earlier| earlier.classes.contains(&class));
    let alone = volumes.iter().find_map(Volume::fault);
    let together = volumes.iter().enumerate().find_map(|(nth, volume)| {
        let same = volumes[..nth].iter().any(|earlier| earlier.directory == volume.directory);
        [
            (same, "two volumes have the same directory; give its classes together"),
            (
                volume.classes.iter().any(|class| twice(nth, *class)),
                "a class of files is placed on two volumes",
            ),
        ]
        .into_iter()
        .find_map(|(wrong, rule)| wrong.then_some(rule))
    });
    alone.or(together)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_that_contradict_each_other_are_refused() {
        let volume = |path: &str, class| Volume::new(path, [class]);
        let (log, levels) = (FileClass::Log, FileClass::Levels);
        assert_eq!(fault(&[volume("/a", log), volume("/b", levels)]), None);
        for (volumes, word) in [
            (vec![volume("/a", log), volume("/b", log)], "two volumes"),
            (vec![volume("/a", log), volume("/a", levels)], "same directory"),
            (vec![Volume::new("/a", [])], "needs a class"),
            (vec![volume("", log)], "needs a directory"),
            (vec![volume("/a\nb", log)], "line ends"),
            (vec![Volume { capacity: Some(0), ..volume("/a", log) }], "at least 1 byte"),
        ] {
            assert!(fault(&volumes).is_some_and(|rule| rule.contains(word)), "{word}");
        }
    }

    #[test]
    fn what_was_written_is_read_again() {
        let volume = Volume { capacity: Some(7), ..Volume::new("/a b/c", FileClass::ALL) };
        assert_eq!(Volume::decode(&volume.encode()), Some(volume));
        for text in ["", "log", "log -", "tables - /a", "log x /a"] {
            assert_eq!(Volume::decode(text), None, "{text}");
        }
    }
}
