//! Bytes that reached the block device below a path, from its counters in `/sys`.
//!
//! The counters are the device's, not the process's: whatever else uses the device is counted too.
//! A file system on a partition is counted by the partition alone. One that has no device number of
//! its own (btrfs) is counted by the device that it is mounted from, if there is one.

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
        // A device that went away and came back counts from zero.
        Self {
            read: self.read.saturating_sub(earlier.read),
            written: self.written.saturating_sub(earlier.written),
        }
    }

    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self { read: self.read + other.read, written: self.written + other.written }
    }
}

/// A block device whose counters can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    stat: PathBuf,
}

impl Device {
    /// The device of the file system that holds `path`; `None` if it has none of its own (network,
    /// overlay or memory file systems).
    pub fn of(path: &Path) -> Result<Option<Self>> {
        let number = fs::metadata(path).map_err(BenchError::io("look at", path))?.dev();
        Ok(Self::numbered(number).or_else(|| {
            let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
            let source = source_of(&mounts, number)?;
            Self::numbered(fs::metadata(source).ok()?.rdev())
        }))
    }

    /// What a reader must know if bytes at the device cannot be counted below `path`.
    pub fn uncounted(path: &Path) -> Result<Option<String>> {
        let counted = Self::of(path)?.is_some_and(|device| device.bytes().is_some());
        Ok((!counted).then(|| {
            format!(
                "BYTES AT THE DEVICE ARE NOT COUNTED: {} lies on no block device of its own \
                 (overlay, memory or network file system); only this process's bytes are. Name \
                 a directory on a disk with --dir.",
                path.display()
            )
        }))
    }

    fn numbered(number: u64) -> Option<Self> {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let stat = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
        stat.exists().then_some(Self { stat })
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

/// The source of the mount with device `number`: fields are id, parent, major:minor, root, mount
/// point, options, any number of tags, `-`, type, source.
fn source_of(mounts: &str, number: u64) -> Option<&str> {
    let wanted = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(&wanted))?;
    line.split_once(" - ")?.1.split(' ').nth(1)
}

#[cfg(test)]
mod tests {
    use super::{DeviceBytes, parse, source_of};

    #[test]
    fn a_mount_without_a_device_number_has_a_source() {
        let mounts = "1 2 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      3 1 0:45 /sub /data rw,noatime shared:1 master:2 - btrfs /dev/nvme0n1p2 rw\n";
        assert_eq!(source_of(mounts, 45), Some("/dev/nvme0n1p2"));
        assert_eq!(source_of(mounts, 46), None);
    }

    #[test]
    fn a_memory_file_system_is_said_not_to_be_counted() {
        let warning = super::Device::uncounted(std::path::Path::new("/proc")).unwrap();
        assert!(warning.is_some_and(|warning| warning.contains("/proc")));
    }

    #[test]
    fn fields_are_those_of_the_kernel() {
        let stat = "   34547  7453  4199210  20198  9468  13217  2559120  6441  0  5204  27046";
        let bytes = DeviceBytes { read: 4_199_210 * 512, written: 2_559_120 * 512 };
        assert_eq!(parse(stat), Some(bytes));
        assert_eq!(parse(""), None);
    }
}
