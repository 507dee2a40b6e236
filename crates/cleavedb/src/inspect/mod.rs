//! Statistics, checks, repairs, and what a file says.

pub(crate) mod stats;
pub(crate) mod check;
pub(crate) mod unopened;
pub(crate) mod salvage;
pub(crate) mod dump;
