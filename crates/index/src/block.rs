//! Block: a few KiB of sorted, prefix-compressed entries, the unit of reading and caching.
//!
//! An entry stores only what its key does not share with the key before it. Every `interval`-th
//! entry is a *restart* that shares nothing; the offsets of the restarts stand at the end of the
//! block and are binary-searched. Layout (`docs/format.md`, "Table"):
//!
//! ```text
//! entry    tag u8 · shared varint · unshared varint · value length varint · unshared key bytes
//!          · seq, 0 to 8 bytes · value
//! block    zeros · entries · restart offsets, u32 each · base seq u64 · restart count u32
//! ```
//!
//! The zeros align the end of a data block with the end of a page; mostly there are few or none.
//!
//! `tag` holds the kind in bits 0, 1 and 7 (`kind_bits`), whether it is a repeat in bit 2, and
//! the length of `seq` in bits 3 to 6. `seq` is the zigzag difference to the base, which is the
//! sequence number of the block's first entry, little-endian without its leading zeros. The end of
//! an entry follows from its lengths, so that it can be skipped without decoding it.
//!
//! Invariants: keys ascend, versions of a key descend; between restarts, `shared` is the *longest*
//! common prefix with the key before (the search depends on it: it never builds a key).
//!
//! Every offset and length is checked when it is read: damaged bytes are an error, never a panic.

use std::cmp::Ordering;
use std::ops::Range;

use bytes::Bytes;
use cleavedb_base::codec::get_varint;
use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::{EntryKind, Error, Expiry, Result, SeqNo};

use crate::entry::{Entry, IndexHit};

mod builder;

pub(crate) use builder::BlockBuilder;

/// Tag bits of the kind.
const TAG_KIND: u8 = 0x83;

/// The kinds of a marker of a hot key, and of values that expire, in these bits.
const TAG_HOT: u8 = 0x83;
const TAG_EXPIRING_INLINE: u8 = 0x82;
const TAG_EXPIRING_POINTER: u8 = 0x81;

/// The kind of an operand in these bits.
const TAG_OPERAND: u8 = 0x80;

/// Tag bit of a repeated entry.
const TAG_REPEAT: u8 = 0x04;

/// Bit position of the length of the sequence number in the tag, and its bits after a shift by it.
const TAG_SEQ_SHIFT: u32 = 3;
const TAG_SEQ: u8 = 0x0f;

/// Bytes behind the restart offsets: base sequence number and restart count.
const TAIL_LEN: usize = 12;

/// Greatest distance between restarts of a data block, in entries.
pub(crate) const RESTART_INTERVAL: usize = 16;

/// The tag bits of a kind.
#[inline]
fn kind_bits(kind: EntryKind) -> u8 {
    match kind {
        EntryKind::Marker => TAG_HOT,
        EntryKind::ExpiringInline => TAG_EXPIRING_INLINE,
        EntryKind::ExpiringPointer => TAG_EXPIRING_POINTER,
        EntryKind::Operand => TAG_OPERAND,
        EntryKind::Delete | EntryKind::Inline | EntryKind::Pointer => kind as u8,
    }
}

/// Length of the longest common prefix, eight bytes at a time.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let (a, b) = (&a[..len], &b[..len]);
    let mut same = 0;
    for (x, y) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differ != 0 {
            return same + differ.trailing_zeros() as usize / 8;
        }
        same += 8;
    }
    same + a[same..].iter().zip(&b[same..]).take_while(|(x, y)| x == y).count()
}

#[inline]
fn unzigzag(coded: u64) -> i64 {
    (coded >> 1) as i64 ^ -((coded & 1) as i64)
}

/// A block in memory. Cloning shares the bytes.
#[derive(Clone, Default)]
pub(crate) struct Block {
    bytes: Bytes,
    restarts_at: usize,
    restarts: usize,
    base: SeqNo,
}

/// The fields of one entry; ranges are checked against the entries part of the block.
#[derive(Clone, Default)]
struct Parsed {
    shared: usize,
    suffix: Range<usize>,
    value: Range<usize>,
    seq: SeqNo,
    tag: u8,
}

