//! The report of a salvage, besides the keys and values that it returns.

use cleavedb_base::Error;
use cleavedb_storage::Name;

/// Most keys, and most damages, in the lists of a report; further ones are only counted.
const LISTED_MAX: usize = 1000;

/// The findings of a salvage, besides the returned keys and values.
#[derive(Clone, Debug, Default)]
pub struct SalvageReport {
    /// Keys that were returned.
    pub keys: u64,
    /// Bytes of their values.
    pub value_bytes: u64,
    /// Files and parts of files that are missing or cannot be read; at most 1000.
    pub damage: Vec<Error>,
    /// Number of all of them.
    pub damages: u64,
    /// Whether a part of the index, or of the log that is in no table yet, is lost: then any key
    /// may have an older value than its last one, or have been deleted.
    pub stale: bool,
    /// Keys whose newest version is known but whose value is missing; at most 1000. They were not
    /// returned: an older value would be wrong.
    pub lost: Vec<Vec<u8>>,
    /// Number of all of them.
    pub lost_keys: u64,
    /// Keys with a merge that cannot be applied, which were returned with the value below it; at
    /// most 1000.
    pub unmerged: Vec<Vec<u8>>,
    /// Number of all of them.
    pub unmerged_keys: u64,
    /// Keys that were returned and may have been deleted or overwritten by lost operations; at most
    /// 1000.
    pub uncertain: Vec<Vec<u8>>,
    /// Number of all of them.
    pub uncertain_keys: u64,
}

impl SalvageReport {
    pub(super) fn note(&mut self, error: Error) {
        self.damages += 1;
        if self.damage.len() < LISTED_MAX {
            self.damage.push(error);
        }
    }
}

/// Where damage was found, and what it means there.
pub(super) struct Damage<'a> {
    pub(super) report: &'a mut SalvageReport,
    pub(super) name: Name,
    /// Whether operations that are in no table may be lost there.
    pub(super) is_young: bool,
}

impl Damage<'_> {
    pub(super) fn note(&mut self, what: &str, offset: u64) {
        self.report.note(Error::corruption(what).with("file", self.name).with("offset", offset));
        self.report.stale |= self.is_young;
    }
}

pub(super) fn list(listed: &mut Vec<Vec<u8>>, count: &mut u64, key: &[u8]) {
    *count += 1;
    if listed.len() < LISTED_MAX {
        listed.push(key.to_vec());
    }
}
