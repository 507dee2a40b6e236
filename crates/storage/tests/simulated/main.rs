//! Layers, log and segments over a simulated disk: one process, that is linked once.
//!
//! A unit test cannot use the simulator: it knows the types of the finished crate only.

mod far;
mod quota;
mod log;
mod multi_dir;
mod read_only;
mod reserve;
mod write_behind;