impl Parsed {
    /// Offset of the next entry.
    #[inline]
    fn end(&self) -> usize {
        self.value.end
    }

    #[inline]
    fn kind(&self) -> EntryKind {
        match self.tag & TAG_KIND {
            1 => EntryKind::Delete,
            2 => EntryKind::Inline,
            TAG_HOT => EntryKind::Marker,
            TAG_EXPIRING_INLINE => EntryKind::ExpiringInline,
            TAG_EXPIRING_POINTER => EntryKind::ExpiringPointer,
            TAG_OPERAND => EntryKind::Operand,
            _ => EntryKind::Pointer,
        }
    }

    #[inline]
    fn repeat(&self) -> bool {
        self.tag & TAG_REPEAT != 0
    }
}

#[cold]
fn damaged(at: usize) -> Error {
    Error::corruption("block entry cannot be decoded").with("in_block", at)
}

/// The fields in front of an entry's key.
struct Head {
    tag: u8,
    shared: usize,
    suffix_len: usize,
    value_len: usize,
    key_at: usize,
}

/// Reads the head at offset `at`. Its three lengths are nearly always below 128, one byte each.
#[inline]
fn parse_head(bytes: &[u8], at: usize) -> Option<Head> {
    let word = u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
    if word & 0x8080_8000 != 0 {
        return parse_long_head(bytes, at);
    }
    let [tag, shared, suffix_len, value_len] = word.to_le_bytes();
    Some(Head {
        tag,
        shared: usize::from(shared),
        suffix_len: usize::from(suffix_len),
        value_len: usize::from(value_len),
        key_at: at + 4,
    })
}

#[inline(never)]
fn parse_long_head(bytes: &[u8], at: usize) -> Option<Head> {
    let (&tag, mut rest) = bytes.get(at..)?.split_first()?;
    let mut next = || -> Option<usize> {
        let (value, len) = get_varint(rest)?;
        rest = &rest[len..];
        usize::try_from(value).ok()
    };
    let (shared, suffix_len, value_len) = (next()?, next()?, next()?);
    Some(Head { tag, shared, suffix_len, value_len, key_at: bytes.len() - rest.len() })
}

impl Block {
    /// The block that fills `bytes`.
    pub fn parse(bytes: Bytes) -> Result<Self> {
        let bad = || Error::corruption("block tail cannot be decoded");
        let (front, tail) = bytes.split_last_chunk::<TAIL_LEN>().ok_or_else(bad)?;
        let (base, count) = tail.split_first_chunk::<8>().ok_or_else(bad)?;
        let restarts = u32::from_le_bytes(count.try_into().map_err(|_| bad())?) as usize;
        let restarts_at = front.len().checked_sub(restarts * 4).ok_or_else(bad)?;
        let base = u64::from_le_bytes(*base);
        if restarts == 0 || restarts_at == 0 || base > SEQ_MAX {
            return Err(bad());
        }
        Ok(Self { bytes, restarts_at, restarts, base })
    }

