//! How an iterator of a table fetches blocks: from the cache, or in windows that are read ahead.

use bytes::Bytes;
use cleavedb_base::Result;
use cleavedb_storage::Reach;

use super::{ReadMode, Table};
use crate::block::Block;
use crate::table_format::BlockHandle;

/// First read-ahead of a sequential scan through the cache, in bytes.
const AHEAD_BYTES_MIN: usize = 8 << 10;

/// Read-ahead window of a reader of a whole table, in bytes. The next window is fetched meanwhile,
/// so a short one suffices; a large compaction has dozens of them.
const WINDOW_BYTES: usize = 128 << 10;

/// Fetches the blocks of one iterator.
pub(super) struct BlockReader {
    pub(super) mode: ReadMode,
    /// Bytes read ahead, beginning at offset `window_at`.
    window: Bytes,
    window_at: u64,
    /// Offset of the block behind the one fetched last.
    expected: u64,
    /// Size of the next window of a cached scan, in bytes; 0 while it looks random.
    ahead: usize,
}

impl BlockReader {
    pub(super) fn new(mode: ReadMode) -> Self {
        Self { mode, window: Bytes::new(), window_at: 0, expected: 0, ahead: 0 }
    }

    /// The block at `handle`.
    pub(super) fn fetch(&mut self, table: &Table, handle: BlockHandle) -> Result<Block> {
        let sequential = self.expected == handle.offset;
        self.expected = handle.end();
        if self.mode == ReadMode::Resident {
            return table.cached_block(Reach::Memory, handle);
        }
        if self.mode != ReadMode::Cached {
            let stored = self.windowed(table, handle, WINDOW_BYTES)?;
            let block = table.source().open_block(stored, handle)?;
            return table.source().parse(block, handle);
        }
        if let Some(block) = table.cache.get(table.meta.number, handle.offset) {
            return Ok(block);
        }
        let most = table.cache.read_ahead();
        if !sequential || most == 0 {
            self.ahead = 0;
            return table.load_block(Reach::Device, handle);
        }
        self.ahead = (self.ahead * 2).max(AHEAD_BYTES_MIN).min(most);
        // A cached block must own its memory: a slice would keep the whole window alive.
        let stored = Bytes::copy_from_slice(&self.windowed(table, handle, self.ahead)?);
        let block = table.source().open_block(stored, handle)?;
        let block = table.source().parse(block, handle)?;
        table.cache.insert(table.meta.number, handle.offset, block.clone());
        Ok(block)
    }

    /// The stored block at `handle`, from the window or from a new one of `len` bytes.
    fn windowed(&mut self, table: &Table, handle: BlockHandle, len: usize) -> Result<Bytes> {
        let stored_len = handle.stored_len();
        let start = handle.offset.checked_sub(self.window_at).map(|start| start as usize);
        let inside = start.filter(|start| start + stored_len <= self.window.len());
        let start = match inside {
            Some(start) => start,
            None => {
                let rest = (table.index.data_end() - handle.offset) as usize;
                let len = len.min(rest).max(stored_len);
                self.window = table.source().read(handle.offset, len)?;
                self.window_at = handle.offset;
                if self.mode != ReadMode::Cached && len < rest {
                    table.file.will_need(handle.offset + len as u64, len.min(rest - len));
                }
                if self.mode == ReadMode::Last {
                    table.file.wont_need(handle.offset, len);
                }
                0
            }
        };
        Ok(self.window.slice(start..start + stored_len))
    }
}
