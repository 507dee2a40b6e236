//! Small disks: files, MemTables and levels are limited to parts of the disk. A job that frees
//! space first writes about as much; on a full disk it must fit the reserve.

use cleavedb_base::limits::BLOCK;

use super::Options;
use crate::settings::tuning::Tuning;

/// Divisors of the disk: for a MemTable or a file that is collected as a whole, for a table, from
/// which the sizes of levels follow, and for each of the first two levels, where they are set. From
/// 8 GiB on they exceed the default sizes.
const FILE: u64 = 32;
const TABLE: u64 = 256;
const LEVEL: u64 = 16;

/// Least length of a MemTable or file, in bytes.
const FILE_MIN: u64 = 64 << 10;

impl Options {
    /// Size of a disk that does not limit any default, in bytes.
    pub(crate) const LARGE_DISK: u64 = 8 << 30;

    /// The options for a database on a disk with `bytes` for it, including its own files.
    pub(crate) fn within_disk(self, bytes: u64) -> Self {
        if bytes >= Self::LARGE_DISK {
            return self;
        }
        let (file, level) = ((bytes / FILE).max(FILE_MIN), (bytes / LEVEL).max(FILE_MIN));
        let window = (file / BLOCK as u64) as usize * BLOCK;
        let within = self.groups_within(file, bytes);
        let tuning = Tuning {
            window_bytes: Some(within.window().min(window)),
            memtable_bytes: Some(within.memtable().min(file as usize)),
            memtable_log_bytes: within.tuning.memtable_log_bytes.min(file),
            log_file_bytes: within.tuning.log_file_bytes.min(file),
            segment_bytes: within.tuning.segment_bytes.min(file),
            table_bytes: within.tuning.table_bytes.min((bytes / TABLE).max(BLOCK as u64)),
            level0_bytes: within.tuning.level0_bytes.map(|bytes| bytes.min(level)),
            level1_bytes: within.tuning.level1_bytes.map(|bytes| bytes.min(level)),
            space_floor: within.tuning.space_floor.min(level),
            ..within.tuning
        };
        Self { tuning, ..within }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::options::Preset;

    #[test]
    fn sizes_fit_any_disk_and_a_large_one_limits_none() {
        for preset in Preset::ALL {
            let options = Options::preset(preset).within_memory();
            let within = |bytes| options.clone().within_disk(bytes);
            for bytes in [0, 1 << 20, 64 << 20, 1 << 30, 7 << 30] {
                within(bytes).validate().unwrap();
            }
            let sizes = |o: Options| {
                (o.tuning.table_bytes, o.tuning.log_file_bytes, o.memtable(), o.window())
            };
            let (all, small) = (sizes(options.clone()), sizes(within(64 << 20)));
            assert_eq!(sizes(within(Options::LARGE_DISK)), all, "{preset}");
            assert_eq!((small.0, small.1, small.2), (256 << 10, 2 << 20, 2 << 20), "{preset}");
        }
    }
}
