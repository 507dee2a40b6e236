//! The repository is not bound to one machine: it has no absolute paths and no registry hosts.

use crate::repo::{Finding, Repo};

/// Beginnings of paths that exist on one machine only. Split, so that this file does not hold them.
const MACHINE: [&str; 9] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/Us", "ers/"),
    concat!("/mn", "t/"),
    concat!("/me", "dia/"),
    concat!("/sr", "v/"),
    concat!("C:", "\\"),
    concat!("/tmp/", "target"),
];

/// Hosts that a link may name: sources of papers, documentation and code, and example names.
const HOSTS: [&str; 21] = [
    "github.com",
    "docs.rs",
    "doc.rust-lang.org",
    "www.rust-lang.org",
    "rust-lang.github.io",
    "www.usenix.org",
    "doi.org",
    "dl.acm.org",
    "ieeexplore.ieee.org",
    "link.springer.com",
    "www.mdpi.com",
    "arxiv.org",
    "en.wikipedia.org",
    "man7.org",
    "www.kernel.org",
    "www.w3.org",
    "jsonlines.org",
    "semver.org",
    "www.apache.org",
    "example.com",
    "localhost",
];

/// Settings that point a package manager at another registry. Split as above.
const REGISTRY: [&str; 8] = [
    concat!("replace", "-with"),
    concat!("index", "-url"),
    concat!("[sou", "rce."),
    concat!("[regis", "tries"),
    concat!("CARGO_REGIS", "TRIES"),
    concat!("PIP_IN", "DEX"),
    concat!("GOPR", "OXY"),
    concat!("sparse", "+http"),
];

/// The only source that the lock file may name.
const LOCK_SOURCE: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";

/// Absolute paths that exist on one machine only.
pub fn machine_paths(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, i, line) in lines(repo) {
        for start in MACHINE {
            let begins = |at: usize| {
                let before = line[..at].chars().next_back();
                !before.is_some_and(|c| c.is_alphanumeric() || "._-/}*".contains(c))
            };
            if line.match_indices(start).any(|(at, _)| begins(at)) {
                found.push(Finding::new(path, i, format!("a path of some machine ({start}..)")));
            }
        }
    }
    found
}

/// Hosts that are not on the list, and settings that choose a registry.
pub fn hosts(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, i, line) in lines(repo) {
        if path.ends_with("Cargo.lock") && line.starts_with("source = ") {
            if line != LOCK_SOURCE {
                found.push(Finding::new(path, i, "a source other than the public registry"));
            }
            continue;
        }
        for rest in line.split("://").skip(1) {
            let authority = rest.split(|c: char| !(c.is_alphanumeric() || ".-@".contains(c)));
            let host = authority.into_iter().next().unwrap_or("").trim_end_matches('.');
            if host.contains('.') && !HOSTS.contains(&host) {
                found.push(Finding::new(path, i, format!("the host {host} is not on the list")));
            }
        }
        for setting in REGISTRY {
            if line.contains(setting) {
                found.push(Finding::new(path, i, format!("a setting for a registry ({setting})")));
            }
        }
    }
    found
}

fn lines(repo: &Repo) -> impl Iterator<Item = (&String, usize, &str)> {
    repo.texts
        .iter()
        .flat_map(|(path, text)| text.lines().enumerate().map(move |(i, line)| (path, i + 1, line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_lines(found: Vec<Finding>) -> Vec<usize> {
        found.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_path_of_some_machine_is_found() {
        let (ours, theirs) = (concat!("/wo", "rk/main"), concat!("/ho", "me/me"));
        let text = format!("cd {ours}\nopen(\"{theirs}\")\ncrates{ours}\n/sys/fs/cgroup\n/tmp/x\n");
        assert_eq!(found_lines(machine_paths(&Repo::of(&[("a.md", &text)]))), [1, 2]);
        assert_eq!(found_lines(machine_paths(&Repo::of(&[(".ci/run", &text)]))), [1, 2]);
    }

    #[test]
    fn the_host_of_a_registry_is_found() {
        let scheme = "https://";
        let text = format!(
            "see {scheme}docs.rs/x and {scheme}github.com/a/b.\n{scheme}cr{ates}.example.net/x\n\
             export {proxy}=x\na::b://c\n",
            ates = "ates",
            proxy = REGISTRY[6],
        );
        assert_eq!(found_lines(hosts(&Repo::of(&[("a.md", &text)]))), [2, 3]);
        let lock = format!("{LOCK_SOURCE}\nsource = \"registry+{scheme}mirror.example.net/i\"\n");
        assert_eq!(found_lines(hosts(&Repo::of(&[("Cargo.lock", &lock)]))), [2]);
    }
}
