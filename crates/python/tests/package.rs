//! The package with the library as cargo builds it for tests: its example, and its own tests where
//! pytest is. `.ci/doors python` installs the wheel as users do.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// The folder of the crate.
const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// An interpreter that finds the package.
fn python(packages: &Path, arguments: &[&str]) -> Command {
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", packages).env("PYTHONDONTWRITEBYTECODE", "1").args(arguments);
    python
}

#[test]
fn the_package_works_from_the_tree() {
    let new = ["-c", "import sys; sys.exit(sys.version_info < (3, 9))"];
    let scratch = tempfile::tempdir().unwrap();
    if !python(scratch.path(), &new).status().is_ok_and(|status| status.success()) {
        return println!("NOT CHECKED: there is no Python 3.9 or newer");
    }
    let package = scratch.path().join("cleavedb");
    std::fs::create_dir(&package).unwrap();
    for source in std::fs::read_dir(Path::new(CRATE).join("python/cleavedb")).unwrap() {
        let source = source.unwrap();
        symlink(source.path(), package.join(source.file_name())).unwrap();
    }
    let built = std::env::current_exe().unwrap().with_file_name("lib_cleavedb.so");
    symlink(built, package.join("_cleavedb.abi3.so")).unwrap();

    let tour = format!("{CRATE}/examples/tour.py");
    let store = scratch.path().join("tour.db");
    let done = python(scratch.path(), &[&tour, store.to_str().unwrap()]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let said = "account/ada 70\naccount/bob 30\n2 accounts before, 0 now\nb'+' []\n";
    assert_eq!(String::from_utf8_lossy(&done.stdout), said);

    if !python(scratch.path(), &["-c", "import pytest"]).output().unwrap().status.success() {
        return println!("NOT CHECKED: the tests of the package need pytest");
    }
    let tests = format!("{CRATE}/tests");
    let pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", &tests];
    let done = python(scratch.path(), &pytest).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}
