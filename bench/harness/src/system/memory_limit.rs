//! A limit on memory, page cache included: a control group of our own.
//!
//! Data larger than memory is what a storage engine is for; without a limit a benchmark of a few
//! gibibytes measures the page cache. The process moves into a group of its own and back when the
//! limit is dropped. A killed process cannot clean up, nor say what killed it, so a shell waits for
//! its end, however it comes, and does both.
//!
//! The group is a child of the process's own in version 1 of the interface. In version 2 a group
//! that hands on a controller holds no processes itself, so ours is a child of the nearest one
//! above that hands on memory.

use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::BenchError;
use crate::units;

/// How what is said of a process that the kernel killed for its limit begins.
pub(crate) const KILLED: &str = "KILLED BY THE MEMORY LIMIT";

/// Once standard input ends, says on standard error whether the kernel killed a process of the
/// group `$0` for its limit `$1`, by the count in its file `$2`, in words that begin with `$3`, and
/// removes it; the kernel refuses while a process is leaving.
const SWEEP: &str = "\
    read end
    if grep -qs '^oom_kill [1-9]' \"$0/$2\"; then
        echo \"$3 of $1: give it more\" >&2
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
    /// The group that the process came from.
    home: PathBuf,
    version: &'static Version,
    bytes: u64,
    /// The largest use. Version 2 resets it only for reads through the same open file.
    peak: Option<File>,
    /// Whether the largest use is that since the last reset.
    is_fresh: AtomicBool,
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
                 be warm. Needs root, or a control group that is the user's own; else run under \
                 `systemd-run --scope -p MemoryMax={bytes}`."
            )
        })
    }

    fn try_set(bytes: u64) -> io::Result<Self> {
        let memberships = fs::read_to_string("/proc/self/cgroup")?;
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        // A machine may have both versions, and the memory controller in either.
        let places = [&V1, &V2].into_iter().filter_map(|version| {
            let home = group(version, &memberships, &mounts)?;
            Some((version, parent(version, &home)?, home))
        });
        let (version, parent, home) = places.into_iter().next().ok_or_else(|| {
            io::Error::other("no group above this process has the memory controller")
        })?;
        let group = parent.join(format!("cleavedb-bench-{}", process::id()));
        fs::create_dir(&group)?;
        // From here on the drop of `limit` removes the group again, whatever fails.
        let sweeper = sweeper(version, &group, bytes).ok();
        let peak = OpenOptions::new().read(true).write(true).open(group.join(version.peak)).ok();
        let is_fresh = AtomicBool::new(true);
        let limit = Self { group, home, version, bytes, peak, is_fresh, sweeper };
        limit.write(bytes)?;
        fs::write(limit.group.join("cgroup.procs"), process::id().to_string())?;
        Ok(limit)
    }

    /// The limit, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Largest use since the last reset, page cache included, in bytes; `None` if the kernel does
    /// not tell. Before Linux 6.12 version 2 cannot reset it.
    pub fn peak(&self) -> Option<u64> {
        let mut text = [0; 32];
        let len = self.peak.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..len]).ok()?;
        text.trim().parse().ok().filter(|_| self.is_fresh.load(Ordering::Relaxed))
    }

    /// Takes the limit away; the group and its sums stay. Returns whether it could.
    pub fn lift(&self) -> bool {
        self.write(self.version.unlimited).is_ok()
    }

    /// Puts the limit in force again after [`lift`](Self::lift).
    pub fn impose(&self) -> Result<(), BenchError> {
        self.write(self.bytes).map_err(BenchError::io("limit memory by", &self.group))
    }

    fn write(&self, limit: impl Display) -> io::Result<()> {
        fs::write(self.group.join(self.version.limit), limit.to_string())
    }

    /// Forgets the largest use so far.
    pub fn reset_peak(&self) {
        let reset = self.peak.as_ref().is_some_and(|peak| peak.write_at(b"0", 0).is_ok());
        self.is_fresh.store(reset, Ordering::Relaxed);
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // What fails here, the sweeper tries again.
        let _ = fs::write(self.home.join("cgroup.procs"), process::id().to_string());
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
fn sweeper(version: &Version, group: &Path, limit: u64) -> io::Result<Child> {
    Command::new("sh")
        .args(["-c", SWEEP])
        .arg(group)
        .arg(units::bytes(limit))
        .arg(version.events)
        .arg(KILLED)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
}

/// The least limit that is in force on this process, set by it or from outside, if it is below
/// `memory`, the machine's: without a limit version 1 gives a number above that, and version 2 a
/// word.
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
#[derive(Debug)]
struct Version {
    /// Type of its mounts.
    mount: &'static str,
    /// What its lines in `/proc/self/cgroup`, and the options of its mount, name; version 2 names
    /// no controllers.
    controller: &'static str,
    /// File of the limit.
    limit: &'static str,
    /// What that file holds without one.
    unlimited: &'static str,
    /// File of the largest use.
    peak: &'static str,
    /// File that counts what the kernel killed.
    events: &'static str,
}

const V1: Version = Version {
    mount: "cgroup",
    controller: "memory",
    limit: "memory.limit_in_bytes",
    unlimited: "-1",
    peak: "memory.max_usage_in_bytes",
    events: "memory.oom_control",
};
const V2: Version = Version {
    mount: "cgroup2",
    controller: "",
    limit: "memory.max",
    unlimited: "max",
    peak: "memory.peak",
    events: "memory.events",
};

/// The group below which one of ours may stand, for a process that is in `home`.
fn parent(version: &Version, home: &Path) -> Option<PathBuf> {
    if version.mount == V1.mount {
        return Some(home.to_owned());
    }
    let hands_on = |group: &&Path| {
        let controllers = fs::read_to_string(group.join("cgroup.subtree_control"));
        controllers.is_ok_and(|names| names.split_whitespace().any(|name| name == "memory"))
    };
    // The root alone may hold processes as well.
    home.ancestors()
        .skip(1)
        .find(hands_on)
        .or_else(|| Some(home).filter(hands_on))
        .map(Path::to_owned)
}

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
    use std::fs;
    use std::path::Path;

    use super::{V1, V2, group, in_force, parent};

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
    fn a_group_stands_below_one_that_hands_on_memory() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join("user.slice/session.scope");
        fs::create_dir_all(&own).unwrap();
        assert_eq!(parent(&V1, &own), Some(own.clone()));
        assert_eq!(parent(&V2, &own), None);
        let hand_on = |group: &Path, names: &str| {
            fs::write(group.join("cgroup.subtree_control"), names).unwrap();
        };
        hand_on(home.path(), "cpu memory pids\n");
        hand_on(&home.path().join("user.slice"), "cpu pids\n");
        assert_eq!(parent(&V2, &own).unwrap(), home.path());
        assert_eq!(parent(&V2, home.path()).unwrap(), home.path(), "the root");
        hand_on(&home.path().join("user.slice"), "memory\n");
        assert_eq!(parent(&V2, &own).unwrap(), home.path().join("user.slice"));
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
