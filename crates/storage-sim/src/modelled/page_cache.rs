//! PageCache: what the kernel would hold in memory of the files of a modelled device.
//!
//! Pages leave in the order of their last use (LRU). A page that was asked for ahead of its use is
//! there at a later time: a read that needs it sooner waits for the rest. Dirty pages, written and
//! not yet synced, are kept apart, so that they are written once, in one request for each piece.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use cleavedb_base::limits::BLOCK;
use lru::LruCache;

use super::device::Extent;

const PAGE: u64 = BLOCK as u64;

/// A page: its file and its number there.
type Page = (u64, u64);

/// Pages in memory, and what of them is not on the device.
pub(super) struct PageCache {
    /// When each page is there. None if the cache has no room for a single page.
    pages: Option<LruCache<Page, u64>>,
    /// Number behind the last page of each file that was ever inserted, so that the removal of a
    /// file need not look through all pages.
    ends: BTreeMap<u64, u64>,
    /// Dirty pieces of each file, by their beginning: their end.
    dirty: BTreeMap<u64, BTreeMap<u64, u64>>,
    dirty_bytes: u64,
}

/// What a read finds in memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lookup {
    /// Pieces that must come from the device, in whole pages.
    pub(super) missing: Vec<Extent>,
    /// When the rest is there.
    pub(super) ready: u64,
}

fn page_numbers(offset: u64, len: u64) -> std::ops::Range<u64> {
    match len {
        0 => 0..0,
        _ => offset / PAGE..offset.saturating_add(len).div_ceil(PAGE),
    }
}

impl PageCache {
    pub(super) fn new(bytes: u64) -> Self {
        let pages = NonZeroUsize::new((bytes / PAGE) as usize).map(LruCache::new);
        Self { pages, ends: BTreeMap::new(), dirty: BTreeMap::new(), dirty_bytes: 0 }
    }

    /// Which pages of a read are there; those that are have been used.
    pub(super) fn look_up(&mut self, extent: Extent) -> Lookup {
        let mut found = Lookup::default();
        for page in page_numbers(extent.offset, extent.len) {
            let there = self.pages.as_mut().and_then(|pages| pages.get(&(extent.file, page)));
            match (there, found.missing.last_mut()) {
                (Some(ready), _) => found.ready = found.ready.max(*ready),
                (None, Some(last)) if last.offset + last.len == page * PAGE => last.len += PAGE,
                (None, _) => {
                    let offset = page * PAGE;
                    found.missing.push(Extent { file: extent.file, offset, len: PAGE });
                }
            }
        }
        found
    }

    /// Remembers the pages of `extent`, which are there at `ready`.
    pub(super) fn insert(&mut self, extent: Extent, ready: u64) {
        let Some(pages) = &mut self.pages else { return };
        let numbers = page_numbers(extent.offset, extent.len);
        let end = self.ends.entry(extent.file).or_default();
        *end = numbers.end.max(*end);
        for page in numbers {
            pages.put((extent.file, page), ready);
        }
    }

    /// Forgets the pages of `extent`, dirty or not, from its first whole page on.
    pub(super) fn forget(&mut self, extent: Extent) {
        let end = extent.offset.saturating_add(extent.len);
        self.clean(extent.file, extent.offset, end);
        self.evict(extent.file, extent.offset.div_ceil(PAGE)..end.div_ceil(PAGE));
    }

    /// Lets the whole pages of `extent` go; what is dirty is still to be written.
    pub(super) fn drop_clean(&mut self, extent: Extent) {
        let end = extent.offset.saturating_add(extent.len);
        self.evict(extent.file, extent.offset.div_ceil(PAGE)..end / PAGE);
    }

