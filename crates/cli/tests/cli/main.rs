//! The binary as its users meet it: every command is run as a process, in a directory of its own.

mod common;
mod keys;
mod keyspaces;
mod level0;
mod formats;
mod care;
mod all_keyspaces;
mod backup;
mod blobs;
mod bulk;
mod checkpoint;
mod expiry;
mod failures;
mod losses;
mod ranges;
mod read_only;
mod following;
mod changes;
mod dump;
mod interchange;
mod shell;
mod manners;
mod merges;
mod tour;
mod volumes;
mod door;
