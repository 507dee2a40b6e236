//! Look-ups in key directories, with a cache of their pages.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::{Result, SeqNo};

use super::extent::Location;
use super::handle::ExtentHandle;
use super::key_directory::{Mark, look_up};

/// A page that was read. It does not keep its extent alive: a place is never reused.
struct Page {
    number: usize,
    bytes: Box<[u8; BLOCK]>,
}

/// Most pages in the cache, one for each group: neighbouring keys lie in as many hash groups. 4 MiB
/// in all.
const PAGES_MAX: usize = 1024;

/// Looks up key directories and caches the last page of each: keys ascend, and the next one is
/// mostly in the same page.
#[derive(Default)]
pub struct KeyDirectoryReader {
    pages: HashMap<Location, Page>,
}

impl KeyDirectoryReader {
    /// Place of the record of (`encoded_key`, `seq`), with this hash of the key, as an offset in
    /// `extent`.
    pub fn find(
        &mut self,
        extent: &ExtentHandle,
        encoded_key: &[u8],
        hash: u64,
        seq: SeqNo,
    ) -> Result<Option<u32>> {
        let Some(fences) = extent.fences()? else { return Ok(None) };
        let mark = Mark::new(hash, seq);
        for number in fences.pages_of(encoded_key) {
            if let Some(offset) = look_up(self.page(extent, number)?, mark) {
                return Ok(Some(offset));
            }
        }
        Ok(None)
    }

    fn page(&mut self, extent: &ExtentHandle, number: usize) -> Result<&[u8; BLOCK]> {
        let place = extent.place();
        if self.pages.len() >= PAGES_MAX && !self.pages.contains_key(&place) {
            // Any page may be evicted: with more groups than pages most keys miss in any case.
            let any = self.pages.keys().next().copied();
            any.and_then(|any| self.pages.remove(&any));
        }
        let page = match self.pages.entry(place) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                unknown.insert(Page { number: usize::MAX, bytes: Box::new([0; BLOCK]) })
            }
        };
        if page.number != number {
            page.number = usize::MAX;
            extent.read_map_page(number, &mut page.bytes)?;
            page.number = number;
        }
        Ok(&page.bytes)
    }
}
