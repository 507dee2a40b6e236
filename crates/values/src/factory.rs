//! Creates new value files: the store that writes them knows neither numbers nor directories.

use std::sync::Arc;

use cleavedb_base::Result;
use cleavedb_storage::segment::SegmentWriter;
use cleavedb_storage::{File, Name};

/// Creates files for values.
pub trait SegmentFactory: Send + Sync {
    /// A new, empty file with a durable number.
    fn create(&self) -> Result<(Name, Arc<dyn File>)>;

    /// Begins a segment of a database in a new file.
    fn begin(&self, database_id: u64) -> Result<(Name, SegmentWriter)> {
        let (name, file) = self.create()?;
        Ok((name, SegmentWriter::create(name, database_id, file)?))
    }
}

impl<F: SegmentFactory + ?Sized> SegmentFactory for &F {
    fn create(&self) -> Result<(Name, Arc<dyn File>)> {
        (**self).create()
    }
}
