//! The functions of `leveldb/c.h`. Where ours do something else, the header says so.

mod callbacks;
mod options;
mod batch;
mod db;
mod iterator;
mod properties;
mod manage;
mod repair;
