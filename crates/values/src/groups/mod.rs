//! Groups of values: extents, the table that knows them, how they are written and read, and which
//! group is collected next.

pub mod extent;
pub mod edit;
pub mod table;
pub mod locate;
pub mod map;
pub mod listing;
pub mod handle;
pub mod map_reader;
pub mod reader;
pub mod writer;
pub mod liveness;
pub mod victim;
pub mod sizing;

#[cfg(all(test, feature = "loom"))]
mod loom_tests;

pub use edit::GroupEdit;
pub use extent::{Extent, Place};
pub use handle::ExtentHandle;
pub use locate::Locator;
pub use map_reader::MapReader;
pub use reader::ExtentReader;
pub use table::{Group, GroupTable};
pub use writer::ExtentWriter;
