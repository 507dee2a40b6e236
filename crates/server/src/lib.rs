//! A server of CleaveDB that speaks the protocol of Redis.

#![forbid(unsafe_code)]

pub mod resp;
