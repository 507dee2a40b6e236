//! What a caller sets: options, time, merge operators, filters, volumes.

pub(crate) mod time;
pub(crate) mod merge;
pub(crate) mod filter;
pub(crate) mod volume;
pub(crate) mod group_options;
pub(crate) mod crew;
pub(crate) mod resources;
pub(crate) mod tuning;
pub(crate) mod options;
pub(crate) mod put_options;
pub(crate) mod keyspace_options;
pub mod encode;
