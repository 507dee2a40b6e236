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
            let source = mount_of(&mounts, number)?.source;
            Self::numbered(fs::metadata(source).ok()?.rdev())
        }))
    }

    /// The file system that holds `path`, in words: its kind, and options of its mount, such as
    /// `discard`, that change what a disk gives.
    pub fn file_system(path: &Path) -> Option<String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let Mount { kind, options, own_options, .. } =
            mount_of(&mounts, fs::metadata(path).ok()?.dev())?;
        Some(format!("{kind}, mounted with {options} and {own_options}"))
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

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, PartialEq)]
struct Mount<'a> {
    /// Options of the mount.
    options: &'a str,
    /// Kind of file system.
    kind: &'a str,
    /// What it is mounted from.
    source: &'a str,
    /// Options of the file system.
    own_options: &'a str,
}

/// The mount with device `number`: fields are id, parent, major:minor, root, mount point, options,
/// any number of tags, `-`, kind, source, options of the file system.
fn mount_of(mounts: &str, number: u64) -> Option<Mount<'_>> {
    let wanted = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(&wanted))?;
    let (before, behind) = line.split_once(" - ")?;
    let mut fields = behind.split(' ');
    Some(Mount {
        options: before.split(' ').nth(5)?,
        kind: fields.next()?,
        source: fields.next()?,
        own_options: fields.next()?,
    })
}

#[cfg(test)]
mod tests {
    use super::{Device, DeviceBytes, Mount, mount_of, parse};

    #[test]
    fn a_mount_without_a_device_number_has_a_source() {
        let mounts = "1 2 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      3 1 0:45 /sub /data rw,noatime shared:1 master:2 - btrfs /dev/nvme0n1p2 rw\n";
        let wanted = Mount {
            options: "rw,noatime",
            kind: "btrfs",
            source: "/dev/nvme0n1p2",
            own_options: "rw",
        };
        assert_eq!(mount_of(mounts, 45), Some(wanted));
        assert_eq!(mount_of(mounts, 46), None);
        let here = Device::file_system(std::path::Path::new("/proc")).unwrap();
        assert!(here.starts_with("proc, mounted with rw"), "{here}");
    }

    #[test]
    fn a_memory_file_system_is_said_not_to_be_counted() {
        let warning = Device::uncounted(std::path::Path::new("/proc")).unwrap();
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
