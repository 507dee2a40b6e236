//! The functions of `cleavedb.h`: what LevelDB's interface lacks.

mod errors;
mod terms;
mod db;
mod keyspace;
mod conditional;
mod pieces;
mod cursor;
mod snapshot;
mod batch;
mod transaction;
mod changes;
mod copies;
mod encode;
