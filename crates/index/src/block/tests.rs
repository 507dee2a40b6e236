//! Blocks compared with lists of entries, and blocks with damaged bytes.

use bytes::Bytes;
use proptest::prelude::{any, proptest};

use super::{Block, BlockBuilder, BlockIter, common_prefix};
use crate::entry::{Entry, EntryIter};
use crate::testing::{Item, backwards, check_walk, forwards, items, probes};
use cleavedb_base::{Result, SeqNo};

/// Lets tests drive a block iterator like every other one.
impl EntryIter for BlockIter {
    fn valid(&self) -> bool {
        self.valid()
    }
    fn entry(&self) -> Entry<'_> {
        self.entry()
    }
    fn seek_first(&mut self) -> Result<()> {
        self.seek_first()
    }
    fn seek_last(&mut self) -> Result<()> {
        self.seek_last()
    }
    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.seek(key, seq)
    }
    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.seek(key, seq)?;
        if self.valid() { self.prev() } else { self.seek_last() }
    }
    fn next(&mut self) -> Result<()> {
        self.next()
    }
    fn prev(&mut self) -> Result<()> {
        self.prev()
    }
}

fn bytes_of(items: &[Item], interval: usize) -> Vec<u8> {
    padded_bytes_of(items, interval, 0)
}

fn padded_bytes_of(items: &[Item], interval: usize, padding: usize) -> Vec<u8> {
    let mut builder = BlockBuilder::new(interval);
    for item in items {
        builder.add(&item.entry());
    }
    let len = builder.len();
    let bytes = builder.finish(padding).to_vec();
    assert_eq!(bytes.len(), len + padding);
    bytes
}

fn block_of(items: &[Item], interval: usize) -> Block {
    Block::parse(bytes_of(items, interval).into()).unwrap()
}

fn iter_of(block: Block) -> BlockIter {
    let mut iter = BlockIter::default();
    iter.reset(block);
    iter
}

#[test]
fn common_prefixes_are_exact_at_every_length() {
    for len in 0..40 {
        let a = vec![b'x'; len];
        for differ in 0..len {
            let mut b = a.clone();
            b[differ] = b'y';
            assert_eq!(common_prefix(&a, &b), differ);
            assert_eq!(common_prefix(&a, &b[..differ]), differ);
        }
        assert_eq!(common_prefix(&a, &a), len);
    }
}

proptest! {
    #[test]
    fn a_block_gives_back_what_was_added(
        list in items(80),
        interval in 1usize..20,
        padding in 0usize..30,
    ) {
        let block = Block::parse(padded_bytes_of(&list, interval, padding).into()).unwrap();
        assert_eq!(forwards(&mut iter_of(block.clone())), list);
        assert_eq!(backwards(&mut iter_of(block.clone())), list);
        for (key, seq) in probes(&list) {
            let expected = list.iter().find(|item| item.key == key && item.seq <= seq);
            let found = block.get(&key, seq).unwrap();
            assert_eq!(found.as_ref().map(|f| f.seq), expected.map(|item| item.seq));
            if let (Some(found), Some(item)) = (found, expected) {
                assert_eq!((found.kind, found.repeat), (item.kind, item.repeat));
                assert_eq!(found.value, item.value);
            }
        }
    }

    #[test]
    fn a_block_is_walked_both_ways(
        list in items(60),
        interval in 1usize..20,
        steps in proptest::collection::vec(any::<(u8, u16)>(), 0..100),
    ) {
        check_walk(&mut iter_of(block_of(&list, interval)), &list, &steps);
    }

    #[test]
    fn damaged_blocks_are_errors_or_other_entries_but_never_panics(
        list in items(12),
        changes in proptest::collection::vec(any::<(u16, u8)>(), 1..4),
    ) {
        let mut bytes = bytes_of(&list, 4);
        for (at, byte) in changes {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        let Ok(block) = Block::parse(Bytes::from(bytes)) else { return Ok(()) };
        for (key, seq) in probes(&list) {
            let _ = block.get(&key, seq);
            let mut iter = iter_of(block.clone());
            let mut moved = iter.seek(&key, seq);
            while moved.is_ok() && iter.valid() {
                moved = iter.prev();
            }
        }
        let mut iter = iter_of(block);
        let mut moved = iter.seek_first();
        while moved.is_ok() && iter.valid() {
            moved = iter.next();
        }
        let _ = iter.seek_last();
    }
}
