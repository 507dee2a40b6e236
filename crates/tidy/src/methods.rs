//! Methods stand near their type: in its file, or in the folder of its module.
//!
//! A reader who knows where a type is defined looks there for its methods. A block of a trait may
//! stand elsewhere, as its methods belong to the trait, and blocks that a macro makes are not seen.

use std::collections::{BTreeMap, BTreeSet};

use crate::impls::blocks;
use crate::repo::{Finding, Repo};
use crate::source::{Source, is_word, line_of};

/// Words in front of the name that an item defines.
const DEFINES: [&str; 4] = ["struct ", "enum ", "union ", "trait "];

/// Files with methods, and the type that is defined elsewhere. May only shrink.
pub const FAR: [(&str, &str); 4] = [
    ("bench/harness/src/report/doubt.rs", "Results"),
    ("crates/cleavedb/src/store/limit.rs", "Options"),
    ("crates/storage-sim/src/sim/states.rs", "Replay"),
    ("crates/values/src/groups/sizing/mod.rs", "Partition"),
];

/// Files in which a crate defines the types of each name; the name of a type may occur twice.
type Homes<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Methods far from their type, except `accepted` ones, and accepted ones that are far no longer.
pub fn far(repo: &Repo, accepted: &[(&str, &str)]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in &repo.sources {
        if let Some((folder, _)) = source.path.split_once("/src/") {
            crates.entry(folder).or_default().push(source);
        }
    }
    let mut stale: BTreeSet<(&str, &str)> = accepted.iter().copied().collect();
    let mut found = Vec::new();
    for sources in crates.values() {
        let homes = homes(sources);
        for source in sources {
            let code = source.product_code();
            for block in blocks(code).into_iter().filter(|block| block.inherent) {
                let Some(files) = homes.get(block.of) else { continue };
                if files.iter().any(|home| is_near(home, &source.path)) {
                    continue;
                }
                stale.remove(&(&*source.path, block.of));
                if !accepted.contains(&(&*source.path, block.of)) {
                    let homes = Vec::from_iter(files.iter().copied()).join(" and ");
                    let what = format!("methods of {}, which {homes} defines", block.of);
                    found.push(Finding::new(&source.path, line_of(code, block.at), what));
                }
            }
        }
    }
    found.extend(stale.into_iter().map(|(path, of)| {
        Finding::new(path, 0, format!("is accepted, but has no methods of a far {of}"))
    }));
    found
}

fn homes<'a>(sources: &[&'a Source]) -> Homes<'a> {
    let mut found = Homes::new();
    for source in sources {
        for line in source.product_code().lines() {
            if let Some(name) = defined(line) {
                found.entry(name).or_default().insert(&source.path);
            }
        }
    }
    found
}

/// The type that a line defines, if it stands in no other item.
fn defined(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub").map_or(line, |rest| {
        let rest = rest
            .strip_prefix('(')
            .and_then(|rest| rest.split_once(')'))
            .map_or(rest, |(_, rest)| rest);
        rest.trim_start()
    });
    let name = DEFINES.iter().find_map(|word| line.strip_prefix(word))?;
    name.split(|c| !is_word(c)).next()
}

/// Whether `path` is `home` or lies in the folder of its module.
fn is_near(home: &str, path: &str) -> bool {
    let (folder, file) = home.rsplit_once('/').unwrap_or(("", home));
    let module = match file {
        "mod.rs" | "lib.rs" | "main.rs" => folder,
        _ => home.trim_end_matches(".rs"),
    };
    path == home || path.strip_prefix(module).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "pub(crate) struct Map<'a> {\n    x: &'a u8,\n}\n";
    const METHODS: &str = "use crate::Map;\n\nimpl<'a> Map<'a> {\n    fn x(&self) {}\n}\n";

    /// What is found where `home` defines the type and `path` has methods of it.
    fn found(home: &str, path: &str, accepted: &[(&str, &str)]) -> Vec<String> {
        let repo = Repo::of(&[(home, MAP), (path, METHODS)]);
        far(&repo, accepted).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn methods_in_a_folder_of_others_are_found() {
        assert_eq!(
            found("crates/a/src/map/mod.rs", "crates/a/src/other.rs", &[]),
            ["crates/a/src/other.rs:3: methods of Map, which crates/a/src/map/mod.rs defines"]
        );
        assert_eq!(found("crates/a/src/x/map.rs", "crates/a/src/x/other.rs", &[]).len(), 1);
        assert_eq!(found("crates/a/src/x/map.rs", "crates/a/src/x/mapped/f.rs", &[]).len(), 1);
        assert_eq!(found("crates/a/src/x/map.rs", "crates/a/src/y/map.rs", &[]).len(), 1);
    }

    #[test]
    fn methods_near_their_type_are_fine() {
        let none: [&str; 0] = [];
        assert_eq!(found("crates/a/src/map.rs", "crates/a/src/map/deep/f.rs", &[]), none);
        assert_eq!(found("crates/a/src/map/mod.rs", "crates/a/src/map/deep/f.rs", &[]), none);
        assert_eq!(found("crates/a/src/lib.rs", "crates/a/src/x/f.rs", &[]), none);
        // A crate may have a type of the name of one that another crate has.
        assert_eq!(found("crates/a/src/x/map.rs", "crates/b/src/f.rs", &[]), none);
    }

    #[test]
    fn methods_of_a_trait_may_be_far() {
        let of_trait = "impl Clone for Map {\n    fn clone(&self) {}\n}\n";
        let files = [("crates/a/src/x/map.rs", MAP), ("crates/a/src/y/f.rs", of_trait)];
        assert!(far(&Repo::of(&files), &[]).is_empty());
    }

    #[test]
    fn accepted_ones_are_not_found_until_they_are_near() {
        let accepted = [("crates/a/src/map/f.rs", "Map")];
        let path = accepted[0].0;
        assert!(found("crates/a/src/x/map.rs", path, &accepted).is_empty());
        let stale = "crates/a/src/map/f.rs: is accepted, but has no methods of a far Map";
        assert_eq!(found("crates/a/src/map.rs", path, &accepted), [stale]);
    }
}
