//! The C library: `leveldb/c.h`, and `cleavedb.h` for what LevelDB lacks, over the public API of
//! `cleavedb`.
//!
//! Each function of the headers is one of a list within the macro `export`, which lets no panic
//! cross. Pointers of C arrive in the types of `handles` and `slices`, whose methods are safe:
//! only a caller in C makes them, and the headers say what it promises. These two modules have all
//! `unsafe` code; what the functions do is elsewhere. The modules, bottom first.

#![warn(missing_debug_implementations)]

mod slices;
mod handles;
mod border;
mod databases;
mod leveldb;
mod own;
