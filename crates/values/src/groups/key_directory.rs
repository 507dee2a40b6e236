//! The key directory of an extent: finds the record of an operation by the content of its index
//! entry.
//!
//! After a collection with soft pointers (design, section 2) index entries still have the old
//! places of records. A directory finds them by key and sequence number. It has an entry for each
//! value, in key order, in pages that are read one at a time; the first key of each page, its
//! *fence*, stays in memory. Look-ups in ascending key order read every page once.
//!
//! An entry has a hash of the key's hash and the sequence number, and the offset in the extent. A
//! result is a hint, like any pointer: the reader verifies the record.

use std::ops::Range;

use cleavedb_base::checksum::hash64;
use cleavedb_base::codec::{Cursor, put_bytes, put_varint};
use cleavedb_base::limits::BLOCK;
use cleavedb_base::{Error, Result, SeqNo};

use crate::cut::separator;

/// Bytes of an entry.
const ENTRY: usize = 12;
/// Offset of the number of entries in a page; the checksum is at its end.
const COUNT_AT: usize = BLOCK - 8;
/// Entries of a full page.
pub const ENTRIES: usize = COUNT_AT / ENTRY;

/// Search key of a directory: the first two thirds of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark([u8; 8]);

impl Mark {
    /// The mark of a record by the hash of its key and its sequence number.
    pub(super) fn new(hash: u64, seq: SeqNo) -> Self {
        // Mixes all bits of both: recovery leaves gaps of round length in the sequence numbers.
        Self(hash64(&seq.to_le_bytes(), hash).to_le_bytes())
    }
}

/// One entry of a directory being built, and the range of its key in the buffer of keys.
struct Item {
    key: Range<usize>,
    mark: Mark,
    offset: u32,
}

/// Builds a key directory.
#[derive(Default)]
pub struct MapBuilder {
    keys: Vec<u8>,
    items: Vec<Item>,
}

impl MapBuilder {
    /// Adds the record of (`encoded_key`, `seq`), with this hash of the key, at `offset` of the
    /// extent.
    pub fn add(&mut self, encoded_key: &[u8], hash: u64, seq: SeqNo, offset: u32) {
        let begin = self.keys.len();
        self.keys.extend_from_slice(encoded_key);
        self.items.push(Item { key: begin..self.keys.len(), mark: Mark::new(hash, seq), offset });
    }

    /// The pages, without their checksums, and the encoding of their fences. The builder is empty
    /// afterwards.
    pub fn finish(&mut self) -> (Vec<[u8; BLOCK]>, Vec<u8>) {
        let Self { keys, items } = std::mem::take(self);
        let mut items = items;
        items.sort_by(|a, b| keys[a.key.clone()].cmp(&keys[b.key.clone()]));
        let pages: Vec<_> = items.chunks(ENTRIES).map(page_of).collect();
        let mut fences = Vec::new();
        put_varint(&mut fences, pages.len() as u64);
        let mut last: &[u8] = &[];
        for of_page in items.chunks(ENTRIES) {
            // Shorter than its key, and still above all keys before it.
            put_bytes(&mut fences, separator(last, &keys[of_page[0].key.clone()]));
            last = of_page.last().map_or(last, |item| &keys[item.key.clone()]);
        }
        (pages, fences)
    }
}

fn page_of(items: &[Item]) -> [u8; BLOCK] {
    let mut page = [0; BLOCK];
    for (entry, item) in page.chunks_exact_mut(ENTRY).zip(items) {
        entry[..8].copy_from_slice(&item.mark.0);
        entry[8..].copy_from_slice(&item.offset.to_le_bytes());
    }
    page[COUNT_AT..COUNT_AT + 4].copy_from_slice(&(items.len() as u32).to_le_bytes());
    page
}

/// The first keys of the pages of a directory, or prefixes of them that tell the pages apart.
#[derive(Debug)]
pub struct KeyDirectory(Vec<Box<[u8]>>);

