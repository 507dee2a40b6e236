//! What the server knows about itself, for people and programs that watch it.

pub mod counts;
pub mod prometheus;
