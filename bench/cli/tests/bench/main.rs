//! The program as its users meet it: every command is run as a process, in a directory of its own.

mod common;
mod one;
mod devices;
mod features;
mod suites;
mod tune;
