//! One storage made of several directories, each kind of file in a place of its own.
//!
//! The first directory holds what makes a database one (lock, manifest, `current`) and every kind
//! that is not placed elsewhere. The route depends on the kind alone, so a file is found where it
//! was written as long as the placement stays the same; a file in a wrong place is an error of
//! [`Storage::list`], not a missing file.

use std::io;
use std::sync::Arc;

use crate::api::{Access, File, Lock, Mode, Storage};
use crate::name::{FileKind, Name};
use crate::window::Window;

/// Kinds that stay in the first directory.
const PINNED: [FileKind; 4] =
    [FileKind::Lock, FileKind::Current, FileKind::CurrentNew, FileKind::Manifest];

/// A storage that routes each kind of file to one of several directories.
pub struct Placed {
    first: Arc<dyn Storage>,
    others: Vec<(Vec<FileKind>, Arc<dyn Storage>)>,
}

impl Placed {
    /// All kinds in `first`, until [`Placed::with`] moves some.
    pub fn new(first: Arc<dyn Storage>) -> Self {
        Self { first, others: Vec::new() }
    }

    /// Places `kinds` in `storage`.
    ///
    /// # Panics
    /// If a kind is placed twice, or is one of those that stay in the first directory.
    #[must_use]
    pub fn with(mut self, kinds: &[FileKind], storage: Arc<dyn Storage>) -> Self {
        for kind in kinds {
            assert!(!PINNED.contains(kind), "{kind:?} stays in the first directory");
            assert_eq!(self.place_of(*kind), 0, "{kind:?} is placed twice");
        }
        self.others.push((kinds.to_vec(), storage));
        self
    }

    /// Number of the place of `kind`; 0 is the first directory.
    fn place_of(&self, kind: FileKind) -> usize {
        self.others.iter().position(|(kinds, _)| kinds.contains(&kind)).map_or(0, |i| i + 1)
    }

    fn places(&self) -> impl Iterator<Item = &Arc<dyn Storage>> {
        std::iter::once(&self.first).chain(self.others.iter().map(|(_, storage)| storage))
    }

    fn storage_of(&self, name: &Name) -> &dyn Storage {
        match self.place_of(name.kind()) {
            0 => &*self.first,
            place => &*self.others[place - 1].1,
        }
    }
}

impl Storage for Placed {
    fn open(&self, name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>> {
        self.storage_of(name).open(name, mode, access)
    }

    fn rename(&self, from: &Name, to: &Name) -> io::Result<()> {
        if self.place_of(from.kind()) != self.place_of(to.kind()) {
            return Err(io::Error::new(
                io::ErrorKind::CrossesDevices,
                format!("{from} and {to} lie in different directories"),
            ));
        }
        self.storage_of(from).rename(from, to)
    }

    fn remove(&self, name: &Name) -> io::Result<()> {
        self.storage_of(name).remove(name)
    }

    fn list(&self) -> io::Result<Vec<(Name, u64)>> {
        let mut all = Vec::new();
        for (place, storage) in self.places().enumerate() {
            for (name, len) in storage.list()? {
                let belongs = self.place_of(name.kind());
                if belongs == place {
                    all.push((name, len));
                } else if name.kind() != FileKind::Lock {
                    let message = format!("{name} lies in directory {place}, not in {belongs}");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, message));
                }
            }
        }
        Ok(all)
    }

    fn foreign(&self) -> io::Result<Vec<String>> {
        let mut all = Vec::new();
        for storage in self.places() {
            all.extend(storage.foreign()?);
        }
        Ok(all)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.places().try_for_each(|storage| storage.sync_dir())
    }

    /// Locks every directory: another database may have been given one of the others as its first.
    fn lock(&self) -> io::Result<Lock> {
        let locks = self.places().map(|storage| storage.lock()).collect::<io::Result<Vec<_>>>()?;
        Ok(Box::new(locks))
    }

    /// The space of the fullest directory: it is the one that stops a write.
    fn free_space(&self) -> io::Result<u64> {
        self.others.iter().try_fold(self.first.free_space()?, |least, (_, storage)| {
            Ok(least.min(storage.free_space()?))
        })
    }

    fn open_window(&self, name: &Name, len: usize) -> io::Result<Window> {
        self.storage_of(name).open_window(name, len)
    }
}

#[cfg(test)]
mod tests {
    use cleavedb_base::FileNumber;

    use super::*;
    use crate::sim::Sim;

    fn placed() -> (Sim, Sim, Placed) {
        let (first, second) = (Sim::new(), Sim::new());
        let placed = Placed::new(Arc::new(first.clone()))
            .with(&[FileKind::Segment], Arc::new(second.clone()));
        (first, second, placed)
    }

    fn create(storage: &dyn Storage, kind: FileKind, number: u64) -> Name {
        let name = Name::numbered(kind, FileNumber(number));
        storage.open(&name, Mode::CreateNew, Access::Random).unwrap();
        name
    }

    #[test]
    fn each_kind_goes_to_its_place_and_the_list_shows_all() {
        let (first, second, placed) = placed();
        let table = create(&placed, FileKind::Table, 1);
        let segment = create(&placed, FileKind::Segment, 2);
        assert_eq!(first.list().unwrap(), [(table, 0)]);
        assert_eq!(second.list().unwrap(), [(segment, 0)]);
        assert_eq!(placed.list().unwrap(), [(table, 0), (segment, 0)]);
        placed.remove(&segment).unwrap();
        assert!(second.list().unwrap().is_empty());
    }

    #[test]
    fn sync_dir_reaches_every_place() {
        let (first, second, placed) = placed();
        let table = create(&placed, FileKind::Table, 1);
        let segment = create(&placed, FileKind::Segment, 2);
        placed.sync_dir().unwrap();
        assert!(first.is_name_durable(&table) && second.is_name_durable(&segment));
    }

    #[test]
    fn a_file_in_the_wrong_place_and_a_rename_between_places_are_refused() {
        let (_, second, placed) = placed();
        let segment = create(&placed, FileKind::Segment, 2);
        let table = Name::numbered(FileKind::Table, FileNumber(2));
        let error = placed.rename(&segment, &table).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::CrossesDevices);
        create(&second, FileKind::Table, 3);
        assert_eq!(placed.list().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn the_lock_covers_every_place() {
        let (first, second, placed) = placed();
        let lock = placed.lock().unwrap();
        assert_eq!(first.lock().err().unwrap().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(second.lock().err().unwrap().kind(), io::ErrorKind::WouldBlock);
        drop(lock);
        let _other = second.lock().unwrap();
        assert_eq!(placed.lock().err().unwrap().kind(), io::ErrorKind::WouldBlock);
        assert!(first.lock().is_ok(), "a failed lock holds nothing");
        assert_eq!(placed.list().unwrap().len(), 1, "one lock file is listed, not one per place");
    }

    #[test]
    fn the_fullest_place_counts() {
        let (first, second, placed) = placed();
        first.set_capacity(1000);
        second.set_capacity(10);
        assert_eq!(placed.free_space().unwrap(), 10);
    }
}
