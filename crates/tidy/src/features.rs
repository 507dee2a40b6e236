//! Which files of the engine name which feature: `features.txt` lists them, and the list shrinks.
//!
//! A feature that many files name has to be remembered in each of them when the next one comes. A
//! file names a feature if an identifier of its product code has the feature's words. Files of the
//! feature itself, whose path has such a word or the feature's name, are free to; so are options,
//! figures and methods of users, which are what a feature looks like from outside.

use std::collections::BTreeMap;

use crate::repo::{Finding, Repo};
use crate::source::is_word;

/// Path of the list: a feature, a colon, and a path below [`ENGINE`], one a line.
pub const LIST: &str = "crates/tidy/features.txt";

/// Folder whose files the list is about: where the stores below are put together.
pub const ENGINE: &str = "crates/cleavedb/src/";

/// Folders that show a feature to users.
const FACES: [&str; 3] = ["settings/", "control/", "api/"];

/// Features, each with its words. Two words stand next to each other in an identifier, in capitals
/// or not; a star stands for any ending.
const FEATURES: [(&str, &[&str]); 8] = [
    ("hot store", &["hot", "heat*", "evacuat*"]),
    ("blobs", &["blob*"]),
    ("merges", &["operand*", "merge operator*"]),
    ("expiry", &["expir*", "ttl"]),
    ("changes", &["retained*", "change log", "change kind", "change retention", "keeps changes"]),
    ("range tombstones", &["tombstone*"]),
    ("compression", &["compress*", "dictionar*"]),
    ("dropped keyspaces", &["dropped"]),
];

/// The files that name each feature and are not its own, by feature, with the first such line.
pub fn named(repo: &Repo) -> BTreeMap<&'static str, Vec<Finding>> {
    let mut found: BTreeMap<_, Vec<Finding>> = FEATURES.map(|(name, _)| (name, vec![])).into();
    for source in &repo.sources {
        let Some(path) = source.path.strip_prefix(ENGINE) else { continue };
        if FACES.iter().any(|face| path.starts_with(face)) || path == "lib.rs" {
            continue;
        }
        let product = source.product_code();
        for (name, patterns) in FEATURES {
            if has_any(&split(path), patterns) || has_any(&split(path), &[name]) {
                continue;
            }
            let first = product.lines().position(|line| !is_import(line) && names(line, patterns));
            if let (Some(at), Some(files)) = (first, found.get_mut(name)) {
                files.push(Finding::new(path, at + 1, format!("the {name}")));
            }
        }
    }
    found
}

/// Files that name a feature and are not listed, and lines of the list that nothing makes true.
pub fn unlisted(repo: &Repo) -> Vec<Finding> {
    let list = repo.texts.get(LIST).map_or("", String::as_str).lines();
    let mut listed: BTreeMap<&str, usize> = list.zip(1..).filter(|(l, _)| !l.is_empty()).collect();
    let mut found = Vec::new();
    for (name, files) in named(repo) {
        for file in files {
            if listed.remove(format!("{name}: {}", file.path).as_str()).is_none() {
                let what = format!("names {}", file.what);
                found.push(Finding::new(&format!("{ENGINE}{}", file.path), file.line, what));
            }
        }
    }
    let stale = listed.into_iter().map(|(text, line)| Finding::new(LIST, line, text));
    found.extend(stale);
    found
}

fn is_import(line: &str) -> bool {
    let line = line.trim_start().trim_start_matches("pub").trim_start_matches("(crate)");
    ["use ", "mod "].iter().any(|word| line.trim_start().starts_with(word))
}

/// Whether an identifier of `line` has one of the patterns.
fn names(line: &str, patterns: &[&str]) -> bool {
    line.split(|c| !is_word(c)).any(|ident| has_any(&split(ident), patterns))
}

fn has_any(words: &[String], patterns: &[&str]) -> bool {
    patterns.iter().any(|pattern| {
        let pattern: Vec<_> = pattern.split(' ').collect();
        words.windows(pattern.len()).any(|words| {
            words.iter().zip(&pattern).all(|(word, pattern)| match pattern.strip_suffix('*') {
                Some(begin) => word.starts_with(begin),
                None => word == pattern,
            })
        })
    })
}

/// The words of an identifier or a path, in small letters.
fn split(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for c in text.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && was_small) {
            words.push(String::new());
        }
        let letters = c.to_lowercase().filter(|c| c.is_alphanumeric());
        words.last_mut().expect("there is one").extend(letters);
        was_small = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str, list: &str) -> Vec<(usize, String)> {
        let repo = Repo::of(&[(&format!("{ENGINE}{path}"), text), (LIST, list)]);
        unlisted(&repo).into_iter().map(|it| (it.line, it.what)).collect()
    }

    #[test]
    fn a_file_that_names_a_feature_is_found() {
        let text = "use hot::HotStore;\n// the hot store\nfn f() {\n    let shot = \"hot\";\n    \
                    engine.is_hot();\n}\n";
        assert_eq!(found("reads/read.rs", text, ""), [(5, "names the hot store".to_owned())]);
        assert_eq!(found("reads/read.rs", text, "hot store: reads/read.rs\n"), []);
        for own in ["reads/hot.rs", "open/hot_load.rs", "settings/a.rs", "reads/tests.rs"] {
            assert_eq!(found(own, text, ""), [], "{own}");
        }
        assert_eq!(found("copies/changes/told.rs", "struct ChangeLog;\n", ""), []);
    }

    #[test]
    fn words_stand_in_identifiers_of_both_kinds() {
        for (text, is_named) in [
            ("RetainedLog", true),
            ("EncodedChangeKind", true),
            ("change_of_kind", false),
            ("hotel", false),
            ("evacuating", true),
        ] {
            assert_eq!(!found("a.rs", text, "").is_empty(), is_named, "{text}");
        }
    }

    #[test]
    fn a_line_of_the_list_that_is_not_true_is_found() {
        let stale = "blobs: reads/read.rs";
        assert_eq!(found("reads/read.rs", "fn f() {}\n", stale), [(1, stale.to_owned())]);
    }
}