    fn evict(&mut self, file: u64, numbers: std::ops::Range<u64>) {
        let (Some(pages), Some(&end)) = (&mut self.pages, self.ends.get(&file)) else { return };
        (numbers.start..numbers.end.min(end)).for_each(|page| _ = pages.pop(&(file, page)));
        if numbers.start < end && end <= numbers.end {
            match numbers.start {
                0 => _ = self.ends.remove(&file),
                start => _ = self.ends.insert(file, start),
            }
        }
    }

    /// A write that the device has not seen; returns how many bytes are dirty now.
    pub(super) fn soil(&mut self, extent: Extent) -> u64 {
        let (mut start, mut end) = (extent.offset, extent.offset + extent.len);
        let pieces = self.dirty.entry(extent.file).or_default();
        // Pieces that touch or overlap become one.
        while let Some((&first, &last)) = pieces.range(..=end).next_back()
            && last >= start
        {
            pieces.remove(&first);
            self.dirty_bytes -= last - first;
            (start, end) = (start.min(first), end.max(last));
        }
        pieces.insert(start, end);
        self.dirty_bytes += end - start;
        self.dirty_bytes
    }

    /// Takes `start..end` of `file` out of what is dirty.
    fn clean(&mut self, file: u64, start: u64, end: u64) {
        let Some(pieces) = self.dirty.get_mut(&file) else { return };
        while let Some((&first, &last)) = pieces.range(..end).next_back()
            && last > start
        {
            pieces.remove(&first);
            self.dirty_bytes -= last - first;
            for (from, to) in [(first, start), (end, last)] {
                if from < to {
                    pieces.insert(from, to);
                    self.dirty_bytes += to - from;
                }
            }
            if first < start {
                break;
            }
        }
        if pieces.is_empty() {
            self.dirty.remove(&file);
        }
    }

    /// What is dirty of `file`, which is clean from now on.
    pub(super) fn take_dirty(&mut self, file: u64) -> Vec<Extent> {
        let pieces = self.dirty.remove(&file).unwrap_or_default();
        let extents: Vec<Extent> = pieces
            .into_iter()
            .map(|(offset, end)| Extent { file, offset, len: end - offset })
            .collect();
        self.dirty_bytes -= extents.iter().map(|extent| extent.len).sum::<u64>();
        extents
    }

    /// What is dirty of all files, which are clean from now on.
    pub(super) fn take_all_dirty(&mut self) -> Vec<Extent> {
        let files: Vec<u64> = self.dirty.keys().copied().collect();
        files.into_iter().flat_map(|file| self.take_dirty(file)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(offset: u64, len: u64) -> Extent {
        Extent { file: 1, offset, len }
    }

    #[test]
    fn the_page_used_longest_ago_goes_first() {
        let mut cache = PageCache::new(2 * PAGE);
        cache.insert(extent(0, 2 * PAGE), 7);
        assert_eq!(cache.look_up(extent(0, 1)).ready, 7);
        cache.insert(extent(2 * PAGE, 1), 0);
        let found = cache.look_up(extent(0, 4 * PAGE));
        assert_eq!(found.missing, [extent(PAGE, PAGE), extent(3 * PAGE, PAGE)]);
        cache.forget(extent(1, 9 * PAGE));
        let found = cache.look_up(extent(0, 3 * PAGE));
        assert_eq!(found.missing, [extent(PAGE, 2 * PAGE)], "page 0 is not wholly inside");
    }

    #[test]
    fn dirty_pieces_merge_split_and_are_counted_once() {
        let mut cache = PageCache::new(0);
        assert_eq!(cache.soil(extent(0, 100)), 100);
        assert_eq!(cache.soil(extent(200, 100)), 200);
        assert_eq!(cache.soil(extent(50, 150)), 300, "they touch and overlap");
        cache.forget(extent(120, 60));
        assert_eq!(cache.take_dirty(1), [extent(0, 120), extent(180, 120)]);
        assert_eq!(cache.soil(extent(10, 5)), 5);
        assert_eq!(cache.take_all_dirty(), [extent(10, 5)]);
        assert!(cache.take_all_dirty().is_empty());
    }
}
