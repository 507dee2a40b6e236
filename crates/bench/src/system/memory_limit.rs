//! A limit on memory, page cache included: a control group of our own (version 1 of the interface).
//!
//! Data larger than memory is what a storage engine is for; without a limit a benchmark of a few
//! gibibytes measures the page cache. The process moves into a child of its own group and back when
//! the limit is dropped. A killed process cannot clean up, nor say what killed it, so a shell waits
//! for its end, however it comes, and does both.

use std::fmt::Display;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};

use crate::error::BenchError;
use crate::units;

/// Once standard input ends, says on standard error whether the kernel killed a process of the
/// group `$0` for its limit `$1`, and removes it; the kernel refuses while a process is leaving.
const SWEEP: &str = "\
    read end
    if grep -qs '^oom_kill [1-9]' \"$0/memory.oom_control\"; then
        echo \"KILLED BY THE MEMORY LIMIT of $1: give it more\" >&2
    fi
    for try in 1 2 3 4 5; do
        rmdir \"$0\" 2>/dev/null
        [ -d \"$0\" ] || exit 0
        sleep 1
    done";

/// A limit in force; dropped, it is lifted.
#[derive(Debug)]
pub struct MemoryLimit {
    group: PathBuf,
    parent: PathBuf,
    bytes: u64,
    /// Waits for this process to end; without a shell the group would stay behind a kill.
    sweeper: Option<Child>,
}

impl MemoryLimit {
    /// Limits this process, and what it caches, to `bytes`. The error says why it could not be and
    /// what a user can do instead.
    pub fn set(bytes: u64) -> Result<Self, String> {
        Self::try_set(bytes).map_err(|cause| {
            format!(
                "MEMORY IS NOT LIMITED ({cause}): data may fit the page cache, and cold reads may \
                 be warm. Needs root and the memory controller of cgroup v1; elsewhere run under \
                 `systemd-run --scope -p MemoryMax={bytes}`."
            )
        })
    }

    fn try_set(bytes: u64) -> io::Result<Self> {
        let memberships = fs::read_to_string("/proc/self/cgroup")?;
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let parent = group(&V1, &memberships, &mounts)
            .ok_or_else(|| io::Error::other("no memory controller in /proc/self"))?;
        let group = parent.join(format!("cleavedb-bench-{}", process::id()));
        fs::create_dir(&group)?;
        // From here on the drop of `limit` removes the group again, whatever fails.
        let sweeper = sweeper(&group, bytes).ok();
        let limit = Self { group, parent, bytes, sweeper };
        limit.write(bytes)?;
        fs::write(limit.group.join("cgroup.procs"), process::id().to_string())?;
        Ok(limit)
    }

    /// The limit, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Largest use since the last reset, page cache included, in bytes.
    pub fn peak(&self) -> Option<u64> {
        let text = fs::read_to_string(self.group.join("memory.max_usage_in_bytes")).ok()?;
        text.trim().parse().ok()
    }

    /// Takes the limit away; the group and its sums stay. Returns whether it could.
    pub fn lift(&self) -> bool {
        self.write("-1").is_ok()
    }

    /// Puts the limit in force again after [`lift`](Self::lift).
    pub fn impose(&self) -> Result<(), BenchError> {
        self.write(self.bytes).map_err(BenchError::io("limit memory by", &self.group))
    }

    fn write(&self, limit: impl Display) -> io::Result<()> {
        fs::write(self.group.join(V1.limit), limit.to_string())
    }

    /// Forgets the largest use so far.
    pub fn reset_peak(&self) -> bool {
        fs::write(self.group.join("memory.max_usage_in_bytes"), "0").is_ok()
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // What fails here, the sweeper tries again.
        let _ = fs::write(self.parent.join("cgroup.procs"), process::id().to_string());
        let _ = fs::write(self.group.join("memory.force_empty"), "0");
        let _ = fs::remove_dir(&self.group);
        if let Some(mut sweeper) = self.sweeper.take() {
            // Waiting closes its standard input, so that it ends.
            let _ = sweeper.wait();
        }
    }
}

/// Starts the shell that removes `group` when this process has ended, and says so if it was killed
/// for its `limit`. It has a process group of its own: an interrupt from the keyboard must not end
/// both.
fn sweeper(group: &Path, limit: u64) -> io::Result<Child> {
    Command::new("sh")
        .args(["-c", SWEEP])
        .arg(group)
        .arg(units::bytes(limit))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
}

/// The least limit that is in force on this process, whoever set it, if it is below `memory`, the
/// machine's: without a limit version 1 gives a number above that, and version 2 a word.
pub fn in_force(memory: u64) -> Option<u64> {
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let (memberships, mounts) = (text("/proc/self/cgroup"), text("/proc/self/mounts"));
    let limit = |version| {
        let path = group(version, &memberships, &mounts)?.join(version.limit);
        fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    [V1, V2].iter().filter_map(limit).filter(|limit| *limit < memory).min()
}

/// A version of control groups.
struct Version {
    /// Type of its mounts.
    mount: &'static str,
    /// What its lines in `/proc/self/cgroup`, and the options of its mount, name; version 2 names
    /// no controllers.
    controller: &'static str,
    /// File of the limit.
    limit: &'static str,
}

const V1: Version =
    Version { mount: "cgroup", controller: "memory", limit: "memory.limit_in_bytes" };
const V2: Version = Version { mount: "cgroup2", controller: "", limit: "memory.max" };

/// Directory of the process's memory group.
fn group(version: &Version, memberships: &str, mounts: &str) -> Option<PathBuf> {
    let own = membership(version, memberships)?.trim_start_matches('/');
    Some(Path::new(mount_point(version, mounts)?).join(own))
}

/// Path of the process's memory group below the mount point: lines are `id:controllers:path`.
fn membership<'a>(version: &Version, memberships: &'a str) -> Option<&'a str> {
    memberships.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|other| other == version.controller).then_some(path)
    })
}

/// Where the memory controller is mounted: fields are device, mount point, type, options.
fn mount_point<'a>(version: &Version, mounts: &'a str) -> Option<&'a str> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        let has = |controller: &str| options.split(',').any(|option| option == controller);
        let holds = version.controller.is_empty() || has(version.controller);
        (kind == version.mount && holds).then_some(point)
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{V1, V2, group, in_force};

    const MEMBERSHIPS: &str = "9:name=systemd:/\n4:cpu,memory:/a/b\n3:cpuset:/\n0::/c\n";
    const MOUNTS: &str = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                          cgroup2 /sys/unified cgroup2 rw 0 0\n\
                          cgroup /sys/cpu cgroup rw,cpu 0 0\n\
                          cgroup /sys/memory cgroup rw,relatime,memory 0 0\n";

    #[test]
    fn the_group_is_found_among_others() {
        let found = |version| group(version, MEMBERSHIPS, MOUNTS);
        assert_eq!(found(&V1).unwrap(), Path::new("/sys/memory/a/b"));
        assert_eq!(found(&V2).unwrap(), Path::new("/sys/unified/c"));
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        let unified = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        assert_eq!(group(&V1, "0::/user.slice\n", MOUNTS), None);
        assert_eq!(group(&V1, MEMBERSHIPS, unified), None);
        assert_eq!(group(&V2, "4:memory:/a\n", unified), None);
        assert_eq!(in_force(1), None, "no limit is below so little");
    }
}
