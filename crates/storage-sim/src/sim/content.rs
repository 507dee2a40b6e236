//! The bytes of a simulated file, in chunks that copies share.
//!
//! A crash check looks at hundreds of thousands of disk images that differ in a few sectors. A
//! clone costs one reference count; a write copies the one chunk that it touches; the hash of a
//! chunk is computed once and shared too.

use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

use cleavedb_base::checksum::hash64;

/// Bytes of a chunk.
pub(super) const CHUNK: usize = 4096;

struct Chunk {
    bytes: [u8; CHUNK],
    hash: OnceLock<u64>,
}

impl Chunk {
    fn hash(&self) -> u64 {
        *self.hash.get_or_init(|| hash64(&self.bytes, 0))
    }
}

impl Clone for Chunk {
    fn clone(&self) -> Self {
        // A chunk is cloned to be written, so its hash would be wrong in a moment.
        Self { bytes: self.bytes, hash: OnceLock::new() }
    }
}

static ZEROS: LazyLock<Arc<Chunk>> =
    LazyLock::new(|| Arc::new(Chunk { bytes: [0; CHUNK], hash: OnceLock::new() }));

/// The bytes of a file; cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Content {
    /// As many as cover `len`; bytes past `len` are zeros.
    chunks: Arc<Vec<Arc<Chunk>>>,
    len: usize,
}

impl Content {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Fills the front of `buf` from `offset`; returns how many bytes there were.
    pub(super) fn read(&self, offset: usize, buf: &mut [u8]) -> usize {
        let len = buf.len().min(self.len.saturating_sub(offset));
        for (start, part) in pieces(offset, len) {
            let from = (offset + start) % CHUNK;
            let chunk = &self.chunks[(offset + start) / CHUNK];
            buf[start..start + part].copy_from_slice(&chunk.bytes[from..from + part]);
        }
        len
    }

    /// Stores `bytes` at `offset`; a gap behind the old end reads as zeros.
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if offset + bytes.len() > self.len {
            self.set_len(offset + bytes.len());
        }
        for (start, part) in pieces(offset, bytes.len()) {
            let to = (offset + start) % CHUNK;
            let chunk = self.chunk_mut((offset + start) / CHUNK);
            chunk[to..to + part].copy_from_slice(&bytes[start..start + part]);
        }
    }

    /// Cuts the file, or extends it with zeros.
    pub(super) fn set_len(&mut self, len: usize) {
        let count = len.div_ceil(CHUNK);
        if count != self.chunks.len() {
            Arc::make_mut(&mut self.chunks).resize_with(count, || ZEROS.clone());
        }
        let cut = len % CHUNK;
        if len < self.len && cut > 0 {
            self.chunk_mut(count - 1)[cut..].fill(0);
        }
        self.len = len;
    }

    /// Zeroes a range, as far as the file reaches.
    pub(super) fn punch(&mut self, offset: usize, len: usize) {
        let len = len.min(self.len.saturating_sub(offset));
        for (start, part) in pieces(offset, len) {
            let to = (offset + start) % CHUNK;
            self.chunk_mut((offset + start) / CHUNK)[to..to + part].fill(0);
        }
    }

    fn chunk_mut(&mut self, index: usize) -> &mut [u8; CHUNK] {
        let chunk = Arc::make_mut(&mut Arc::make_mut(&mut self.chunks)[index]);
        chunk.hash = OnceLock::new();
        &mut chunk.bytes
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.read(0, &mut bytes);
        bytes
    }

    /// Hash of length and bytes.
    pub(super) fn hash(&self) -> u64 {
        let hashes: Vec<u8> = self.chunks.iter().flat_map(|c| c.hash().to_le_bytes()).collect();
        hash64(&hashes, self.len as u64)
    }
}

impl From<&[u8]> for Content {
    fn from(bytes: &[u8]) -> Self {
        let mut content = Self::default();
        content.write(0, bytes);
        content
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, hash {:016x}", self.len, self.hash())
    }
}

/// Splits `len` bytes at `offset` where chunks meet: start (from 0) and length of each piece.
fn pieces(offset: usize, len: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let part = (CHUNK - (offset + start) % CHUNK).min(len - start);
        let piece = (start, part);
        start += part;
        (part > 0).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Rng;

    #[test]
    fn it_behaves_like_a_vector_and_clones_stay_as_they_were() {
        let mut rng = Rng::new(3);
        let (mut content, mut model) = (Content::default(), Vec::new());
        for _ in 0..2000 {
            let (before, frozen) = (content.clone(), model.clone());
            let offset = rng.index(4 * CHUNK);
            if rng.chance(20) {
                content.set_len(offset);
                model.resize(offset, 0);
            } else {
                let mut bytes = vec![0; rng.index(2 * CHUNK)];
                rng.fill(&mut bytes);
                content.write(offset, &bytes);
                if !bytes.is_empty() {
                    model.resize(model.len().max(offset + bytes.len()), 0);
                    model[offset..offset + bytes.len()].copy_from_slice(&bytes);
                }
            }
            assert_eq!(content.to_vec(), model);
            assert_eq!(before.to_vec(), frozen);
            assert_eq!(content.hash(), Content::from(&model[..]).hash(), "equal bytes, equal hash");
        }
    }

    #[test]
    fn the_hash_tells_lengths_and_bytes_apart() {
        let hashes = [&b""[..], b"\0", b"\0\0", b"a"].map(|bytes| Content::from(bytes).hash());
        for (i, a) in hashes.iter().enumerate() {
            assert!(hashes[..i].iter().all(|b| a != b));
        }
    }
}