    /// Memory that the block holds, in bytes.
    pub fn memory(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    fn restart(&self, index: usize) -> usize {
        let at = self.restarts_at + index * 4;
        self.bytes[at..].first_chunk().map_or(0, |offset| u32::from_le_bytes(*offset) as usize)
    }

    /// A part of its callers, as what it calls: they are the inner loops of searches and walks, and
    /// an entry takes longer to pass on than to parse.
    #[inline(always)]
    fn parse_entry(&self, at: usize) -> Result<Parsed> {
        self.try_parse_entry(at).ok_or_else(|| damaged(at))
    }

    #[inline(always)]
    fn try_parse_entry(&self, start: usize) -> Option<Parsed> {
        let head = parse_head(&self.bytes, start)?;
        let seq_len = usize::from(head.tag >> TAG_SEQ_SHIFT & TAG_SEQ);
        let seq_at = head.key_at.checked_add(head.suffix_len)?;
        let value_at = seq_at.checked_add(seq_len)?;
        let end = value_at.checked_add(head.value_len)?;
        let kind = head.tag & TAG_KIND;
        let known = match kind {
            1..=3 => true,
            TAG_HOT => head.value_len == 0,
            TAG_EXPIRING_INLINE | TAG_EXPIRING_POINTER => head.value_len >= Expiry::LEN,
            // An operand names its operator.
            TAG_OPERAND => head.value_len > 1,
            _ => false,
        };
        if end > self.restarts_at || seq_len > 8 || !known {
            return None;
        }
        // At least eight bytes follow, since the tail behind the entries is longer than this read.
        let word = u64::from_le_bytes(*self.bytes.get(seq_at..)?.first_chunk()?);
        let unused = 64 - 8 * seq_len as u32;
        let coded = word.checked_shl(unused).unwrap_or(0).checked_shr(unused).unwrap_or(0);
        let seq = self.base.wrapping_add_signed(unzigzag(coded));
        if seq > SEQ_MAX {
            return None;
        }
        let Head { tag, shared, key_at, .. } = head;
        Some(Parsed { shared, suffix: key_at..seq_at, value: value_at..end, seq, tag })
    }

    /// The last restart whose entry is not behind (`key`, `seq`), or the first one.
    #[inline]
    fn restart_for(&self, key: &[u8], seq: SeqNo) -> Result<usize> {
        let (mut low, mut high) = (0, self.restarts);
        while high - low > 1 {
            let middle = low.midpoint(high);
            let at = self.restart(middle);
            let parsed = self.parse_entry(at)?;
            if parsed.shared != 0 {
                return Err(damaged(at));
            }
            match self.bytes[parsed.suffix].cmp(key).then(seq.cmp(&parsed.seq)) {
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(middle),
                Ordering::Less => low = middle,
            }
        }
        Ok(low)
    }

    /// The first entry at or behind (`key`, `seq`), and whether its key is `key`.
    ///
    /// `matched` is the length of the prefix that `key` shares with the entry before, which sorts
    /// before the target. An entry that shares more than that with its predecessor sorts on the
    /// same side as it; one that shares less has left the prefix upwards; only an entry that shares
    /// exactly that needs its suffix compared.
    #[inline]
    fn search(&self, key: &[u8], seq: SeqNo) -> Result<Option<(Parsed, bool)>> {
        let mut at = self.restart(self.restart_for(key, seq)?);
        let mut matched = 0;
        while at < self.restarts_at {
            let parsed = self.parse_entry(at)?;
            match parsed.shared.cmp(&matched) {
                Ordering::Greater => {}
                Ordering::Less => {
                    // A restart shares nothing by definition. The one reached here lies behind the
                    // target, but may still hold an older version of the same key.
                    let same = parsed.shared == 0 && self.bytes[parsed.suffix.clone()] == *key;
                    return Ok(Some((parsed, same)));
                }
                Ordering::Equal => {
                    let suffix = &self.bytes[parsed.suffix.clone()];
                    let common = common_prefix(suffix, &key[matched..]);
                    matched += common;
                    match suffix[common..].first().cmp(&key[matched..].first()) {
                        Ordering::Greater => return Ok(Some((parsed, false))),
                        Ordering::Equal if parsed.seq <= seq => return Ok(Some((parsed, true))),
                        Ordering::Equal | Ordering::Less => {}
                    }
                }
            }
            at = parsed.end();
        }
        Ok(None)
    }

    /// The newest entry of `key` at or below `snapshot`, if its place is in this block.
    #[inline]
    pub fn get(&self, key: &[u8], snapshot: SeqNo) -> Result<Option<IndexHit>> {
        let Some((parsed, true)) = self.search(key, snapshot)? else { return Ok(None) };
        let value = self.bytes.slice(parsed.value.clone());
        Ok(Some(IndexHit { seq: parsed.seq, kind: parsed.kind(), repeat: parsed.repeat(), value }))
    }
}

/// Walks one block, both ways.
///
/// It is on an entry or not valid; after an error it is not valid.
#[derive(Default)]
pub(crate) struct BlockIter {
    block: Block,
    valid: bool,
    at: usize,
    current: Parsed,
    key: Vec<u8>,
    /// Entries from a restart up to the current one, which `prev` pops: stepping back decodes each
    /// restart interval once.
    trail: Vec<PassedEntry>,
    trail_keys: Vec<u8>,
}

struct PassedEntry {
    at: usize,
    parsed: Parsed,
    key_at: usize,
}

impl BlockIter {
    /// Switches to another block, keeping the buffers; not valid until it is positioned.
    pub fn reset(&mut self, block: Block) {
        self.block = block;
        self.invalidate();
    }

