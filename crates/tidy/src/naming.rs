//! Names that a reader misses: of the arguments that a tuple packs, and of types that share one.

use std::collections::{BTreeMap, BTreeSet};

use crate::repo::{Finding, Repo};
use crate::source::{Source, is_word, line_of, words};

/// Parts of the paths of what is not the product.
const BESIDE: [&str; 3] = ["storage-sim/", "test", "tidy/"];

/// Names that may stand for several types. May only shrink.
pub const DOUBLED: [&str; 6] = ["Change", "Cursor", "Direction", "Progress", "Step", "Window"];

/// Words in front of the name of a type.
const TYPES: [&str; 4] = ["struct", "enum", "trait", "union"];

/// Functions with a tuple as a parameter, so that a call says nothing of what it passes.
pub fn tuples(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in product(repo) {
        let code = source.product_code();
        for at in words(code, "fn").filter(|at| !code[at + 2..].starts_with('(')) {
            if parameters(&code[at..]).any(is_tuple) {
                let what = "a tuple as a parameter: give its parts, or a type, a name";
                found.push(Finding::new(&source.path, line_of(code, at), what));
            }
        }
    }
    found
}

/// Types with a name that another file of the product gives to a type of its own, except `accepted`
/// names, and accepted names that stand for one type.
pub fn doubled(repo: &Repo, accepted: &[&str]) -> Vec<Finding> {
    let homes = homes(repo);
    let bad = homes.iter().filter(|(name, _)| !accepted.contains(name));
    let mut found: Vec<Finding> = bad
        .map(|(name, files)| {
            let first = files.first().copied().unwrap_or_default();
            Finding::new(first, 0, format!("{name} is a type of each of {files:?}"))
        })
        .collect();
    let stale = accepted.iter().filter(|name| !homes.contains_key(**name));
    found.extend(stale.map(|name| Finding::new(name, 0, "is accepted, but stands for one type")));
    found
}

/// The files of the types of each name that stands for types of two files of the product or more.
fn homes(repo: &Repo) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for source in product(repo) {
        let code = source.product_code();
        for at in TYPES.iter().flat_map(|word| words(code, word)) {
            let begin = code[..at].rfind('\n').map_or(0, |line| line + 1);
            let before = code[begin..at].trim();
            let mut rest = code[at..].split(|c| !is_word(c)).skip(1);
            if (before.is_empty() || before.starts_with("pub"))
                && let Some(name) = rest.next()
            {
                found.entry(name).or_default().insert(&source.path);
            }
        }
    }
    found.retain(|_, files| files.len() > 1);
    found
}

fn product(repo: &Repo) -> impl Iterator<Item = &Source> {
    let of_product = |path: &str| {
        path.starts_with("crates/")
            && path.contains("/src/")
            && !BESIDE.iter().any(|part| path.contains(part))
    };
    repo.sources.iter().filter(move |source| of_product(&source.path))
}

/// Whether a parameter, with all that follows it, is a tuple, by its pattern or its type.
fn is_tuple(parameter: &str) -> bool {
    let (name, of) = parameter.split_once(':').unwrap_or_default();
    let begins = |text: &str| text.trim_start().starts_with('(');
    let is_plain = name.trim_start_matches("mut ").chars().all(is_word);
    begins(name) && name != "()" || is_plain && begins(of)
}

/// The parameters of the function at the beginning of `code`, each with all that follows it.
fn parameters(code: &str) -> impl Iterator<Item = &str> {
    let open = code.find(['(', '<']).unwrap_or(code.len());
    let (mut depth, mut begins) = (0_i32, Vec::new());
    let mut before = ' ';
    let mut listed = false;
    for (at, c) in code.char_indices().skip_while(|(at, _)| *at < open) {
        let outer = depth;
        match c {
            '(' | '[' | '<' => depth += 1,
            ')' | ']' => depth -= 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        listed |= c == '(' && outer == 0;
        if listed && (c == '(' && outer == 0 || c == ',' && depth == 1) {
            begins.push(at + 1);
        }
        if listed && depth == 0 {
            break;
        }
        before = c;
    }
    begins.into_iter().map(|at| code[at..].trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuple_as_a_parameter_is_found() {
        let text = "fn a<F: Fn(u8, (u8, u8)) -> u8>(f: F, (): ()) {}\n\
                    fn b<'a, T>(\n    x: Vec<(u8, u8)>,\n    (y, z): (u8, &'a T),\n) {}\n\
                    fn c((x, y): (u8, u8)) { let f = |(a, b)| a; }\n\
                    type D = fn((u8, u8)) -> u8;\nfn e(x: u8) -> (u8, u8) { g(x, (x, x)) }\n\
                    fn f(\n    mut x: (u8, u8)) {}\n";
        let lines = |path| -> Vec<usize> {
            tuples(&Repo::of(&[(path, text)])).into_iter().map(|it| it.line).collect()
        };
        assert_eq!(lines("crates/a/src/x.rs"), [2, 6, 9]);
        assert!(lines("crates/a/src/tests.rs").is_empty() && lines("bench/a/src/x.rs").is_empty());
    }

    #[test]
    fn types_of_one_name_are_found() {
        let one = "pub(crate) struct State;\nenum Place {}\n// a struct Place\n";
        let other = "struct State<T>(T);\nstruct Other;\n#[cfg(test)]\nmod tests {\n    \
                     struct Place;\n}\n";
        let repo = Repo::of(&[("crates/a/src/x.rs", one), ("crates/b/src/y.rs", other)]);
        let found = |accepted: &[&str]| -> Vec<String> {
            doubled(&repo, accepted).into_iter().map(|it| it.to_string()).collect()
        };
        let what = "State is a type of each of {\"crates/a/src/x.rs\", \"crates/b/src/y.rs\"}";
        assert_eq!(found(&[]), [format!("crates/a/src/x.rs: {what}")]);
        assert!(found(&["State"]).is_empty());
        assert_eq!(found(&["State", "Place"]), ["Place: is accepted, but stands for one type"]);
    }
}
