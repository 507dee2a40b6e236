//! Documents stay true: the paths that they name exist, and so do the sections that code names.

use crate::repo::{Finding, Repo};
use crate::source::{Source, line_of};

/// Documents that must exist once the engine does; until then a reference to one may dangle.
pub const REQUIRED: [&str; 6] = [
    "README.md",
    "ARCHITECTURE.md",
    "docs/format.md",
    "docs/papers/README.md",
    "docs/glossary.md",
    "docs/testing.md",
];

/// The description of the byte layouts; code refers to its sections.
const FORMAT: &str = "docs/format.md";

/// Required documents that are missing.
pub fn required(repo: &Repo) -> Vec<Finding> {
    let missing = REQUIRED.iter().filter(|path| repo.has_engine() && !repo.has(path));
    missing.map(|path| Finding::new(path, 0, "the document is missing")).collect()
}

/// Paths in backticks, and links, in the documents whose targets do not exist.
pub fn paths(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for (document, text) in repo.texts.iter().filter(|(path, _)| is_document(path)) {
        for (line, spelled) in code_spans(text) {
            let dead = alternatives(&spelled).into_iter().filter(|path| !exists(repo, path));
            found.extend(dead.map(|path| {
                Finding::new(document, line, format!("names `{path}`, which does not exist"))
            }));
        }
        for (line, target) in links(text) {
            let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
            if !exists(repo, &join(folder, &target)) {
                found.push(Finding::new(
                    document,
                    line,
                    format!("links to {target}, which is not there"),
                ));
            }
        }
    }
    found
}

/// Symbols that a document names together with a file (`Symbol` in `file.rs`) and that the code of
/// that file does not contain.
pub fn symbols(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for (document, text) in repo.texts.iter().filter(|(path, _)| is_document(path)) {
        for (line, symbol, file) in named_with_file(text) {
            let source = repo.sources.iter().find(|source| source.path == file);
            let name = symbol.rsplit("::").next().unwrap_or(&symbol);
            if source.is_some_and(|source| !words(&source.code).any(|word| word == name)) {
                let what = format!("names `{symbol}` in `{file}`, which does not have it");
                found.push(Finding::new(document, line, what));
            }
        }
    }
    found
}

/// Each `Symbol` in `file.rs`, also across the end of a line, with the line of the symbol.
fn named_with_file(text: &str) -> Vec<(usize, String, String)> {
    let lines: Vec<(usize, &str)> = unfenced(text).collect();
    let mut found = Vec::new();
    for (at, (line, first)) in lines.iter().enumerate() {
        let next = lines.get(at + 1).map_or("", |(_, next)| next.trim());
        let both = format!("{first} {next}");
        let parts: Vec<&str> = both.split('`').collect();
        for part in parts.windows(3).enumerate().filter(|(i, _)| i % 2 == 1).map(|(_, it)| it) {
            let begins = part[0].as_ptr() as usize - both.as_ptr() as usize;
            let is_symbol = part[0].chars().all(|c| c.is_alphanumeric() || "_:".contains(c));
            let is_file = part[2].ends_with(".rs")
                && ["crates/", "bench/"].iter().any(|top| part[2].starts_with(top));
            if begins < first.len() && is_symbol && part[1].trim() == "in" && is_file {
                found.push((*line, part[0].to_owned(), part[2].to_owned()));
            }
        }
    }
    found
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
}

fn is_document(path: &str) -> bool {
    matches!(path, "README.md" | "ARCHITECTURE.md" | "CONTRIBUTING.md" | "CHANGELOG.md")
        || ["docs/", "data/"].iter().any(|folder| path.starts_with(folder) && path.ends_with(".md"))
}

/// Whether `path`, which may hold a `*`, exists, or is a required document that may be missing.
fn exists(repo: &Repo, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    let pending = !repo.has_engine() && REQUIRED.contains(&path);
    match path.split_once('*') {
        None => path.is_empty() || repo.has(path) || pending,
        Some((prefix, rest)) => {
            let ending = rest.rsplit('*').next().unwrap_or("");
            repo.names.iter().any(|name| name.starts_with(prefix) && name.ends_with(ending))
        }
    }
}

/// Text in single backticks, outside fenced blocks, with its line.
fn code_spans(text: &str) -> Vec<(usize, String)> {
    let mut spans = Vec::new();
    for (line, text) in unfenced(text) {
        let spelled = text.split('`').skip(1).step_by(2);
        spans.extend(spelled.map(|span| (line, span.to_owned())));
    }
    spans
}

/// Targets of links inside the repository, with their line.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, text) in unfenced(text) {
        for rest in text.split("](").skip(1) {
            let target = rest.split([')', '#']).next().unwrap_or("");
            if !target.is_empty() && !target.contains("://") && !target.contains('`') {
                found.push((line, target.to_owned()));
            }
        }
    }
    found
}

fn unfenced(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(i, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((i + 1, line))
    })
}

/// The paths that `spelled` stands for: none if it is no path of the repository, several if it
/// holds `{a,b}`.
fn alternatives(spelled: &str) -> Vec<String> {
    let known = |c: char| c.is_ascii_alphanumeric() || "._-/*{},".contains(c);
    let path = spelled.strip_prefix("./").unwrap_or(spelled);
    let path = path.trim_end_matches(|c: char| c == ':' || c.is_ascii_digit());
    let is_file = [".rs", ".md", ".toml"].iter().any(|ending| path.ends_with(ending));
    let first = path.split('/').next().unwrap_or("");
    let top = ["crates", "docs", "data", ".ci", "fuzz", "bench", "tests"].contains(&first);
    if !path.contains('/') || !path.chars().all(known) || !(top || is_file) {
        return Vec::new();
    }
    match path.split_once('{').and_then(|(a, rest)| Some((a, rest.split_once('}')?))) {
        Some((prefix, (inner, suffix))) => {
            inner.split(',').map(|part| format!("{prefix}{part}{suffix}")).collect()
        }
        None => vec![path.to_owned()],
    }
}

