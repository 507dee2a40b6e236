//! How much memory this process may use: that of the machine, or less if it is in a control group.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

/// Memory of the machine, or of the tightest control group around this process, in bytes; `None` if
/// neither can be read. It is looked at once: the same options mean the same in a whole process.
pub fn memory() -> Option<u64> {
    static MEMORY: LazyLock<Option<u64>> =
        LazyLock::new(|| memory_by(&|path| fs::read_to_string(path).ok()));
    *MEMORY
}

/// As [`memory`], with files read by `read`.
fn memory_by(read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().flat_map(|line| {
        // A line is `ID:CONTROLLERS:PATH`; the one of version 2 has no controllers.
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next().unwrap_or("-"), fields.next().unwrap_or("/"));
        let (mount, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        };
        let counts = controllers.split(',').any(|name| name.is_empty() || name == "memory");
        let groups = Path::new(path).ancestors().filter(move |_| counts);
        // In a container its own group is the root of what is mounted.
        groups.filter_map(move |group| {
            let group = group.strip_prefix("/").unwrap_or(group);
            read(&Path::new(mount).join(group).join(file))?.trim().parse().ok()
        })
    });
    limits.chain(machine(read)).min()
}

fn machine(read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let text = read(Path::new("/proc/meminfo"))?;
    let kib = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.strip_suffix("kB"))?;
    Some(kib.trim().parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory_of(files: &[(&str, &str)]) -> Option<u64> {
        memory_by(&|path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    const MACHINE: (&str, &str) = ("/proc/meminfo", "MemTotal:       16000 kB\nMemFree: 1 kB\n");

    #[test]
    fn the_tightest_limit_counts() {
        assert_eq!(memory_of(&[]), None);
        assert_eq!(memory_of(&[MACHINE]), Some(16_000 << 10));
        let group = ("/proc/self/cgroup", "0::/system.slice/db.service\n");
        let outer = ("/sys/fs/cgroup/system.slice/memory.max", "5000000\n");
        let inner = ("/sys/fs/cgroup/system.slice/db.service/memory.max", "max\n");
        assert_eq!(memory_of(&[MACHINE, group, outer, inner]), Some(5_000_000));
        let container = [MACHINE, ("/proc/self/cgroup", "0::/\n")];
        let limit = ("/sys/fs/cgroup/memory.max", "4096000\n");
        assert_eq!(memory_of(&[container[0], container[1], limit]), Some(4_096_000));
    }

    #[test]
    fn groups_of_version_1_are_read_as_well() {
        let groups = ("/proc/self/cgroup", "3:cpu,cpuacct:/x\n2:memory:/docker/1\n");
        let of_limit = |limit| {
            let file = "/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes";
            memory_of(&[MACHINE, groups, (file, limit)])
        };
        assert_eq!(of_limit("123456\n"), Some(123_456));
        assert_eq!(of_limit("9223372036854771712\n"), Some(16_000 << 10));
    }
}
