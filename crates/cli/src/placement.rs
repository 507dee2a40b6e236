//! `--place`: which classes of files lie in which directory.

use std::path::{Path, PathBuf};

use cleavedb::{FileClass, Volume};
use cleavedb_units as units;

/// Classes, a directory, and perhaps a capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    classes: Vec<FileClass>,
    /// `None` leaves it to the caller that opens the database.
    directory: Option<PathBuf>,
    capacity: Option<u64>,
}

/// Reads the classes in front of a `=`, or without one.
pub fn parse_classes(text: &str) -> Result<Vec<FileClass>, String> {
    let class = |name: &str| {
        FileClass::from_name(name).ok_or_else(|| {
            let names = FileClass::ALL.map(FileClass::name).join(", ");
            format!("there is no class of files {name}; there are {names}")
        })
    };
    text.split(',').map(class).collect()
}

/// Reads `CLASS[,CLASS]=DIR[:CAPACITY]`.
pub fn parse(text: &str) -> Result<Placement, String> {
    let (classes, place) = text
        .split_once('=')
        .filter(|(_, place)| !place.is_empty())
        .ok_or("say which class of files goes where: CLASS=DIR, such as levels=/ssd/db")?;
    let (directory, capacity) = match place.rsplit_once(':') {
        // A colon may also be part of a name.
        Some((directory, size)) if !directory.is_empty() => match units::parse(size) {
            Ok(bytes) => (directory, Some(bytes)),
            Err(_) => (place, None),
        },
        _ => (place, None),
    };
    let directory = Some(directory.into());
    Ok(Placement { classes: parse_classes(classes)?, directory, capacity })
}

impl Placement {
    /// Reads what [`parse`] reads, or classes alone.
    pub fn somewhere(text: &str) -> Result<Self, String> {
        if text.contains('=') {
            return parse(text);
        }
        Ok(Self { classes: parse_classes(text)?, directory: None, capacity: None })
    }

    /// The named directory, if there is one.
    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }
}

/// The volumes of `placements`, one for each directory; `unnamed` is the directory of those that
/// name none.
pub fn volumes(placements: &[Placement], unnamed: &Path) -> Vec<Volume> {
    let mut volumes: Vec<Volume> = Vec::new();
    for placement in placements {
        let directory = placement.directory().unwrap_or(unnamed);
        let known = volumes.iter().position(|volume| volume.directory == directory);
        let at = known.unwrap_or_else(|| {
            volumes.push(Volume::new(directory, []));
            volumes.len() - 1
        });
        let volume = &mut volumes[at];
        volume.classes.extend(&placement.classes);
        volume.capacity = placement.capacity.or(volume.capacity);
    }
    volumes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement_has_classes_a_directory_and_perhaps_a_capacity() {
        let read = |text: &str| volumes(&[parse(text).unwrap()], Path::new("x")).remove(0);
        let (log, levels) = (FileClass::Log, FileClass::Levels);
        assert_eq!(read("levels=/ssd/db"), Volume::new("/ssd/db", [levels]));
        let limited = Volume { capacity: Some(2 << 30), ..Volume::new("ssd", [log, levels]) };
        assert_eq!(read("log,levels=ssd:2GiB"), limited);
        assert_eq!(read("log=a:b"), Volume::new("a:b", [log]));
        for text in ["levels", "levels=", "level1=/ssd/db", "=/ssd/db", "log,=/a"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("level1=/a").unwrap_err().contains("levels"));
    }

    #[test]
    fn one_directory_is_one_volume() {
        let placements = ["log=/a:1GiB", "levels=/b", "level0=/a"].map(|text| parse(text).unwrap());
        let volumes = volumes(&placements, Path::new("x"));
        assert_eq!(volumes.len(), 2);
        assert_eq!(volumes[0].classes, [FileClass::Log, FileClass::Level0]);
        assert_eq!(volumes[0].capacity, Some(1 << 30));
    }
}
