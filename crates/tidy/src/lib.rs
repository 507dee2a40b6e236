//! The rules of the house as functions over the text of the repository.
//!
//! A rule takes a [`Repo`] and returns what it found; `tests/tidy.rs` runs every rule over this
//! repository, and the tests beside each rule plant a violation and see it caught. Nothing here
//! compiles or runs the code that it reads: a small lexer tells code from comments and strings, and
//! the rest is text.
//!
//! Modules are listed bottom first; a module uses only those above it.

#![forbid(unsafe_code)]

pub mod source;
pub mod repo;
pub mod size;
pub mod habits;
pub mod paths;
pub mod tree;
pub mod order;
pub mod calls;
pub mod manifests;
pub mod primitives;
pub mod unsafety;
pub mod designs;
pub mod documents;
pub mod pages;
pub mod words;
pub mod portable;

pub use repo::{Finding, Repo};
pub use source::Source;