    /// Makes the iterator invalid.
    pub fn invalidate(&mut self) {
        self.valid = false;
        self.trail.clear();
        self.trail_keys.clear();
    }

    /// Whether the iterator is on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The current entry.
    #[inline]
    pub fn entry(&self) -> Entry<'_> {
        debug_assert!(self.valid);
        Entry {
            key: &self.key,
            seq: self.current.seq,
            kind: self.current.kind(),
            repeat: self.current.repeat(),
            value: &self.block.bytes[self.current.value.clone()],
        }
    }

    /// The value of the current entry, as a slice that keeps the block.
    #[inline]
    pub fn keep_value(&self) -> Bytes {
        debug_assert!(self.valid);
        self.block.bytes.slice(self.current.value.clone())
    }

    /// Moves to the entry at offset `at`, which follows the current key.
    #[inline]
    fn step_to(&mut self, at: usize) -> Result<()> {
        self.valid = false;
        if at >= self.block.restarts_at {
            return Ok(());
        }
        let parsed = self.block.parse_entry(at)?;
        if parsed.shared > self.key.len() {
            return Err(damaged(at));
        }
        self.key.truncate(parsed.shared);
        self.key.extend_from_slice(&self.block.bytes[parsed.suffix.clone()]);
        self.at = at;
        self.current = parsed;
        self.valid = true;
        Ok(())
    }

    fn step_to_restart(&mut self, index: usize) -> Result<()> {
        self.invalidate();
        self.key.clear();
        self.step_to(self.block.restart(index))
    }

    /// Moves to the first entry.
    pub fn seek_first(&mut self) -> Result<()> {
        self.step_to_restart(0)
    }

    /// Moves to the last entry.
    pub fn seek_last(&mut self) -> Result<()> {
        self.step_to_restart(self.block.restarts.saturating_sub(1))?;
        while self.valid && self.current.end() < self.block.restarts_at {
            self.step_to(self.current.end())?;
        }
        Ok(())
    }

    /// Moves to the first entry at or after (`key`, `seq`).
    pub fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.invalidate();
        let index = self.block.restart_for(key, seq)?;
        self.step_to_restart(index)?;
        while self.valid && self.entry().order(key, seq).is_lt() {
            self.step_to(self.current.end())?;
        }
        Ok(())
    }

    /// Moves to the next entry.
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        if !self.trail.is_empty() {
            self.trail.clear();
            self.trail_keys.clear();
        }
        self.step_to(self.current.end())
    }

    /// Moves to the previous entry.
    pub fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        if self.trail.is_empty() {
            self.fill_trail()?;
        }
        self.valid = false;
        if let Some(step) = self.trail.pop() {
            self.key.clear();
            self.key.extend_from_slice(&self.trail_keys[step.key_at..]);
            self.trail_keys.truncate(step.key_at);
            self.at = step.at;
            self.current = step.parsed;
            self.valid = true;
        }
        Ok(())
    }

    /// Collects the entries between the last restart before the current entry and that entry.
    fn fill_trail(&mut self) -> Result<()> {
        let end = self.at;
        if end == 0 {
            return Ok(());
        }
        let (mut low, mut high) = (0, self.block.restarts);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.block.restart(middle) < end { low = middle } else { high = middle }
        }
        self.step_to_restart(low)?;
        while self.valid && self.at < end {
            self.trail.push(PassedEntry {
                at: self.at,
                parsed: self.current.clone(),
                key_at: self.trail_keys.len(),
            });
            self.trail_keys.extend_from_slice(&self.key);
            self.step_to(self.current.end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
