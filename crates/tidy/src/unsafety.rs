//! Files that may hold `unsafe`. Clippy asks for a safety comment at each use.

use crate::repo::{Finding, Repo};
use crate::source::{line_of, words};

/// Files that may hold `unsafe`: for memory that is mapped, aligned or shared without a lock, a
/// hint to the processor, a page that identifies a forked process, the fork that tests it, and for
/// what callers in C hold and lend, with one such caller. A path that ends in `*` stands for all
/// paths with that prefix.
pub const ALLOWED: [&str; 14] = [
    "crates/storage/src/process.rs",
    "crates/cleavedb/tests/engine/fork.rs",
    "crates/storage/src/prefetch.rs",
    "crates/storage/src/pages.rs",
    "crates/storage/src/mapped.rs",
    "crates/storage/src/window.rs",
    "crates/storage/src/disk/window.rs",
    "crates/storage/src/aligned.rs",
    "crates/storage/src/log/*",
    "crates/index/src/memtable*",
    "bench/peers/src/native/*",
    "crates/capi/examples/cost.rs",
    "crates/capi/src/handles.rs",
    "crates/capi/src/slices.rs",
];

/// `unsafe` in files that may not hold it.
pub fn places(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in repo.sources.iter().filter(|source| !allowed(&source.path)) {
        for at in words(&source.code, "unsafe") {
            let line = line_of(&source.code, at);
            found.push(Finding::new(
                &source.path,
                line,
                "unsafe in a file that is not on the list",
            ));
        }
    }
    found
}

fn allowed(path: &str) -> bool {
    ALLOWED.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => path == *pattern,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: &str = "crates/storage/src/window.rs";

    fn lines(found: Vec<Finding>) -> Vec<usize> {
        found.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn unsafe_outside_the_list_is_found() {
        let text = "// unsafe {}\nfn f() { unsafe { g() } }\n#![forbid(unsafe_code)]\n";
        for path in [WINDOW, "crates/index/src/memtable/arena.rs", "crates/storage/src/log/tail.rs"]
        {
            assert_eq!(places(&Repo::of(&[(path, text)])), [], "{path}");
        }
        for path in ["crates/index/src/block.rs", "crates/storage/src/logs.rs"] {
            assert_eq!(lines(places(&Repo::of(&[(path, text)]))), [2], "{path}");
        }
    }
}
