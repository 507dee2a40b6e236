//! A store begins with an empty heap, as it would in a process of its own.
//!
//! A workload that begins cold closes its store and opens it again. glibc's malloc keeps much of
//! what the first one freed, its block cache above all, in pieces that the second one cannot use:
//! RocksDB took 451 MiB of 512 while its cache had 164, and was killed.

use std::path::Path;

use cleavedb_bench::capabilities::Needs;
use cleavedb_bench::{Engine, Opener, Result};

use crate::native::heap;

/// Opens what another one does, with what was freed given back before.
pub struct Fresh(pub Box<dyn Opener>);

impl Opener for Fresh {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn open(&self, directory: &Path) -> Result<Box<dyn Engine>> {
        heap::give_back();
        self.0.open(directory)
    }

    fn open_for(&self, directory: &Path, needs: &Needs) -> Result<Option<Box<dyn Engine>>> {
        heap::give_back();
        self.0.open_for(directory, needs)
    }

    fn configured(&self, options: &[(String, String)]) -> Result<Box<dyn Opener>> {
        Ok(Box::new(Self(self.0.configured(options)?)))
    }
}
