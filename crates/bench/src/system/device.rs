//! Bytes that reached the block device below a path, from its counters in `/sys`.
//!
//! The counters are the device's, not the process's: whatever else uses the device is counted too.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{BenchError, Result};

/// The unit of the kernel's counters, whatever the device's own sector size.
const SECTOR: u64 = 512;

/// Bytes moved since the machine started, or between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceBytes {
    /// Bytes read from the device.
    pub read: u64,
    /// Bytes written to the device.
    pub written: u64,
}

impl DeviceBytes {
    /// What was moved since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self { read: self.read - earlier.read, written: self.written - earlier.written }
    }
}

/// A block device whose counters can be read.
#[derive(Clone, Debug)]
pub struct Device {
    stat: PathBuf,
}

impl Device {
    /// The device of the file system that holds `path`; `None` if it has none of its own (network,
    /// overlay or memory file systems).
    pub fn of(path: &Path) -> Result<Option<Self>> {
        let number = fs::metadata(path).map_err(BenchError::io("look at", path))?.dev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let stat = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
        Ok(stat.exists().then_some(Self { stat }))
    }

    /// The counters now.
    pub fn bytes(&self) -> Option<DeviceBytes> {
        parse(&fs::read_to_string(&self.stat).ok()?)
    }
}

/// Fields of `/sys/block/*/stat`: the third is sectors read, the seventh sectors written.
fn parse(stat: &str) -> Option<DeviceBytes> {
    let sectors =
        |field: usize| -> Option<u64> { stat.split_ascii_whitespace().nth(field)?.parse().ok() };
    Some(DeviceBytes { read: sectors(2)? * SECTOR, written: sectors(6)? * SECTOR })
}

#[cfg(test)]
mod tests {
    use super::{DeviceBytes, parse};

    #[test]
    fn fields_are_those_of_the_kernel() {
        let stat = "   34547  7453  4199210  20198  9468  13217  2559120  6441  0  5204  27046";
        let bytes = DeviceBytes { read: 4_199_210 * 512, written: 2_559_120 * 512 };
        assert_eq!(parse(stat), Some(bytes));
        assert_eq!(parse(""), None);
    }
}
