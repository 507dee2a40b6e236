//! The order of modules: bottom first in each crate, with every file declared.
//!
//! `lib.rs` (or `main.rs`) lists the modules of its crate bottom first, and a module names only
//! modules listed before it. Inside a folder the same holds for the list in its `mod.rs`; a file in
//! a folder may also name its own `mod.rs`, and `mod.rs` its own files. Tests may name anything.

use std::collections::BTreeSet;

use crate::paths::{CodePath, local_paths};
use crate::repo::{Finding, Repo};
use crate::tree::{Tree, roots};

/// Most modules that a list of the database's crate has, those of tests not counted.
pub const LIST_MAX: usize = 15;

/// Lists with too many modules for a reader to keep in mind.
pub fn crowded(repo: &Repo) -> Vec<Finding> {
    let tree = Tree::grow(repo, "crates/cleavedb/src/lib.rs");
    let crowd = tree.modules.iter().filter_map(|(own, module)| {
        let is_product =
            |name: &&String| !tree.modules[&[own, &[(*name).clone()][..]].concat()].test;
        let modules = module.children.iter().filter(is_product).count();
        let what = || format!("lists {modules} modules, at most {LIST_MAX}");
        (modules > LIST_MAX).then(|| Finding::new(&module.file, 0, what()))
    });
    crowd.collect()
}

/// Modules that name one listed after them, or an item of the crate's root.
pub fn modules(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    if repo.texts.get("rustfmt.toml").is_some_and(|t| !t.contains("reorder_modules = false")) {
        let what = "has no `reorder_modules = false`: `cargo fmt` would sort the lists by name";
        found.push(Finding::new("rustfmt.toml", 0, what));
    }
    for root in crates(repo).iter().flat_map(|folder| roots(repo, folder)) {
        if root.contains("/src/") {
            check(repo, &Tree::grow(repo, &root), &mut found);
        }
    }
    found
}

/// Rust files that no `mod` declaration reaches.
pub fn orphans(repo: &Repo) -> Vec<Finding> {
    let mut reached = BTreeSet::new();
    for root in crates(repo).iter().flat_map(|folder| roots(repo, folder)) {
        let tree = Tree::grow(repo, &root);
        reached.extend(tree.modules.into_values().map(|module| module.file));
    }
    let files = repo.sources.iter().map(|source| &source.path);
    let lost = files.filter(|path| !reached.contains(*path));
    lost.map(|path| Finding::new(path, 0, "no module declares this file")).collect()
}

/// Folders with a manifest.
fn crates(repo: &Repo) -> Vec<String> {
    let manifests = repo.texts.keys().filter_map(|path| path.strip_suffix("/Cargo.toml"));
    manifests.map(str::to_owned).collect()
}

fn check(repo: &Repo, tree: &Tree, found: &mut Vec<Finding>) {
    for (own, module) in &tree.modules {
        let Some(source) = repo.source(&module.file).filter(|_| !module.test && !own.is_empty())
        else {
            continue;
        };
        for path in local_paths(source.product_code()) {
            let Some(target) = absolute(own, &path) else { continue };
            let Some(what) = problem(tree, own, &target, path.called_macro) else { continue };
            let known = |finding: &Finding| finding.path == module.file && finding.what == what;
            if !found.iter().any(known) {
                found.push(Finding::new(&module.file, path.line, what));
            }
        }
    }
}

/// The segments of `path`, as seen from module `own`, as a path from the root of the crate.
fn absolute(own: &[String], path: &CodePath) -> Option<Vec<String>> {
    let supers = path.segments.iter().take_while(|segment| *segment == "super").count();
    let (base, rest) = match path.segments.first().map(String::as_str) {
        Some("crate") => (&own[..0], &path.segments[1..]),
        Some("self") => (own, &path.segments[1..]),
        Some("super") => (&own[..own.len().checked_sub(supers)?], &path.segments[supers..]),
        _ => return None,
    };
    Some([base, rest].concat())
}

/// The violation, if `own` must not name `target`.
fn problem(tree: &Tree, own: &[String], target: &[String], called_macro: bool) -> Option<String> {
    let Named::Module(named) = resolve(tree, target, 0) else { return None };
    if named.is_empty() {
        let item = target.first().filter(|_| !called_macro)?;
        return Some(format!("names crate::{item}, which the root defines: move it to a module"));
    }
    if own.starts_with(&named) || named.starts_with(own) {
        return None;
    }
    let fork = own.iter().zip(&named).take_while(|(a, b)| a == b).count();
    let siblings = &tree.modules.get(&own[..fork])?.children;
    let place = |name: &String| siblings.iter().position(|sibling| sibling == name);
    if place(&named[fork]) < place(&own[fork]) {
        return None;
    }
    let (lower, list) = (named[..=fork].join("::"), &tree.modules[&own[..fork]].file);
    Some(format!("names {lower}, which {list} lists after {}", own[..=fork].join("::")))
}

/// The target of a path.
enum Named {
    /// An item of this module.
    Module(Vec<String>),
    /// Outside of the crate.
    Outside,
}

