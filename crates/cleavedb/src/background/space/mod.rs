//! The engine's use of space: the length at which files end, the reserve for a full disk, and the
//! budget below a space limit.

pub(crate) mod sizes;
pub(crate) mod reserve;
pub(crate) mod budget;
