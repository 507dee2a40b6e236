//! A table part by part: each is read and checked by itself, so that damage to one part keeps no
//! other from being read. Without its footer nothing of a table is found, and without its index no
//! entry.

use std::ops::ControlFlow;
use std::sync::Arc;

use cleavedb_base::filter::BloomFilter;
use cleavedb_base::record::FileIdentity;
use cleavedb_base::{FileNumber, Result};
use cleavedb_storage::{File, FileKind, Name};

use super::StoredBlocks;
use crate::block::BlockIter;
use crate::entry::Entry;
use crate::table_format::{BlockHandle, Footer, TableMeta};

/// A table of which only the footer was read.
pub struct TableParts {
    file: Arc<dyn File>,
    name: Name,
    identity: FileIdentity,
    footer: Footer,
    size: u64,
}

impl TableParts {
    /// Reads the footer of table `number` in `file`.
    pub fn open(file: Arc<dyn File>, identity: FileIdentity, number: FileNumber) -> Result<Self> {
        let name = Name::numbered(FileKind::Table, number);
        let (footer, size) = StoredBlocks::new(&*file, name, identity).footer()?;
        Ok(Self { file, name, identity, footer, size })
    }

    fn source(&self) -> StoredBlocks<'_> {
        StoredBlocks::new(&*self.file, self.name, self.identity)
    }

    /// Where the other parts lie.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Length of the file, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The filter of its keys.
    pub fn filter(&self) -> Result<BloomFilter> {
        self.source().filter(&self.footer)
    }

    /// The properties that the table stores about itself.
    pub fn properties(&self) -> Result<TableMeta> {
        self.source().properties(&self.footer, self.size)
    }

    /// The data blocks, in order, each with its separator: a tree key at or behind its last one.
    pub fn blocks(&self) -> Result<impl Iterator<Item = (BlockHandle, Vec<u8>)> + use<>> {
        let index = self.source().index(&self.footer)?;
        Ok((0..index.len()).map(move |at| (index.handle(at), index.separator(at))))
    }

    /// Calls `visit` with the entries of a data block, in order, until it breaks off.
    pub fn entries(
        &self,
        handle: BlockHandle,
        visit: &mut dyn FnMut(&Entry<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let failed = |e| self.source().fact(e, handle.offset);
        let mut iter = BlockIter::default();
        iter.reset(self.source().block(handle)?);
        iter.seek_first().map_err(failed)?;
        while iter.valid() {
            if visit(&iter.entry()).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            iter.next().map_err(failed)?;
        }
        Ok(ControlFlow::Continue(()))
    }
}
