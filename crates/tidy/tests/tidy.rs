//! The rules of the house, run over this repository. Each rule is a test of its own; its message
//! says what to do. The rules themselves, and the violations that prove them, are in the library.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use cleavedb_tidy::{
    Finding, Repo, calls, documents, features, habits, manifests, methods, naming, order, pages,
    portable, primitives, size, unsafety, words,
};

/// Files in the largest circle of calls. May only shrink: none is wanted.
const CALL_CYCLE_MAX: usize = 3;

static REPO: LazyLock<Repo> = LazyLock::new(|| {
    // Another tree of the same shape, to see what the rules say of it.
    let root = std::env::var_os("CLEAVEDB_TREE").map(PathBuf::from);
    let root = root.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    Repo::read(&root).expect("the repository can be read")
});

/// Fails with every finding and with what to do about them.
#[track_caller]
fn expect_none(found: Vec<Finding>, what_to_do: &str) {
    if found.is_empty() {
        return;
    }
    let list: Vec<_> = found.iter().map(|finding| format!("  {finding}")).collect();
    panic!("\n{}\n{} found. {what_to_do}\n", list.join("\n"), found.len());
}

#[test]
fn the_repository_is_there() {
    assert!(REPO.has("Cargo.toml") && REPO.has("crates/tidy/tests/tidy.rs"));
    assert!(REPO.sources.len() > 10, "the rules would pass over nothing");
}

#[test]
fn files_are_short() {
    expect_none(
        size::files(&REPO),
        "Split the file by idea; move a long test block to a tests.rs of its own.",
    );
}

#[test]
fn a_feature_is_named_where_the_list_says() {
    expect_none(
        features::unlisted(&REPO),
        "Have a file of the feature answer what depends on it. crates/tidy/features.txt may only \
         shrink: drop lines that are not true any more.",
    );
}

#[test]
fn files_do_not_call_each_other_in_circles() {
    let cycles = calls::cycles(&REPO);
    let list: Vec<_> = cycles.iter().map(|c| format!("  {} files: {c:?}", c.len())).collect();
    let largest = cycles.first().map_or(0, |cycle| cycle.len());
    assert!(
        largest == CALL_CYCLE_MAX,
        "\n{}\nThe largest circle has {largest} files, where it had {CALL_CYCLE_MAX}. Give what is \
         called to a type of its own below, or to a trait that the lower file declares; if it has \
         become smaller, lower CALL_CYCLE_MAX.\n",
        list.join("\n")
    );
}

#[test]
fn methods_stand_near_their_type() {
    expect_none(
        methods::far(&REPO, &methods::FAR),
        "Move the block to the file of the type or into its folder, or make it a function or a \
         trait of this file. The list of accepted ones may only shrink: drop stale entries.",
    );
}

#[test]
fn lines_are_narrow() {
    expect_none(
        size::columns(&REPO),
        "Wrap the line; `cargo fmt` does not wrap comments or strings.",
    );
}

#[test]
fn files_open_with_what_they_are() {
    expect_none(
        habits::openings(&REPO),
        "Open the file with a `//!` comment: the idea of the file in a sentence, then its rules.",
    );
}

#[test]
fn nothing_is_left_unfinished() {
    expect_none(
        habits::unfinished(&REPO),
        "Finish it, or describe the limit where a user meets it; code holds no notes to come back.",
    );
}

#[test]
fn no_code_is_commented_out() {
    expect_none(
        habits::commented_out(&REPO),
        "Delete the code, version control keeps it. If it is a sentence, end its line differently.",
    );
}

#[test]
fn imports_name_what_they_import() {
    expect_none(
        habits::globs(&REPO),
        "Name the imported items. `use super::*` is for tests only, `use crate::*` is never right.",
    );
}

#[test]
fn arguments_have_names() {
    expect_none(
        naming::tuples(&REPO),
        "Pass the parts one by one, or have a type for them: a reader of a call sees no names.",
    );
}

#[test]
fn a_type_has_a_name_of_its_own() {
    expect_none(
        naming::doubled(&REPO, &naming::DOUBLED),
        "Say in the name which one it is: a reader of `State` must look up which of them is meant.",
    );
}

#[test]
fn modules_use_only_modules_below_them() {
    expect_none(
        order::modules(&REPO),
        "Modules are listed bottom first and name only those above them in the list: move the \
         `mod` line if the order is wrong, move the item down if the dependency is wrong.",
    );
}

#[test]
fn lists_of_modules_are_short() {
    expect_none(order::crowded(&REPO), "Begin a folder, or move a module to a better one.");
}

#[test]
fn every_file_belongs_to_a_module() {
    expect_none(order::orphans(&REPO), "Declare the file with `mod`, or delete it.");
}

#[test]
fn crates_use_only_crates_below_them() {
    expect_none(
        manifests::crates(&REPO),
        "Let the lower crate declare a small trait for what it needs. A new crate gets its place \
         in crates/tidy/src/manifests.rs.",
    );
}

#[test]
fn published_crates_hold_their_licences() {
    expect_none(
        manifests::licences(&REPO),
        "Link it: `ln -s ../../LICENSE-MIT crates/NAME/`, so that `cargo package` packs it.",
    );
}

#[test]
fn locks_and_atomics_can_be_replaced() {
    expect_none(
        primitives::elsewhere(&REPO),
        "Take locks, atomics and threads from cleavedb_base::sync: under a checker they are its.",
    );
}

#[test]
fn unsafe_stays_in_its_places() {
    expect_none(
        unsafety::places(&REPO),
        "Write it without unsafe, or on top of a type in one of the listed files \
         (crates/tidy/src/unsafety.rs).",
    );
}

#[test]
fn the_documents_are_there() {
    expect_none(documents::required(&REPO), "Write it; readers are sent there.");
}

#[test]
fn documents_name_paths_that_exist() {
    expect_none(
        documents::paths(&REPO),
        "Correct the path, from the root of the repository; what is not built is \"not yet\".",
    );
}

#[test]
fn documents_name_symbols_where_they_are() {
    expect_none(
        documents::symbols(&REPO),
        "Name the file that has the symbol; it has moved, or has another name by now.",
    );
}

#[test]
fn pages_are_short() {
    let rules = [pages::readme, pages::glossary, pages::lines, pages::cells];
    let found = rules.iter().flat_map(|rule| rule(&REPO)).collect();
    expect_none(
        found,
        "README: link to a document. Glossary: drop standard terms. Decision: cut it down, or \
         write a new one that replaces it. Paper: move diaries to `data/results`. Cell: move what \
         is long below the table.",
    );
}

#[test]
fn sentences_name_their_subject() {
    expect_none(
        words::riddles(&REPO),
        "Name the subject and the number: a reader must not have to guess who or how many.",
    );
}

#[test]
fn comments_begin_with_their_subject() {
    expect_none(
        words::openings(&REPO),
        "Begin with the subject: `The name of the keyspace`, not `Its name`.",
    );
}

#[test]
fn code_names_sections_that_exist() {
    expect_none(
        documents::sections(&REPO),
        "Correct the title, or add the section to docs/format.md: a format has one description.",
    );
}

#[test]
fn nothing_names_a_path_of_some_machine() {
    expect_none(
        portable::machine_paths(&REPO),
        "Use a path relative to the repository, an argument, or a temporary folder.",
    );
}

#[test]
fn nothing_names_the_host_of_a_registry() {
    expect_none(
        portable::hosts(&REPO),
        "Registries are configured on the machine, not here. A host that documents may link to \
         gets its place in crates/tidy/src/portable.rs.",
    );
}
