//! Puts of blobs, in place of some plain puts.

use std::io::{self, Read};
use std::time::Duration;

use cleavedb::{Durability, Error, Keyspace, PutOptions};

use crate::op::Write;

/// Options with a greater least length of blobs ask for none.
const SMALL: u64 = 64 << 10;

/// A reader that returns short parts, and is interrupted between them.
pub struct Halting<'v> {
    rest: &'v [u8],
    interrupts: bool,
}

impl<'v> Halting<'v> {
    /// A reader of `value`.
    pub fn new(value: &'v [u8]) -> Self {
        Self { rest: value, interrupts: false }
    }
}

impl Read for Halting<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.interrupts = !self.interrupts;
        if self.interrupts {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let len = buf.len().min(self.rest.len()).min(self.rest.len() / 2 + 7);
        buf[..len].copy_from_slice(&self.rest[..len]);
        self.rest = &self.rest[len..];
        Ok(len)
    }
}

/// Whether a value is put from a reader: half of those that may become blobs are.
fn is_blob(keyspace: &Keyspace, value: &[u8]) -> bool {
    let least = keyspace.database().options().tuning.blob_bytes;
    let odd = value.iter().fold(0u8, |sum, byte| sum ^ byte) % 2 == 1;
    least < SMALL && value.len() as u64 >= least && odd
}

/// Puts the value of a write from a reader, if it is to become a blob.
pub fn put(
    keyspace: &Keyspace,
    write: &Write,
    durability: Durability,
) -> Option<Result<(), Error>> {
    let value = write.value.as_deref().filter(|value| is_blob(keyspace, value))?;
    let (key, reader) = (&write.key[..], Halting::new(value));
    let mut options = PutOptions::from(durability);
    if let Some(ttl) = write.ttl {
        options = options.ttl(Duration::from_millis(ttl));
    }
    let stored = keyspace.put_reader_with(key, reader, options);
    Some(stored.map(|len| assert_eq!(len, value.len() as u64)))
}
