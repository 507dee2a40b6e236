//! From a directory to an engine and back: recovery, sessions.

pub(crate) mod replay;
pub(crate) mod directories;
pub(crate) mod recovery;
pub(crate) mod session;
pub(crate) mod full_collection;
pub(crate) mod hot_load;
pub(crate) mod catalog_load;
pub(crate) mod build;
