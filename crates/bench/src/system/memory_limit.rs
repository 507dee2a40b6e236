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
        let own = membership(&memberships)
            .ok_or_else(|| io::Error::other("no memory controller in /proc/self/cgroup"))?;
        let root = mount_point(&mounts)
            .ok_or_else(|| io::Error::other("the memory controller is not mounted"))?;
        let parent = Path::new(root).join(own.trim_start_matches('/'));
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
        fs::write(self.group.join("memory.limit_in_bytes"), limit.to_string())
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

/// Path of the process's memory group below the mount point: lines are `id:controllers:path`.
fn membership(memberships: &str) -> Option<&str> {
    memberships.lines().find_map(|line| {
        let (_, line) = line.split_once(':')?;
        let (controllers, path) = line.split_once(':')?;
        controllers.split(',').any(|controller| controller == "memory").then_some(path)
    })
}

/// Where the memory controller is mounted: fields are device, mount point, type, options.
fn mount_point(mounts: &str) -> Option<&str> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, point) = (fields.next()?, fields.next()?);
        let (kind, options) = (fields.next()?, fields.next()?);
        let memory = options.split(',').any(|option| option == "memory");
        (kind == "cgroup" && memory).then_some(point)
    })
}

#[cfg(test)]
mod tests {
    use super::{membership, mount_point};

    #[test]
    fn the_group_is_found_among_others() {
        let memberships = "9:name=systemd:/\n4:memory:/a/b\n3:cpuset:/\n0::/\n";
        assert_eq!(membership(memberships), Some("/a/b"));
        assert_eq!(membership("0::/user.slice\n"), None);
    }

    #[test]
    fn the_mount_is_found_among_others() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n";
        assert_eq!(mount_point(mounts), Some("/sys/fs/cgroup/memory"));
        assert_eq!(mount_point("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"), None);
    }
}
