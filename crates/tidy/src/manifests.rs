//! Manifests of crates: the order of the crates, and licences beside those that are published.
//!
//! `base <- storage <- {index, values} <- cleavedb <- {cli, capi, python, server, testkit}`, and
//! `bench-cli` above them; `hot` is beside index and values, and these three are strangers to one
//! another, and the front ends see the public crate only, and `bench-cli` besides `storage-sim`,
//! for its simulated devices, and `bench`, which knows no engine. Of the crates below only the
//! tests may use `storage-sim`. `bench-peers` has what its store over others needs. The compiler
//! refuses a cycle, but it would not refuse a short cut.

use crate::repo::{Finding, Repo};

/// The crates that each crate may use, by name, without the project's prefix.
const MAY_USE: [(&str, &[&str]); 18] = [
    ("base", &[]),
    ("storage", &["base"]),
    ("storage-sim", &["base", "storage"]),
    ("index", &["base", "storage"]),
    ("values", &["base", "storage"]),
    ("hot", &["base"]),
    ("cleavedb", &["base", "storage", "index", "values", "hot"]),
    ("testkit", &["base", "storage", "storage-sim", "index", "values", "cleavedb"]),
    ("units", &[]),
    ("named", &["cleavedb", "units"]),
    ("cli", &["cleavedb", "named", "units"]),
    ("capi", &["cleavedb", "named"]),
    ("python", &["cleavedb", "named"]),
    ("server", &["cleavedb", "named", "units"]),
    ("bench", &["units"]),
    ("bench-cli", &["cleavedb", "storage-sim", "units", "named", "bench", "cli"]),
    ("bench-peers", &["base", "storage", "values", "bench"]),
    ("tidy", &[]),
];

/// What the tests of a crate may use besides, although the crate itself lies below it.
const TESTS_MAY_USE: [(&str, &[&str]); 7] = [
    ("storage", &["storage-sim"]),
    ("index", &["storage-sim"]),
    ("values", &["storage-sim"]),
    ("server", &["storage-sim"]),
    ("cleavedb", &["storage-sim", "testkit"]),
    ("cli", &["testkit"]),
    ("bench-cli", &["testkit", "hot"]),
];

/// Dependencies that the order of crates does not allow.
pub fn crates(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in &repo.texts {
        let Some(name) = name(text).filter(|_| path.ends_with("/Cargo.toml")) else { continue };
        let Some((_, may_use)) = MAY_USE.iter().find(|(known, _)| *known == name) else {
            let what = format!("crate {name} has no place in the order of crates");
            found.push(Finding::new(path, 0, what));
            continue;
        };
        let in_tests = TESTS_MAY_USE.iter().find(|(known, _)| *known == name);
        for dependency in dependencies(text) {
            let on = dependency.on.as_str();
            let for_tests = dependency.dev && in_tests.is_some_and(|(_, may)| may.contains(&on));
            if !may_use.contains(&on) && !for_tests {
                let what = format!("{name} may not depend on {on}");
                found.push(Finding::new(path, dependency.line, what));
            }
        }
    }
    found
}

/// Texts of the licences: at the root, and as links to there beside each published manifest.
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Published crates without the texts of their licences: `cargo package` takes the crate's folder
/// only, and both licences ask for their text in every copy.
pub fn licences(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in &repo.texts {
        let folder = path.strip_suffix("/Cargo.toml").filter(|path| path.starts_with("crates/"));
        let Some(folder) = folder else { continue };
        if text.lines().any(|line| line.trim() == "publish = false") {
            continue;
        }
        let missing = LICENCES.iter().filter(|name| !repo.has(&format!("{folder}/{name}")));
        found.extend(missing.map(|name| {
            Finding::new(path, 0, format!("the crate is published, but {name} is not beside it"))
        }));
    }
    found
}

/// Name of the crate of a manifest, without the project's prefix; `None` for that of a workspace.
fn name(manifest: &str) -> Option<&str> {
    let name = manifest.lines().find_map(|line| line.strip_prefix("name = \""))?;
    Some(unprefixed(name.trim_end_matches('"')).unwrap_or(name.trim_end_matches('"')))
}

