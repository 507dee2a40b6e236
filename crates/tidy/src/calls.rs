//! Calls between files that no import shows: a type with methods in several files.
//!
//! Where each file has an `impl` block of one type, a method calls another by `self.name()` without
//! naming its file. So files may call each other in a cycle, whatever the order of modules. Here
//! such a call counts as a use of the file with the method, as an import does.

use std::collections::{BTreeMap, BTreeSet};

use crate::impls::blocks;
use crate::paths::local_paths;
use crate::repo::Repo;
use crate::source::{Source, is_word};

/// Files of one crate that reach each other by calls and imports.
pub type Cycle = BTreeSet<String>;

/// The files of the methods of a crate, by type and name; types are spelled like fields of them.
type Methods<'a> = BTreeMap<(String, &'a str), BTreeSet<&'a str>>;

/// The cycles of files in each crate, of two files or more, the largest first.
pub fn cycles(repo: &Repo) -> Vec<Cycle> {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in &repo.sources {
        if let Some((folder, _)) = source.path.split_once("/src/") {
            crates.entry(folder).or_default().push(source);
        }
    }
    let mut found: Vec<Cycle> = crates.values().flat_map(|sources| of_crate(sources)).collect();
    found.sort_by_key(|cycle| std::cmp::Reverse(cycle.len()));
    found
}

fn of_crate(sources: &[&Source]) -> Vec<Cycle> {
    let product = || sources.iter().filter(|source| !source.is_test_file());
    let mut methods = Methods::new();
    for source in product() {
        for block in blocks(source.product_code()) {
            for name in functions(&source.product_code()[block.body.clone()]) {
                methods.entry((snake(block.of), name)).or_default().insert(&source.path);
            }
        }
    }
    let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for source in product() {
        let used = uses.entry(&source.path).or_default();
        used.extend(called(source, &methods));
        used.extend(imported(source, sources));
        used.remove(&*source.path);
    }
    circles(&uses)
}

/// Names of the functions in the body of a block.
fn functions(body: &str) -> impl Iterator<Item = &str> {
    body.match_indices("fn ").filter_map(|(at, _)| {
        let begins = body[..at].chars().next_back().is_none_or(|c| !is_word(c));
        let name = body[at + 3..].split(|c| !is_word(c)).next()?;
        (begins && !name.is_empty()).then_some(name)
    })
}

/// A type's name as a field or variable of it is called.
fn snake(of: &str) -> String {
    let mut name = String::new();
    for c in of.chars() {
        if c.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(c.to_lowercase());
    }
    name
}

/// The files with the methods that a file calls: by `self` those of the type of the block, by a
/// field, a variable or a getter those of the type with that name.
fn called<'a>(source: &Source, methods: &Methods<'a>) -> BTreeSet<&'a str> {
    let code = source.product_code();
    let blocks = blocks(code);
    let mut found = BTreeSet::new();
    for (dot, _) in code.match_indices('.') {
        let name = code[dot + 1..].split(|c| !is_word(c)).next().unwrap_or("");
        if name.is_empty() || !code[dot + 1 + name.len()..].starts_with('(') {
            continue;
        }
        let receiver = code[..dot].trim_end().trim_end_matches("()");
        let receiver = receiver.rsplit(|c| !is_word(c)).next().unwrap_or("");
        let block = || blocks.iter().find(|block| block.body.contains(&dot));
        let of = match receiver {
            "self" => block().map(|block| snake(block.of)),
            named => Some(named.to_owned()),
        };
        found.extend(of.and_then(|of| methods.get(&(of, name))).into_iter().flatten().copied());
    }
    found
}

/// The files that a file imports from its crate.
fn imported<'a>(source: &Source, sources: &[&'a Source]) -> BTreeSet<&'a str> {
    let Some((folder, _)) = source.path.split_once("/src/") else { return BTreeSet::new() };
    let named: BTreeSet<String> = local_paths(source.product_code())
        .into_iter()
        .filter(|path| path.segments.first().is_some_and(|first| first == "crate"))
        .filter_map(|path| path.segments.get(1).cloned())
        .flat_map(|name| [format!("{folder}/src/{name}.rs"), format!("{folder}/src/{name}/mod.rs")])
        .collect();
    let paths = sources.iter().map(|source| &*source.path);
    paths.filter(|path| named.contains(*path)).collect()
}

/// The sets of files that reach each other.
fn circles(uses: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<Cycle> {
    let reached = |from: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(file) = next.pop() {
            for used in uses.get(&*file).into_iter().flatten() {
                if seen.insert((*used).to_owned()) {
                    next.push((*used).to_owned());
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&str, BTreeSet<String>> =
        uses.keys().map(|file| (*file, reached(file))).collect();
    let mut found: BTreeSet<Cycle> = BTreeSet::new();
    for (file, reaches) in &reach {
        let back = |other: &&String| reach.get(&***other).is_some_and(|r| r.contains(*file));
        let cycle: Cycle = reaches.iter().filter(back).cloned().collect();
        if cycle.len() > 1 {
            found.insert(cycle);
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let cycles = cycles(&Repo::of(files));
        cycles.into_iter().map(|cycle| cycle.into_iter().collect()).collect()
    }

    #[test]
    fn files_that_call_each_other_by_a_type_of_both_are_found() {
        let up = "impl Engine {\n    fn up(&self) {\n        self.down();\n    }\n}\n";
        let a = ("crates/a/src/a.rs", up);
        let b = ("crates/a/src/b.rs", "impl<'a> Engine {\n    fn down(&self) { self.up(); }\n}\n");
        assert_eq!(found(&[a, b]), [["crates/a/src/a.rs", "crates/a/src/b.rs"]]);
        let other = ("crates/a/src/b.rs", "impl Other {\n    fn down(&self) { self.up(); }\n}\n");
        assert!(found(&[a, other]).is_empty(), "methods of another type");
    }

    #[test]
    fn a_call_through_a_field_of_the_name_of_a_type_counts() {
        let a = "impl JobState {\n    fn find(&self) { self.engine().settle(); }\n}\n";
        let b = "impl Engine {\n    fn settle(&self) { self.job_state.find(); }\n}\n";
        let files = [("crates/a/src/a.rs", a), ("crates/a/src/b.rs", b)];
        assert_eq!(found(&files).len(), 1);
        let other = "impl Engine {\n    fn settle(&self) { map.find(); }\n}\n";
        let other = ("crates/a/src/b.rs", other);
        assert!(found(&[files[0], other]).is_empty(), "of something else");
    }

    #[test]
    fn an_import_counts_as_a_call() {
        let a = ("crates/a/src/a.rs", "use crate::b::B;\nimpl Engine {\n    fn up(&self) {}\n}\n");
        let go = "struct B;\nimpl B {\n    fn go(&self, engine: &Engine) { engine.up(); }\n}\n";
        let b = ("crates/a/src/b.rs", go);
        assert_eq!(found(&[a, b]).len(), 1);
    }
}
