//! Gets, cursors, ranges, views of a moment.

pub(crate) mod value_reader;
pub(crate) mod search;
pub(crate) mod read;
pub(crate) mod item;
pub(crate) mod outside_ranges;
pub(crate) mod pending_writes;
pub(crate) mod cursor;
pub(crate) mod range;
pub(crate) mod view;
pub(crate) mod range_size;
