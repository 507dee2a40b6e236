//! Figures of the house, by which a redesign is judged: sizes, and how far knowledge spreads.

use crate::features;
use crate::naming;
use crate::repo::Repo;
use crate::source::{Source, matching_brace, words};
use crate::tree::Tree;

/// Crates of the engine.
const ENGINE: [&str; 7] = ["base", "units", "storage", "index", "values", "hot", "cleavedb"];

/// Figures of a repository, each with what it counts.
pub fn measures(repo: &Repo) -> Vec<(String, usize)> {
    let is_engine = |source: &&Source| {
        let of = |name: &&str| source.path.starts_with(&format!("crates/{name}/src/"));
        ENGINE.iter().any(of)
    };
    let lines = |source: &Source| source.code.lines().count();
    let product = |source: &Source| if source.is_test_file() { 0 } else { source.product_lines() };
    let engine = || repo.sources.iter().filter(is_engine);
    let outside_bench = repo.sources.iter().filter(|source| !source.path.starts_with("bench/"));
    let mut found = vec![
        ("product lines of the engine".to_owned(), engine().map(product).sum()),
        ("Rust lines to check out for its tests".to_owned(), outside_bench.map(lines).sum()),
        ("folders of the engine's last crate".to_owned(), folders(repo)),
        ("functions that reach every field of the engine".to_owned(), reaching(repo)),
        ("options".to_owned(), fields(repo, "settings/options.rs", "Options")),
        ("functions with a tuple as a parameter".to_owned(), naming::tuples(repo).len()),
        ("names of types that stand for two or more".to_owned(), naming::doubled(repo, &[]).len()),
    ];
    for (feature, files) in features::named(repo) {
        found.push((format!("files that name {feature} and are not its own"), files.len()));
    }
    found
}

/// Modules that `lib.rs` lists, those of tests not counted.
fn folders(repo: &Repo) -> usize {
    let tree = Tree::grow(repo, &format!("{}lib.rs", features::ENGINE));
    tree.modules.iter().filter(|(path, module)| path.len() == 1 && !module.test).count()
}

/// Functions that are given the whole engine.
fn reaching(repo: &Repo) -> usize {
    let below = repo.sources.iter().filter(|source| source.path.starts_with(features::ENGINE));
    let given = |source: &Source| {
        let code = source.product_code();
        let heads = words(code, "fn").filter_map(|at| {
            let end = code[at..].find(['{', ';'])?;
            Some(&code[at..at + end])
        });
        let is_given = |before: &str| {
            let lifetime = |c: char| c.is_alphanumeric() || c == '_' || c == '\'';
            before.trim_end().trim_end_matches(lifetime).ends_with(['&', '<'])
        };
        let takes = |head: &&str| words(head, "Engine").any(|at| is_given(&head[..at]));
        heads.filter(takes).count()
    };
    below.map(given).sum()
}

/// Public fields of a struct of the engine's last crate.
fn fields(repo: &Repo, path: &str, of: &str) -> usize {
    let Some(source) = repo.source(&format!("{}{path}", features::ENGINE)) else { return 0 };
    let head = format!("pub struct {of} {{");
    let Some(open) = source.code.find(&head).map(|at| at + head.len() - 1) else { return 0 };
    let end = matching_brace(&source.code, open).unwrap_or(source.code.len());
    source.code[open..end].lines().filter(|line| line.trim().starts_with("pub ")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_and_fields_are_counted() {
        let engine = "fn a(engine: &Engine) {}\nfn b(e: &'a Engine, n: u8) {}\n\
                      fn c(e: &Arc<Engine>) -> u8 {}\nfn d(e: EngineName, s: &State) {}\n";
        let options =
            "pub struct Options {\n    pub a: u8,\n    pub(crate) b: u8,\n    pub c: u8,\n}\n";
        let repo = Repo::of(&[
            ("crates/cleavedb/src/reads/read.rs", engine),
            ("crates/cleavedb/src/settings/options.rs", options),
        ]);
        assert_eq!(reaching(&repo), 3);
        assert_eq!(fields(&repo, "settings/options.rs", "Options"), 2);
    }
}
