//! How the types of Redis lie on an ordered store.

pub mod record;
pub mod scan;
