//! The check of a whole table: every byte of data, every entry, and that all parts agree.

use std::sync::Arc;

use cleavedb_base::checksum::hash64;
use cleavedb_base::{Error, Result, SeqNo};

use super::{ReadMode, Table, TableIter};
use crate::entry::Entry;
use crate::expiry_sample::ExpirySample;
use crate::table_format::TableMeta;

/// Sums over the entries of a table.
struct Tally {
    meta: TableMeta,
    expiries: ExpirySample,
    last_key: Vec<u8>,
    last_seq: SeqNo,
}

impl Tally {
    fn add(&mut self, entry: &Entry<'_>) -> Result<()> {
        let first = self.meta.entries == 0;
        if !first && entry.order(&self.last_key, self.last_seq).is_le() {
            return Err(Error::corruption("entries of a table are not in order"));
        }
        let new_key = first || self.last_key != entry.key;
        if new_key {
            self.last_key.clear();
            self.last_key.extend_from_slice(entry.key);
        }
        self.last_seq = entry.seq;
        self.meta.count(entry, new_key, &mut self.expiries)
    }
}

impl Table {
    /// Reads every block and checks checksums, the order of all entries, and that index, filter and
    /// properties agree with them. That the blocks fill the file was checked when it was opened.
    pub fn verify(self: &Arc<Self>) -> Result<()> {
        // Entries do not tell the file's length, nor which range tombstones were applied to them.
        let TableMeta { number, size, uncovered_upto, .. } = self.meta;
        let mut tally = Tally {
            meta: TableMeta { size, uncovered_upto, ..TableMeta::empty(number) },
            expiries: ExpirySample::default(),
            last_key: Vec::new(),
            last_seq: 0,
        };
        let mut iter = self.iter(ReadMode::Ahead);
        for at in 0..self.index.len() {
            iter.enter(at)?;
            self.verify_block(&mut iter, &mut tally)
                .map_err(|e| self.source().fact(e, self.index.handle(at).offset))?;
        }
        tally.meta.largest = tally.last_key.into();
        tally.meta.set_expiries(tally.expiries);
        if tally.meta != self.meta {
            let error = Error::corruption("properties of a table contradict its entries");
            return Err(self.source().fact(error, self.index.data_end()));
        }
        Ok(())
    }

    /// Checks the entries of the block that `iter` has entered.
    fn verify_block(&self, iter: &mut TableIter, tally: &mut Tally) -> Result<()> {
        iter.data.seek_first()?;
        while iter.data.valid() {
            let entry = iter.data.entry();
            tally.add(&entry)?;
            if !self.filter.may_contain(hash64(entry.key, 0)) {
                return Err(Error::corruption("filter of a table misses one of its keys"));
            }
            // The separators are right if they lead every entry to the block that holds it.
            if self.index.find(entry.key, entry.seq) != iter.at {
                return Err(Error::corruption("index of a table misplaces one of its entries"));
            }
            iter.data.next()?;
        }
        Ok(())
    }
}