/// Follows `target` through modules and re-exports.
fn resolve(tree: &Tree, target: &[String], depth: u32) -> Named {
    let mut at: Vec<String> = Vec::new();
    for (i, segment) in target.iter().enumerate() {
        let Some(module) = tree.modules.get(&at) else { break };
        if module.children.contains(segment) {
            at.push(segment.clone());
            continue;
        }
        let named = module.reexports.iter().find(|path| {
            path.alias.as_ref().or(path.segments.last()).is_some_and(|name| name == segment)
        });
        if let Some(path) = named.filter(|_| depth < 8) {
            let local = path.segments.first().is_some_and(|first| module.children.contains(first));
            let full = match absolute(&at, path) {
                Some(full) => full,
                None if local => [&at[..], &path.segments[..]].concat(),
                None => return Named::Outside,
            };
            return resolve(tree, &[&full[..], &target[i + 1..]].concat(), depth + 1);
        }
        break;
    }
    Named::Module(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "pub mod low;\npub mod mid;\npub mod high;\npub use low::Low;\n\
                       pub use high::High;\npub use std::fmt::Debug;\npub struct Here;\n";

    fn found(mid: &str) -> Vec<String> {
        let repo = Repo::of(&[
            ("crates/a/Cargo.toml", ""),
            ("crates/a/src/lib.rs", LIB),
            ("crates/a/src/low.rs", ""),
            ("crates/a/src/mid/mod.rs", "mod first;\nmod second;\npub struct Mid;\n"),
            ("crates/a/src/mid/first.rs", ""),
            ("crates/a/src/mid/second.rs", mid),
            ("crates/a/src/high.rs", ""),
        ]);
        modules(&repo).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_module_may_name_what_is_listed_before_it() {
        let fine = "use crate::{low::Low, Debug, mid::Mid};\nuse super::{Mid, first::F};\n\
                    use super::super::low;\nfn f() { crate::Low::new(); crate::my_macro!(); }\n\
                    #[cfg(test)]\nmod tests {\n    use crate::high;\n}\n";
        assert_eq!(found(fine), Vec::<String>::new());
    }

    #[test]
    fn a_module_that_names_a_later_one_is_found() {
        let later = "names high, which crates/a/src/lib.rs lists after mid";
        for text in
            ["use crate::high::A;", "use crate::High;", "fn f() { super::super::high::g() }"]
        {
            assert_eq!(found(text), [later], "{text}");
        }
        for first in ["use super::b::B;\nuse super::b::C;", "use super::B;"] {
            let repo = Repo::of(&[
                ("crates/a/Cargo.toml", ""),
                ("crates/a/src/lib.rs", "mod x;"),
                ("crates/a/src/x/mod.rs", "mod a;\nmod b;\npub use b::B;"),
                ("crates/a/src/x/a.rs", first),
                ("crates/a/src/x/b.rs", ""),
            ]);
            let found: Vec<_> = modules(&repo).into_iter().map(|finding| finding.line).collect();
            assert_eq!(found, [1], "siblings in a folder have an order too, reported once");
        }
    }

    #[test]
    fn an_item_of_the_root_is_found() {
        let found = found("use crate::Here;");
        assert_eq!(found, ["names crate::Here, which the root defines: move it to a module"]);
    }

    #[test]
    fn a_formatter_that_sorts_the_lists_is_found() {
        let sorting = Repo::of(&[("rustfmt.toml", "max_width = 100\n")]);
        assert_eq!(modules(&sorting).len(), 1);
        assert_eq!(modules(&Repo::of(&[("rustfmt.toml", "reorder_modules = false\n")])), []);
    }

    #[test]
    fn a_crowded_list_is_found() {
        let names: Vec<_> = (0..=LIST_MAX).map(|number| format!("m{number}")).collect();
        let files: Vec<_> =
            names.iter().map(|name| format!("crates/cleavedb/src/x/{name}.rs")).collect();
        let crowd_of = |modules: usize| {
            let list: String =
                names[..modules].iter().map(|name| format!("mod {name};\n")).collect();
            let mut all = vec![
                ("crates/cleavedb/src/lib.rs", "mod x;"),
                ("crates/cleavedb/src/x/mod.rs", &list),
            ];
            all.extend(files.iter().map(|file| (file.as_str(), "")));
            crowded(&Repo::of(&all)).len()
        };
        assert_eq!((crowd_of(LIST_MAX), crowd_of(LIST_MAX + 1)), (0, 1));
    }

    #[test]
    fn a_forgotten_file_is_found() {
        let repo = Repo::of(&[
            ("crates/a/Cargo.toml", ""),
            ("crates/a/src/lib.rs", "mod used;\n// mod lost;\n"),
            ("crates/a/src/used.rs", ""),
            ("crates/a/src/lost.rs", ""),
            ("crates/a/tests/t.rs", "mod common;"),
            ("crates/a/tests/common/mod.rs", ""),
            ("loose.rs", ""),
        ]);
        let found: Vec<_> = orphans(&repo).into_iter().map(|finding| finding.path).collect();
        assert_eq!(found, ["crates/a/src/lost.rs", "loose.rs"]);
    }
}
