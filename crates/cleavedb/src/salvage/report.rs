//! What a salvage has to say beside the keys and values that it hands out.

use cleavedb_base::Error;
use cleavedb_storage::Name;

/// Most keys, and most damages, that a report lists; the rest is counted.
const LISTED_MAX: usize = 1000;

/// What a salvage found, beside the keys and values that it handed out.
#[derive(Clone, Debug, Default)]
pub struct SalvageReport {
    /// Keys that were handed out.
    pub keys: u64,
    /// Bytes of their values.
    pub value_bytes: u64,
    /// Files and parts of files that are missing or cannot be read; at most 1000.
    pub damage: Vec<Error>,
    /// All of them.
    pub damages: u64,
    /// Whether a part of the index, or of the log that no table has yet, is lost: any key may then
    /// have an older value than its last one, or have been deleted.
    pub stale: bool,
    /// Keys of which the newest version is known and its value is not; at most 1000. They were not
    /// handed out: an older value would be a wrong one.
    pub lost: Vec<Vec<u8>>,
    /// All of them.
    pub lost_keys: u64,
    /// Keys that were handed out and may have been deleted or overwritten by what is lost; at most
    /// 1000.
    pub uncertain: Vec<Vec<u8>>,
    /// All of them.
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

/// What a damage means where it was found.
pub(super) struct Damage<'a> {
    pub(super) report: &'a mut SalvageReport,
    pub(super) name: Name,
    /// Whether operations that no table has may be lost there.
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
