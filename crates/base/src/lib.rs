//! The vocabulary of CleaveDB: what a key, a record, a pointer and an error are.
//!
//! Nothing here touches a file or a clock, and only [`sync`] knows threads, so everything else can
//! be fuzzed in memory. Modules are listed bottom first; a module uses only those above it.

#![forbid(unsafe_code)]

pub mod sync;
pub mod limits;
pub mod clock;
pub mod number_hasher;
pub mod look_ups;
pub mod planted;
pub mod error;
pub mod codec;
pub mod expiry;
pub mod operand;
pub mod checksum;
pub mod filter;
pub mod key;
pub mod pointer;
pub mod record;

pub use error::{Error, ErrorKind, Result};
pub use expiry::{Expiry, Lasting};
pub use key::{EncodedKey, EntryKind, KeyspaceId, SeqNo};
pub use operand::StoredOperand;
pub use pointer::{EntryRoom, FileNumber, Location, ValuePointer};
