//! A map from places in files to what begins there, of which a copy is cheap.
//!
//! Each edit copies the tables of extents, since readers hold the ones before. A store with small
//! MemTables has a hundred thousand extents, and an edit changes those of a few files: so copies
//! share what lies in all other files.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleavedb_base::FileNumber;
use cleavedb_base::pointer::Location;

/// What begins at a place, by place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceMap<T> {
    /// By offset in a file; never empty.
    files: BTreeMap<FileNumber, Arc<BTreeMap<u64, T>>>,
}

impl<T> Default for PlaceMap<T> {
    fn default() -> Self {
        Self { files: BTreeMap::new() }
    }
}

impl<T> PlaceMap<T> {
    /// What begins at `place`.
    pub fn get(&self, place: Location) -> Option<&T> {
        self.files.get(&place.file)?.get(&place.offset)
    }

    /// What begins at `place` or as the last before it, in the same file.
    pub fn upto(&self, place: Location) -> Option<&T> {
        Some(self.files.get(&place.file)?.range(..=place.offset).next_back()?.1)
    }

    /// What begins at `place` or as the first behind it, in the same file.
    pub fn from(&self, place: Location) -> Option<&T> {
        Some(self.files.get(&place.file)?.range(place.offset..).next()?.1)
    }

    /// All that begins in `file`, by offset.
    pub fn in_file(&self, file: FileNumber) -> impl Iterator<Item = &T> {
        self.files.get(&file).into_iter().flat_map(|file| file.values())
    }

    /// All, by place.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.files.values().flat_map(|file| file.values())
    }
}

impl<T: Clone> PlaceMap<T> {
    /// As [`PlaceMap::get`], to change it.
    pub fn get_mut(&mut self, place: Location) -> Option<&mut T> {
        let file = self.files.get_mut(&place.file)?;
        // A place without an entry copies nothing.
        file.contains_key(&place.offset).then(|| Arc::make_mut(file).get_mut(&place.offset))?
    }

    /// Has `entry` begin at `place`, in place of what did.
    pub fn insert(&mut self, place: Location, entry: T) {
        Arc::make_mut(self.files.entry(place.file).or_default()).insert(place.offset, entry);
    }

    /// Removes what begins at `place`, and returns it.
    pub fn remove(&mut self, place: Location) -> Option<T> {
        let file = self.files.get_mut(&place.file).filter(|it| it.contains_key(&place.offset))?;
        let removed = Arc::make_mut(file).remove(&place.offset);
        if file.is_empty() {
            self.files.remove(&place.file);
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(file: u64, offset: u64) -> Location {
        Location { file: FileNumber(file), offset }
    }

    #[test]
    fn a_copy_stays_as_it_was_and_shares_all_other_files() {
        let mut map = PlaceMap::default();
        for (place, entry) in [(at(1, 8), 'b'), (at(2, 0), 'c'), (at(1, 0), 'a'), (at(3, 0), 'd')] {
            map.insert(place, entry);
        }
        let copy = map.clone();
        *map.get_mut(at(1, 8)).unwrap() = 'B';
        assert_eq!(map.get_mut(at(3, 7)), None);
        assert_eq!(map.remove(at(3, 7)), None);
        assert_eq!(map.remove(at(2, 0)), Some('c'));
        let all = |map: &PlaceMap<char>| map.values().collect::<String>();
        assert_eq!((all(&copy), all(&map)), ("abcd".to_owned(), "aBd".to_owned()));
        assert_eq!(copy.in_file(FileNumber(1)).collect::<String>(), "ab");
        assert!(Arc::ptr_eq(&copy.files[&FileNumber(3)], &map.files[&FileNumber(3)]));
        assert!(!map.files.contains_key(&FileNumber(2)), "no file is kept without entries");
    }

    #[test]
    fn neighbours_are_of_the_same_file() {
        let mut map = PlaceMap::default();
        map.insert(at(1, 8), 'a');
        map.insert(at(2, 8), 'b');
        assert_eq!((map.get(at(2, 8)), map.get(at(2, 9))), (Some(&'b'), None));
        assert_eq!((map.upto(at(2, 7)), map.upto(at(2, 8))), (None, Some(&'b')));
        assert_eq!((map.from(at(1, 8)), map.from(at(1, 9))), (Some(&'a'), None));
    }
}