/// `target`, relative to `folder`, as a path from the root.
fn join(folder: &str, target: &str) -> String {
    let mut parts: Vec<_> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// References in code to sections of the format document that do not exist.
pub fn sections(repo: &Repo) -> Vec<Finding> {
    let format = repo.texts.get(FORMAT);
    let headings: Vec<_> = format.iter().flat_map(|text| headings(text)).collect();
    let mut found = Vec::new();
    for source in repo.sources.iter().filter(|_| format.is_some() || repo.has_engine()) {
        for (line, section) in references(source) {
            if !headings.contains(&section) {
                let what =
                    format!("names the section \"{section}\" of {FORMAT}, which is not there");
                found.push(Finding::new(&source.path, line, what));
            }
        }
    }
    found
}

/// Headings, without their marks and without a leading number.
fn headings(text: &str) -> Vec<String> {
    let marked = unfenced(text).filter_map(|(_, line)| line.strip_prefix('#'));
    let bare = marked.map(|line| line.trim_start_matches('#').trim());
    bare.map(|title| {
        let unnumbered = title.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        if unnumbered.starts_with(' ') { unnumbered.trim().to_owned() } else { title.to_owned() }
    })
    .collect()
}

/// The sections of the format document that comments name: a quoted title right behind its path,
/// perhaps on the next line.
fn references(source: &Source) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in source.comments.match_indices(FORMAT) {
        let rest = source.comments[at + FORMAT.len()..].trim_start_matches('`');
        let Some(rest) = rest.strip_prefix(',') else { continue };
        let between = |c: char| c.is_whitespace() || c == '/' || c == '!';
        let Some(title) = rest.trim_start_matches(between).strip_prefix('"') else { continue };
        let Some((title, _)) = title.split_once('"') else { continue };
        let words: Vec<_> =
            title.split_whitespace().filter(|word| !["//", "///", "//!"].contains(word)).collect();
        found.push((line_of(&source.comments, at), words.join(" ")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGINE: (&str, &str) = ("crates/cleavedb/Cargo.toml", "");

    fn whats(found: Vec<Finding>) -> Vec<String> {
        found.into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_missing_document_is_found_once_the_engine_is_there() {
        assert_eq!(required(&Repo::of(&[])), []);
        assert_eq!(required(&Repo::of(&[ENGINE])).len(), REQUIRED.len());
    }

    #[test]
    fn a_dead_path_is_found() {
        let text = "`crates/a/src/{x,y}.rs` and `docs/gone.md`, `a/b` is no path, `crates/a/src/`\n\
                    ```\n`crates/fenced.rs`\n```\n`crates/*/src/x.rs` `crates/*/src/z.rs` not yet\n\
                    [here](../README.md#top) [there](lost.md) [far](https://github.com/x)\n";
        let repo =
            Repo::of(&[ENGINE, ("crates/a/src/x.rs", ""), ("README.md", ""), ("docs/a.md", text)]);
        assert_eq!(
            whats(paths(&repo)),
            [
                "docs/a.md:1: names `crates/a/src/y.rs`, which does not exist",
                "docs/a.md:1: names `docs/gone.md`, which does not exist",
                "docs/a.md:5: names `crates/*/src/z.rs`, which does not exist",
                "docs/a.md:6: links to lost.md, which is not there"
            ]
        );
        let early = Repo::of(&[("docs/a.md", "`docs/format.md` `ARCHITECTURE.md`")]);
        assert_eq!(paths(&early), [], "before the engine, a required document may still come");
    }

    #[test]
    fn a_symbol_that_is_elsewhere_is_found() {
        let text = "`Engine::get` in `crates/a/src/x.rs`, `Gone` in\n`crates/a/src/x.rs`, and \
                    `put` in `crates/a/src/x.rs`\n";
        let code = ("crates/a/src/x.rs", "impl Engine { fn get() {} } // put\n");
        let repo = Repo::of(&[code, ("docs/a.md", text)]);
        assert_eq!(
            whats(symbols(&repo)),
            [
                "docs/a.md:1: names `Gone` in `crates/a/src/x.rs`, which does not have it",
                "docs/a.md:2: names `put` in `crates/a/src/x.rs`, which does not have it"
            ]
        );
    }

    #[test]
    fn a_dead_section_is_found() {
        let code = "//! See `docs/format.md`, \"Record\".\n/// `docs/format.md`,\n/// \"Log\n\
                    /// file\"\n\
                    // docs/format.md, \"Gone\"\n// docs/format.md is a document.\n";
        let format = "# Format\n## 3.1 Record\n### Log file\n```\n# Gone\n```\n";
        let repo = Repo::of(&[("x.rs", code), ("docs/format.md", format)]);
        let expected = "x.rs:5: names the section \"Gone\" of docs/format.md, which is not there";
        assert_eq!(whats(sections(&repo)), [expected]);
        assert_eq!(sections(&Repo::of(&[("x.rs", code)])), [], "no engine yet");
        assert_eq!(sections(&Repo::of(&[("x.rs", code), ENGINE])).len(), 3);
    }
}
