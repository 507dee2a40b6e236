//! BlockBuilder: writes blocks.

use cleavedb_base::SeqNo;
use cleavedb_base::codec::put_varint;

use super::{TAG_REPEAT, TAG_SEQ_SHIFT, TAIL_LEN, common_prefix, kind_bits};
use crate::entry::Entry;

#[inline]
fn zigzag(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// Builds one block after another, keeping its buffers.
pub(crate) struct BlockBuilder {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    interval: usize,
    since_restart: usize,
    last_key: Vec<u8>,
    base: SeqNo,
}

impl BlockBuilder {
    /// A builder that puts a restart at every `interval`-th entry.
    pub fn new(interval: usize) -> Self {
        Self {
            bytes: Vec::new(),
            restarts: Vec::new(),
            interval,
            since_restart: 0,
            last_key: Vec::new(),
            base: 0,
        }
    }

    /// Whether no entry was added since the last [`BlockBuilder::clear`].
    pub fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    /// Length of the block if it were finished now, in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.restarts.len() * 4 + TAIL_LEN
    }

    /// Appends an entry, which must follow the one before in index order.
    pub fn add(&mut self, entry: &Entry<'_>) {
        let mut shared = 0;
        if self.restarts.is_empty() {
            self.base = entry.seq;
        }
        if self.restarts.is_empty() || self.since_restart == self.interval {
            self.restarts.push(self.bytes.len() as u32);
            self.since_restart = 0;
        } else {
            shared = common_prefix(&self.last_key, entry.key);
        }
        self.since_restart += 1;
        let suffix = &entry.key[shared..];
        let seq = zigzag(entry.seq as i64 - self.base as i64);
        let seq_len = 8 - seq.leading_zeros() as usize / 8;
        let repeat = if entry.repeat { TAG_REPEAT } else { 0 };
        self.bytes.push(kind_bits(entry.kind) | repeat | (seq_len as u8) << TAG_SEQ_SHIFT);
        put_varint(&mut self.bytes, shared as u64);
        put_varint(&mut self.bytes, suffix.len() as u64);
        put_varint(&mut self.bytes, entry.value.len() as u64);
        self.bytes.extend_from_slice(suffix);
        self.bytes.extend_from_slice(&seq.to_le_bytes()[..seq_len]);
        self.bytes.extend_from_slice(entry.value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(suffix);
    }

    /// Completes the block and returns its bytes, which stay until [`BlockBuilder::clear`].
    /// `padding` zeros precede the first entry; readers ignore them, since they begin at the first
    /// restart.
    pub fn finish(&mut self, padding: usize) -> &[u8] {
        self.bytes.splice(0..0, std::iter::repeat_n(0, padding));
        for restart in &self.restarts {
            self.bytes.extend_from_slice(&(restart + padding as u32).to_le_bytes());
        }
        self.bytes.extend_from_slice(&self.base.to_le_bytes());
        self.bytes.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        &self.bytes
    }

    /// Clears the buffers for the next block.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.restarts.clear();
        self.since_restart = 0;
        self.last_key.clear();
    }
}
