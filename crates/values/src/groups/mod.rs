//! Groups of values: extents, the table of groups, writing and reading, and the choice of the next
//! group to collect.

pub mod extent;
pub mod edit;
pub mod sums;
pub mod table;
pub mod cursor;
pub mod key_block;
pub mod handle;
pub mod reader;
pub mod writer;
pub mod filters;
pub mod liveness;
pub mod victim;
pub mod sizing;

#[cfg(all(test, feature = "test-loom"))]
mod loom_tests;

pub use cursor::GroupCursor;
pub use edit::GroupEdit;
pub use extent::{Extent, Location};
pub use filters::{GroupFilter, GroupFilters};
pub use handle::ExtentHandle;
pub use reader::ExtentReader;
pub use sums::Sums;
pub use table::{Group, GroupTable};
pub use writer::ExtentWriter;
