//! How much room there is: how long files may be, what a full disk has in reserve, and what may be
//! written below a space limit.

pub(crate) mod sizes;
pub(crate) mod reserve;
pub(crate) mod budget;