impl KeyDirectory {
    /// Reads the fences of a directory of `pages` pages.
    pub fn decode(bytes: &[u8], pages: u64) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, "the fences of a key directory");
        if cursor.varint()? != pages {
            return Err(Error::corruption("a key directory needs one fence for each page"));
        }
        let fences = (0..pages).map(|_| Ok(cursor.bytes()?.into()));
        let fences = Self(fences.collect::<Result<_>>()?);
        cursor.end()?;
        if !fences.0.is_sorted() {
            return Err(Error::corruption("the fences of a key directory are not in order"));
        }
        Ok(fences)
    }

    /// The fence of each page, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|fence| &**fence)
    }

    /// The pages that may have entries of `key`.
    pub(super) fn pages_of(&self, key: &[u8]) -> Range<usize> {
        // The versions of a key may begin in the page before the one that begins with it.
        let begin = self.0.partition_point(|fence| **fence < *key).saturating_sub(1);
        begin..self.0.partition_point(|fence| **fence <= *key)
    }
}

/// The entries of a page: a hash of key and sequence number, and the offset in the extent.
pub fn entries(page: &[u8; BLOCK]) -> impl Iterator<Item = (u64, u32)> {
    let count = u32::from_le_bytes([0, 1, 2, 3].map(|at| page[COUNT_AT + at]));
    let (entries, _) = page.as_chunks::<ENTRY>();
    entries.iter().take(ENTRIES.min(count as usize)).map(|entry| {
        let [a, b, c, d, e, f, g, h, offset @ ..] = *entry;
        (u64::from_le_bytes([a, b, c, d, e, f, g, h]), u32::from_le_bytes(offset))
    })
}

/// The offset in the entry of `mark` in a page.
pub(super) fn look_up(page: &[u8; BLOCK], mark: Mark) -> Option<u32> {
    let wanted = u64::from_le_bytes(mark.0);
    entries(page).find(|(found, _)| *found == wanted).map(|(_, offset)| offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(keys: &[(&[u8], SeqNo)]) -> (Vec<[u8; BLOCK]>, KeyDirectory) {
        let mut builder = MapBuilder::default();
        for (at, (key, seq)) in (0..).zip(keys) {
            builder.add(key, hash64(key, 0), *seq, at);
        }
        let (pages, fences) = builder.finish();
        assert!(builder.items.is_empty() && builder.keys.is_empty());
        let fences = KeyDirectory::decode(&fences, pages.len() as u64).unwrap();
        (pages, fences)
    }

    fn found(map: &(Vec<[u8; BLOCK]>, KeyDirectory), key: &[u8], seq: SeqNo) -> Option<u32> {
        let mark = Mark::new(hash64(key, 0), seq);
        map.1.pages_of(key).find_map(|page| look_up(&map.0[page], mark))
    }

    #[test]
    fn every_record_is_found_and_no_other_whatever_the_order() {
        let mut keys: Vec<Vec<u8>> =
            (0..3000u32).map(|i| format!("user/{i:05}").into_bytes()).collect();
        keys.reverse();
        let keys: Vec<(&[u8], SeqNo)> = keys.iter().map(|key| (&key[..], 7)).collect();
        let map = built(&keys);
        assert_eq!(map.0.len(), 3000usize.div_ceil(ENTRIES));
        for (at, (key, _)) in (0..).zip(&keys) {
            assert_eq!(found(&map, key, 7), Some(at));
            assert_eq!((found(&map, key, 8), found(&map, key, 7 + (1 << 32))), (None, None));
        }
        for key in ["", "user", "user/000005", "user/9", "v"] {
            assert_eq!(found(&map, key.as_bytes(), 7), None, "{key}");
        }
    }

    #[test]
    fn versions_of_a_key_may_fill_pages() {
        let count = 2 * ENTRIES as u64 + 5;
        let mut keys = vec![(&b"a"[..], 1)];
        keys.extend((0..count).map(|seq| (&b"b"[..], seq)));
        keys.push((b"c", 1));
        let map = built(&keys);
        assert!((0..count).all(|seq| found(&map, b"b", seq) == Some(seq as u32 + 1)));
        assert_eq!(found(&map, b"b", count), None);
        assert!(found(&map, b"a", 1).is_some() && found(&map, b"c", 1).is_some());
    }

    #[test]
    fn a_map_without_entries_has_no_page_and_damaged_fences_are_refused() {
        let (pages, fences) = MapBuilder::default().finish();
        assert!(pages.is_empty() && fences == [0]);
        for (bytes, pages) in [(&[0][..], 1), (&[1], 1), (&[2, 1, b'b', 1, b'a'], 2), (&[0, 0], 0)]
        {
            assert!(KeyDirectory::decode(bytes, pages).is_err(), "{bytes:?}");
        }
    }
}
