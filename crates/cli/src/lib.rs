//! The command line of CleaveDB: the program `cleave`, and what `cleave-bench` shares with it.
//!
//! [`args`] is what may be typed, the private module `commands` what it means. Everything between
//! is about bytes: how they are shown, read from and written to files, and counted. What is public
//! is what both programs have: output, failures and signals. The modules,
//! bottom first; a module uses only those before it.

#![forbid(unsafe_code)]
// The print macros panic once their reader has gone away.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod failure;
mod encoding;
mod expiry;
pub mod durability;
pub mod placement;
pub mod global;
pub mod args;
mod help;
mod shell_line;
mod bounds;
pub mod console;
pub mod manual;
pub mod program;
pub mod interrupt;
mod progress;
pub mod store;
mod keyspaces;
mod watch;
mod space;
mod formats;
mod shell_input;
mod loader;
mod sort;
mod door;
mod commands;
