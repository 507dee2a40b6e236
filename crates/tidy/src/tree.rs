//! The modules of a crate, from their `mod` declarations and the folders.

use std::collections::BTreeMap;

use crate::paths::{CodePath, reexports};
use crate::repo::Repo;
use crate::source::Source;

/// A module and its file.
pub struct Module {
    /// The file of the module, from the root of the repository.
    pub file: String,
    /// The module's `mod x;` declarations, in the order in which they are listed.
    pub children: Vec<String>,
    /// Whether it is compiled for tests only.
    pub test: bool,
    /// The targets of its `pub use` declarations.
    pub reexports: Vec<CodePath>,
}

/// The modules of one target (a library, a binary, a test), by path; the root has the empty path.
pub struct Tree {
    /// See [`Tree`].
    pub modules: BTreeMap<Vec<String>, Module>,
}

impl Tree {
    /// The tree with the root file `root`.
    pub fn grow(repo: &Repo, root: &str) -> Self {
        let mut tree = Self { modules: BTreeMap::new() };
        tree.add(repo, Vec::new(), root, false);
        tree
    }

    fn add(&mut self, repo: &Repo, path: Vec<String>, file: &str, test: bool) {
        let Some(source) = repo.source(file) else { return };
        let declared = declarations(source);
        let test = test || source.is_test_file();
        let folder = folder_of(file, path.is_empty());
        for (name, for_tests) in &declared {
            let candidates = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")];
            if let Some(child) = candidates.iter().find(|child| repo.has(child)) {
                let mut child_path = path.clone();
                child_path.push(name.clone());
                self.add(repo, child_path, child, test || *for_tests);
            }
        }
        let children = declared.into_iter().map(|(name, _)| name).collect();
        let reexports = reexports(&source.code);
        self.modules.insert(path, Module { file: file.to_owned(), children, test, reexports });
    }
}

/// The folder in which the children of the module in `file` lie.
fn folder_of(file: &str, root: bool) -> String {
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    match name.strip_suffix(".rs") {
        Some(stem) if !root && stem != "mod" => format!("{folder}/{stem}"),
        _ => folder.to_owned(),
    }
}

/// The `mod x;` declarations of a file, each with whether it is for tests only.
fn declarations(source: &Source) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let mut for_tests = false;
    for line in source.code.lines() {
        let mut line = line.trim();
        while let Some((attribute, rest)) =
            line.strip_prefix("#[").and_then(|rest| rest.split_once(']'))
        {
            for_tests |= attribute.starts_with("cfg(test") || attribute.starts_with("cfg(all(test");
            line = rest.trim_start();
        }
        if line.is_empty() {
            continue;
        }
        if let Some(name) = declared(line) {
            found.push((name.to_owned(), for_tests));
        }
        for_tests = false;
    }
    found
}

/// The name that a line `mod x;`, with any visibility, declares.
fn declared(line: &str) -> Option<&str> {
    let mut rest = line;
    if let Some(public) = line.strip_prefix("pub") {
        rest = match public.strip_prefix('(') {
            Some(restricted) => restricted.split_once(')')?.1,
            None => public,
        };
    }
    rest.trim_start().strip_prefix("mod ")?.strip_suffix(';').map(str::trim)
}

/// Root files of the targets of the crate in `folder`: those that cargo finds by itself, and every
/// `path = ".."` of the manifest.
pub fn roots(repo: &Repo, folder: &str) -> Vec<String> {
    let manifest = repo.texts.get(&format!("{folder}/Cargo.toml"));
    let named: Vec<String> = manifest
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.trim().strip_prefix("path")?.trim_start().strip_prefix('='))
        .map(|value| format!("{folder}/{}", value.trim().trim_matches('"')))
        .collect();
    let is_root = |path: &str| {
        let Some(inside) = path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')) else {
            return false;
        };
        let parts: Vec<_> = inside.split('/').collect();
        match parts[..] {
            ["build.rs"] | ["src", "lib.rs" | "main.rs"] => true,
            ["src", "bin", name] | ["tests" | "benches" | "examples", name] => {
                name.ends_with(".rs")
            }
            ["src", "bin", _, name] | ["tests" | "benches" | "examples", _, name] => {
                name == "main.rs"
            }
            _ => false,
        }
    };
    let paths = repo.sources.iter().map(|source| &source.path);
    paths.filter(|path| is_root(path) || named.contains(path)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_follows_the_declarations() {
        let repo = Repo::of(&[
            ("crates/a/src/lib.rs", "pub mod x;\npub(crate) mod y;\n#[cfg(test)]\nmod tests;\n"),
            ("crates/a/src/x.rs", "#[cfg(test)] mod tests;\nmod inner;\nmod inline { }\n"),
            ("crates/a/src/x/inner.rs", ""),
            ("crates/a/src/x/tests.rs", ""),
            ("crates/a/src/y/mod.rs", "pub mod z;\n"),
            ("crates/a/src/y/z.rs", ""),
            ("crates/a/src/tests.rs", ""),
        ]);
        let tree = Tree::grow(&repo, "crates/a/src/lib.rs");
        let listed: Vec<_> =
            tree.modules.iter().map(|(path, m)| (path.join("::"), m.test)).collect();
        let expected = [
            ("", false),
            ("tests", true),
            ("x", false),
            ("x::inner", false),
            ("x::tests", true),
            ("y", false),
            ("y::z", false),
        ];
        assert_eq!(listed, expected.map(|(path, test)| (path.to_owned(), test)));
        assert_eq!(tree.modules[&Vec::new()].children, ["x", "y", "tests"]);
    }

    #[test]
    fn roots_are_found() {
        let repo = Repo::of(&[
            ("crates/a/Cargo.toml", "[[bin]]\npath = \"fuzz/one.rs\"\n"),
            ("crates/a/src/lib.rs", ""),
            ("crates/a/src/x.rs", ""),
            ("crates/a/src/bin/tool.rs", ""),
            ("crates/a/tests/t.rs", ""),
            ("crates/a/tests/common/mod.rs", ""),
            ("crates/a/fuzz/one.rs", ""),
        ]);
        assert_eq!(
            roots(&repo, "crates/a"),
            [
                "crates/a/fuzz/one.rs",
                "crates/a/src/bin/tool.rs",
                "crates/a/src/lib.rs",
                "crates/a/tests/t.rs"
            ]
        );
    }
}