/// Name of a crate of the project without its prefix; `None` for other crates.
fn unprefixed(name: &str) -> Option<&str> {
    if name == "cleavedb" { Some(name) } else { name.strip_prefix("cleavedb-") }
}

/// A dependency on another crate of the project.
struct Dependency {
    /// Name of the crate, without the project's prefix.
    on: String,
    line: usize,
    dev: bool,
}

fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut found = Vec::new();
    let mut section = "";
    for (i, line) in manifest.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        let mut key = line.split(['=', '.', ' ']).next().unwrap_or("");
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
            key = section.rsplit('.').next().unwrap_or("");
        }
        if !section.contains("dependencies") {
            continue;
        }
        let renamed = line.split_once("package").map(|(_, rest)| {
            rest.trim_start_matches([' ', '=', '"']).split('"').next().unwrap_or("")
        });
        if let Some(on) = unprefixed(renamed.unwrap_or(key).trim_matches('"')) {
            let dev = section.contains("dev-dependencies");
            found.push(Dependency { on: on.to_owned(), line: i + 1, dev });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, manifest: &str) -> Vec<String> {
        let manifest = format!("{manifest}[package]\nname = \"cleavedb-{name}\"\n");
        let repo = Repo::of(&[(&format!("crates/{name}/Cargo.toml"), &manifest)]);
        crates(&repo).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_dependency_downwards_is_fine() {
        let manifest = "[dependencies]\n\
                        cleavedb-base.workspace = true\ncleavedb-storage = { path = \"x\" }\n\
                        bytes = \"1\" # not cleavedb-values\n";
        assert_eq!(found("index", manifest), Vec::<String>::new());
        let testing = "[dev-dependencies]\ncleavedb-storage-sim.workspace = true\n\
                       cleavedb-testkit.workspace = true\n";
        assert_eq!(found("cleavedb", testing), Vec::<String>::new());
    }

    #[test]
    fn a_dependency_upwards_or_between_stores_is_found() {
        let stores = "[dependencies]\ncleavedb-values.workspace = true\n";
        assert_eq!(
            found("index", stores),
            ["crates/index/Cargo.toml:2: index may not depend on values"]
        );
        let forms = [
            ("values", "[dependencies.cleavedb-index]\nworkspace = true\n"),
            ("values", "[dev-dependencies]\ncleavedb-index = { workspace = true }\n"),
            (
                "values",
                "[target.'cfg(unix)'.dependencies]\nstore = { package = \"cleavedb-index\" }\n",
            ),
            ("base", "[build-dependencies]\ncleavedb-storage.workspace = true\n"),
            ("storage", "[dependencies]\ncleavedb = { workspace = true }\n"),
            ("cli", "[dependencies]\ncleavedb-storage.workspace = true\n"),
            ("cleavedb", "[dependencies]\ncleavedb-testkit.workspace = true\n"),
            ("cleavedb", "[dependencies]\ncleavedb-storage-sim.workspace = true\n"),
            ("storage", "[dev-dependencies]\ncleavedb-testkit.workspace = true\n"),
            ("bench", "[dependencies]\ncleavedb.workspace = true\n"),
            ("tidy", "[dev-dependencies]\ncleavedb-base.workspace = true\n"),
        ];
        for (name, manifest) in forms {
            assert_eq!(found(name, manifest).len(), 1, "{name}: {manifest}");
        }
    }

    #[test]
    fn a_published_crate_without_a_licence_is_found() {
        let published = ("crates/base/Cargo.toml", "[package]\nname = \"cleavedb-base\"\n");
        let mit = ("crates/base/LICENSE-MIT", "MIT License\n");
        let apache = ("crates/base/LICENSE-APACHE", "Apache License\n");
        let found = |files: &[_]| licences(&Repo::of(files)).len();
        assert_eq!(found(&[published]), 2);
        assert_eq!(found(&[published, mit]), 1);
        assert_eq!(found(&[published, mit, apache]), 0);
        let private = ("crates/tidy/Cargo.toml", "[package]\npublish = false\n");
        assert_eq!(found(&[private]), 0);
    }

    #[test]
    fn a_crate_without_a_place_is_found() {
        assert_eq!(found("extra", "").len(), 1);
    }
}
