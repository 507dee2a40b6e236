//! What users call.

pub(crate) mod transaction;
pub(crate) mod db;
pub(crate) mod backups;
