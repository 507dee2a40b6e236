//! The house rules as functions over the text of the repository.
//!
//! A rule takes a [`Repo`] and returns its findings; `tests/tidy.rs` runs every rule over this
//! repository, and the tests beside each rule plant a violation and check that it is found. No rule
//! compiles or runs the code: a small lexer separates code from comments and strings.
//!
//! Modules are listed bottom first; a module uses only those above it.

#![forbid(unsafe_code)]

pub mod source;
pub mod impls;
pub mod repo;
pub mod size;
pub mod habits;
pub mod naming;
pub mod paths;
pub mod tree;
pub mod order;
pub mod calls;
pub mod methods;
pub mod manifests;
pub mod primitives;
pub mod unsafety;
pub mod features;
pub mod house;
pub mod documents;
pub mod pages;
pub mod words;
pub mod portable;

pub use repo::{Finding, Repo};
pub use source::Source;
