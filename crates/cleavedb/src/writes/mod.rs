//! Writes, bulk loads, blobs, dictionaries.

pub(crate) mod admission;
pub(crate) mod room;
pub(crate) mod write;
pub(crate) mod bulk_load;
pub(crate) mod blobs;
pub(crate) mod dictionaries;
