//! Commands: what each one is named, what keys it has, and what it does.

pub mod args;
pub mod glob;
pub mod help;
mod float;
mod strings;
mod lcs;
pub mod keys;
mod expiry;
mod collections;
mod hashes;
pub mod table;
#[cfg(test)]
mod tests;

pub use self::strings::STRING_MAX;

use crate::exec::Answer;
use crate::exec::View;

/// A command of records alone: what it does with its arguments, of which the first is its name.
pub type Run = for<'a> fn(&[&'a [u8]], &mut View<'a>) -> Answer;
