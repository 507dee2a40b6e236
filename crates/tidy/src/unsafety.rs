//! Files that may hold `unsafe`, and a safety comment at each use.

use crate::repo::{Finding, Repo};
use crate::source::{Source, line_of, words};

/// Files that may hold `unsafe`: for memory that is mapped, aligned or shared without a lock, a
/// hint to the processor, a page that identifies a forked process, and the fork that tests it. A
/// path that ends in `*` stands for all paths with that prefix.
pub const ALLOWED: [&str; 11] = [
    "crates/storage/src/process.rs",
    "crates/cleavedb/tests/fork.rs",
    "crates/storage/src/prefetch.rs",
    "crates/storage/src/pages.rs",
    "crates/storage/src/mapped.rs",
    "crates/storage/src/window.rs",
    "crates/storage/src/disk/window.rs",
    "crates/storage/src/aligned.rs",
    "crates/storage/src/log/*",
    "crates/index/src/memtable*",
    "bench/peers/src/native/*",
];

/// Most lines between a `// SAFETY:` comment and its `unsafe`.
const DISTANCE_MAX: usize = 3;

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

/// `unsafe` blocks and implementations without a `// SAFETY:` comment right above.
pub fn arguments(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in &repo.sources {
        let comments: Vec<_> = source.comments.lines().map(str::trim).collect();
        for at in words(&source.code, "unsafe") {
            let line = line_of(&source.code, at);
            if needs_argument(source, at) && !has_argument(&comments, line) {
                found.push(Finding::new(
                    &source.path,
                    line,
                    "unsafe without `// SAFETY:` above it",
                ));
            }
        }
    }
    found
}

/// Whether the `unsafe` at `at` begins a block or an implementation, not a function or a type.
fn needs_argument(source: &Source, at: usize) -> bool {
    let rest = source.code[at + "unsafe".len()..].trim_start();
    rest.starts_with('{') || rest.starts_with("impl")
}

/// Whether a comment block that says `SAFETY:` ends at most [`DISTANCE_MAX`] lines above `line`.
fn has_argument(comments: &[&str], line: usize) -> bool {
    let above = &comments[..line - 1];
    let gap = above.iter().rev().take_while(|comment| comment.is_empty()).count();
    let mut block = above.iter().rev().skip(gap).take_while(|comment| !comment.is_empty());
    gap < DISTANCE_MAX && block.any(|comment| comment.starts_with("// SAFETY:"))
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

    #[test]
    fn unsafe_without_an_argument_is_found() {
        let argued = "// SAFETY: why,\n// at length.\nlet a =\n    b(\n    unsafe { c() });\n\
                      // SAFETY: as above.\nunsafe impl Send for A {}\nunsafe fn d() {}\n";
        assert_eq!(arguments(&Repo::of(&[(WINDOW, argued)])), []);
        let bare = "fn f() { unsafe { g() } }\n// Not an argument.\nunsafe { h() }\n\
                    // SAFETY: too far away.\n\n\n\nunsafe impl Send for A {}\n";
        assert_eq!(lines(arguments(&Repo::of(&[(WINDOW, bare)]))), [1, 3, 8]);
    }
}
