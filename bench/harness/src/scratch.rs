//! The directory that a run fills and deletes.
//!
//! Benchmarks delete what they find, so they only touch directories that one of them made: a marker
//! file says so.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{BenchError, Result};

const MARKER: &str = "made-by-cleavedb-bench";

/// A directory of ours.
#[derive(Debug)]
pub struct Scratch {
    root: PathBuf,
}

impl Scratch {
    /// Takes `root`, which must not exist, be empty, or have been made by an earlier run.
    pub fn claim(root: &Path) -> Result<Self> {
        fs::create_dir_all(root).map_err(BenchError::io("create", root))?;
        let marker = root.join(MARKER);
        let mut entries = fs::read_dir(root).map_err(BenchError::io("list", root))?;
        if !marker.exists() && entries.next().is_some() {
            return Err(BenchError::Usage(format!(
                "{} has files in it that no benchmark made, and a run deletes what it finds: \
                 name a new directory",
                root.display()
            )));
        }
        fs::write(&marker, "Benchmarks delete everything beside this file.\n")
            .map_err(BenchError::io("write", &marker))?;
        Ok(Self { root: root.to_owned() })
    }

    /// The directory of the store of `engine`, emptied.
    pub fn emptied(&self, engine: &str) -> Result<PathBuf> {
        let store = self.root.join(engine);
        match fs::remove_dir_all(&store) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(BenchError::io("delete", &store)(error));
            }
            _ => {}
        }
        fs::create_dir_all(&store).map_err(BenchError::io("create", &store))?;
        Ok(store)
    }

    /// Deletes the directory and everything in it.
    pub fn delete(self) -> Result<()> {
        fs::remove_dir_all(&self.root).map_err(BenchError::io("delete", &self.root))
    }
}

#[cfg(test)]
mod tests {
    use super::Scratch;

    #[test]
    fn only_directories_of_ours_are_taken() {
        let root = tempfile::tempdir().unwrap();
        let bench = root.path().join("bench");
        let store = Scratch::claim(&bench).unwrap().emptied("engine").unwrap();
        std::fs::write(store.join("data"), "x").unwrap();
        let again = Scratch::claim(&bench).unwrap();
        assert!(!again.emptied("engine").unwrap().join("data").exists());
        again.delete().unwrap();
        assert!(!bench.exists());
        std::fs::write(root.path().join("thesis.tex"), "x").unwrap();
        assert!(Scratch::claim(root.path()).unwrap_err().to_string().contains("new directory"));
    }
}
