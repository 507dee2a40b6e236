//! Every example runs to its end and prints what it did. `cargo test -p cleavedb` builds them;
//! before `--test examples` alone, `cargo build --profile test -p cleavedb --examples` does.

use std::path::{Path, PathBuf};
use std::process::Command;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs an example in a directory, and returns what it printed.
fn run(name: &str, dir: &Path) -> String {
    let programs = std::env::current_exe().unwrap();
    let program: PathBuf = programs.ancestors().nth(2).unwrap().join("examples").join(name);
    let ran = Command::new(&program).current_dir(dir).output();
    let ran = ran.unwrap_or_else(|e| panic!("{}: {e}", program.display()));
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{}: {told}", program.display());
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn every_example_runs_and_prints_what_it_did() {
    let dir = tempfile::tempdir().unwrap();
    let mut count = 0;
    for source in std::fs::read_dir(here().join("examples")).unwrap() {
        let source = source.unwrap().path();
        let name = source.file_stem().unwrap().to_str().unwrap();
        assert!(!run(name, dir.path()).is_empty(), "{name} prints nothing");
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn the_program_of_readme_runs_twice() {
    let readme = std::fs::read_to_string(here().join("../../README.md")).unwrap();
    let (_, program) = readme.split_once("```rust,no_run\n").expect("README has a program");
    let (program, _) = program.split_once("```").unwrap();
    let example = std::fs::read_to_string(here().join("examples/hello.rs")).unwrap();
    assert!(example.ends_with(program), "examples/hello.rs is another program");

    let dir = tempfile::tempdir().unwrap();
    let printed = |runs: u32| format!("b\"apple\" is b\"red\"\nb\"runs\" is b\"{runs}\"\n");
    for runs in 1..=2 {
        assert_eq!(run("hello", dir.path()), printed(runs));
    }
}
