//! What there is: the state for readers, the manifest, snapshots, limits.

pub(crate) mod spare_pages;
pub(crate) mod blobs;
pub(crate) mod expiry;
pub(crate) mod state;
pub(crate) mod manifest;
pub(crate) mod snapshot;
pub(crate) mod retained_log;
pub(crate) mod limit;
pub(crate) mod full_disk;
pub(crate) mod survivors;
pub(crate) mod dead;
