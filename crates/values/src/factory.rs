//! Where new files come from: the store that writes them knows no numbers and no directory.

use std::sync::Arc;

use cleavedb_base::Result;
use cleavedb_storage::{File, Name};

/// Makes files for values.
pub trait SegmentFactory {
    /// A new, empty file with a durable number.
    fn create(&self) -> Result<(Name, Arc<dyn File>)>;
}
