//! What a disk holds at rest: names and bytes, and the damage that a test may do to them.

use std::collections::BTreeMap;

use cleavedb_base::checksum::hash64;
use cleavedb_storage::Name;

use super::content::Content;

/// A directory of files, all durable; cheap to clone, because files share their bytes.
#[derive(Clone, Debug, Default)]
pub struct Image {
    pub(super) files: BTreeMap<Name, Content>,
    /// How often the machine has lost power: what was only in memory is gone since the last time.
    pub(super) boots: u64,
    /// Whether the disk alone has lost power: what a log file holds may never have been synced.
    pub(super) is_detached: bool,
}

impl Image {
    /// Hash of all names, lengths and bytes: equal images have equal hashes.
    pub fn hash(&self) -> u64 {
        let mut bytes = Vec::with_capacity(self.files.len() * 24);
        for (name, content) in &self.files {
            bytes.extend_from_slice(&(name.kind() as u64).to_le_bytes());
            bytes.extend_from_slice(&name.number().0.to_le_bytes());
            bytes.extend_from_slice(&content.hash().to_le_bytes());
        }
        hash64(&bytes, 0)
    }

    /// How often the machine had lost power.
    pub fn boots(&self) -> u64 {
        self.boots
    }

    /// The disk after the machine has lost power.
    #[must_use]
    pub fn rebooted(mut self) -> Self {
        self.boots += 1;
        self
    }

    /// What a power loss left, as after one of the disk alone: the machine has not stopped.
    #[must_use]
    pub fn detached(mut self) -> Self {
        self.boots -= 1;
        self.is_detached = true;
        self
    }

    /// Every file and its length, in the order of names.
    pub fn list(&self) -> Vec<(Name, u64)> {
        self.files.iter().map(|(name, content)| (*name, content.len() as u64)).collect()
    }

    /// All bytes of a file, if it exists.
    pub fn read(&self, name: &Name) -> Option<Vec<u8>> {
        self.files.get(name).map(Content::to_vec)
    }

    /// Writes a whole file, also over an existing one.
    pub fn write(&mut self, name: Name, bytes: &[u8]) {
        self.files.insert(name, Content::from(bytes));
    }

    /// Removes a file; whether it existed.
    pub fn remove(&mut self, name: &Name) -> bool {
        self.files.remove(name).is_some()
    }

    /// Flips one bit of a file, counted from its start.
    ///
    /// # Panics
    /// If the file does not exist or ends before that bit.
    pub fn flip_bit(&mut self, name: &Name, bit: u64) {
        let content = self.file_mut(name);
        let offset = (bit / 8) as usize;
        assert!(offset < content.len(), "{name} has {} bytes, none at {offset}", content.len());
        let mut byte = [0];
        content.read(offset, &mut byte);
        content.write(offset, &[byte[0] ^ 1 << (bit % 8)]);
    }

    /// Cuts a file, or extends it with zeros.
    ///
    /// # Panics
    /// If the file does not exist.
    pub fn truncate(&mut self, name: &Name, len: u64) {
        self.file_mut(name).set_len(len as usize);
    }

    /// Exchanges the bytes of two files.
    ///
    /// # Panics
    /// If one of them does not exist.
    pub fn swap(&mut self, a: &Name, b: &Name) {
        let first = std::mem::take(self.file_mut(a));
        let second = std::mem::replace(self.file_mut(b), first);
        *self.file_mut(a) = second;
    }

    fn file_mut(&mut self, name: &Name) -> &mut Content {
        self.files.get_mut(name).unwrap_or_else(|| panic!("the image has no file {name}"))
    }
}

#[cfg(test)]
mod tests {
    use cleavedb_base::FileNumber;
    use cleavedb_storage::FileKind;

    use super::*;

    #[test]
    fn damage_is_exact_and_changes_the_hash() {
        let [a, b] = [1, 2].map(|n| Name::numbered(FileKind::Table, FileNumber(n)));
        let mut image = Image::default();
        image.write(a, b"abc");
        image.write(b, b"xyz");
        let (whole, hash) = (image.clone(), image.hash());
        image.flip_bit(&a, 9);
        assert_eq!(image.read(&a).unwrap(), b"a`c");
        assert_ne!(image.hash(), hash);
        image.flip_bit(&a, 9);
        assert_eq!(image.hash(), hash);
        image.swap(&a, &b);
        assert_ne!(image.hash(), hash);
        image.truncate(&b, 1);
        assert_eq!(image.list(), [(a, 3), (b, 1)]);
        assert_eq!(image.read(&a).unwrap(), b"xyz");
        assert!(image.remove(&a) && !image.remove(&a));
        assert_eq!(whole.read(&a).unwrap(), b"abc", "copies do not change");
    }
}
