//! How the types of Redis lie on an ordered store.

pub mod stream;
pub mod group;
pub mod element;
pub mod record;
pub mod scan;
