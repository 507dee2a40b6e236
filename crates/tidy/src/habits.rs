//! Habits in code: the opening of a file, unfinished work, code in comments, glob imports.

use crate::repo::{Finding, Repo};
use crate::source::{line_of, words};

/// Files that do not open with a `//!` comment.
pub fn openings(repo: &Repo) -> Vec<Finding> {
    let bad = repo.sources.iter().filter(|source| !source.text.starts_with("//! "));
    bad.map(|source| Finding::new(&source.path, 1, "does not open with a `//!` comment")).collect()
}

/// Placeholders in code, and notes of unfinished work in comments.
pub fn unfinished(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in &repo.sources {
        for name in ["todo", "unimplemented"] {
            for at in words(&source.code, name) {
                if source.code[at + name.len()..].starts_with('!') {
                    let line = line_of(&source.code, at);
                    found.push(Finding::new(&source.path, line, format!("{name}! in code")));
                }
            }
        }
        for note in ["TODO", "FIXME", "XXX"] {
            for at in words(&source.comments, note) {
                let line = line_of(&source.comments, at);
                found.push(Finding::new(&source.path, line, format!("{note} in a comment")));
            }
        }
    }
    found
}

/// Plain comments that look like code: a line ends in `;` or `{`, or is a lone `}`.
pub fn commented_out(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in &repo.sources {
        for (i, line) in source.comments.lines().enumerate() {
            let Some(text) = line.trim().strip_prefix("//") else { continue };
            if text.starts_with(['/', '!']) {
                continue; // Documentation may hold examples.
            }
            if text.ends_with([';', '{']) || text.trim() == "}" {
                found.push(Finding::new(&source.path, i + 1, "looks like commented-out code"));
            }
        }
    }
    found
}

/// `use crate::..::*` anywhere, and `use super::*` or `use self::*` outside tests.
pub fn globs(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in &repo.sources {
        let product = source.product_code().len();
        for at in words(&source.code, "use") {
            let rest = source.code[at + 3..].trim_start();
            let Some(path) = rest.split(';').next() else { continue };
            if !path.contains('*') {
                continue;
            }
            let of_crate = path.starts_with("crate::");
            let of_module = path.starts_with("super::") || path.starts_with("self::");
            if of_crate || (of_module && at < product) {
                let what = format!("glob import `use {path}`");
                found.push(Finding::new(&source.path, line_of(&source.code, at), what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(found: Vec<Finding>) -> Vec<usize> {
        found.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_file_without_an_opening_comment_is_found() {
        assert_eq!(openings(&Repo::of(&[("x.rs", "//! What it is.\n")])), []);
        assert_eq!(lines(openings(&Repo::of(&[("x.rs", "use std::fmt;\n//! Late.\n")]))), [1]);
        assert_eq!(lines(openings(&Repo::of(&[("x.rs", "")]))), [1]);
    }

    #[test]
    fn unfinished_work_is_found() {
        let text = "fn f() {\n    todo!()\n}\n// a TODO\n/// FIXME: b\n/* XXX */\n\
                    fn g() { unimplemented!(\"TODO\") }\nfn todo() { let s = \"TODO todo!()\"; }\n";
        let mut found = lines(unfinished(&Repo::of(&[("x.rs", text)])));
        found.sort_unstable();
        assert_eq!(found, [2, 4, 5, 6, 7]);
    }

    #[test]
    fn commented_out_code_is_found() {
        let text = "// let a = 1;\n// if a {\n// }\n// a sentence.\n/// let b = 1;\nlet c; // x;\n";
        assert_eq!(lines(commented_out(&Repo::of(&[("x.rs", text)]))), [1, 2, 3, 6]);
    }

    #[test]
    fn a_glob_import_is_found() {
        let text = "use crate::*;\nuse super::*;\nuse crate::a::{b, c::*};\nuse std::io::*;\n\n\
                    #[cfg(test)]\nmod tests {\n    use super::*;\n    use crate::*;\n}\n";
        assert_eq!(lines(globs(&Repo::of(&[("crates/a/src/x.rs", text)]))), [1, 2, 3, 9]);
        assert_eq!(globs(&Repo::of(&[("crates/a/src/tests.rs", "use super::*;")])), []);
    }
}
