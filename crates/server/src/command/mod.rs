//! Commands: what each one is named, what keys it has, and what it does.

mod float;
pub mod args;
pub mod glob;
pub mod help;
mod strings;
mod lcs;
pub mod keys;
mod expiry;
mod collections;
mod hashes;
mod lists;
mod sets;
mod sorted_sets;
pub mod streams;
mod sort;
mod bits;
mod hyperloglog;
mod geo;
pub mod dump;
mod own;
pub mod table;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod power;
#[cfg(test)]
mod ranked;

#[cfg(test)]
pub use self::power::run as run_lines;
pub use self::strings::STRING_MAX;
