//! Space that a directory takes.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Bytes of all files below a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Sum of the lengths of the files.
    pub apparent: u64,
    /// Blocks taken on the disk: holes not counted, preallocation counted.
    pub allocated: u64,
    /// Number of files.
    pub files: u64,
}

impl Usage {
    /// Measures `directory`. Files that vanish meanwhile are left out: the engine is at work.
    pub fn of(directory: &Path) -> Self {
        let mut usage = Self::default();
        usage.add(directory).unwrap_or_default();
        usage
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            apparent: self.apparent + other.apparent,
            allocated: self.allocated + other.allocated,
            files: self.files + other.files,
        }
    }

    fn add(&mut self, directory: &Path) -> io::Result<()> {
        for entry in fs::read_dir(directory)?.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                self.add(&entry.path()).unwrap_or_default();
            } else {
                self.apparent += metadata.len();
                self.allocated += metadata.blocks() * 512;
                self.files += 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Usage;

    #[test]
    fn lengths_and_blocks_add_up_over_directories() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("inner")).unwrap();
        std::fs::write(root.path().join("a"), [1; 5000]).unwrap();
        std::fs::write(root.path().join("inner/b"), [1; 100]).unwrap();
        std::fs::File::create(root.path().join("hole")).unwrap().set_len(1 << 30).unwrap();
        let usage = Usage::of(root.path());
        assert_eq!((usage.apparent, usage.files), (5100 + (1 << 30), 3));
        assert!(usage.allocated < 1 << 20);
        assert_eq!(Usage::of(&root.path().join("absent")), Usage::default());
    }
}
