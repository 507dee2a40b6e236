//! Programs in C and C++, linked with the shared library: what they print last is `passed`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The folder of the crate.
const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// The library under its installed names, in a directory where programs find it.
struct Installed(TempDir);

impl Installed {
    fn new() -> Self {
        let own = std::env::current_exe().unwrap();
        let built = own.with_file_name("libcleavedb_c.so");
        let dir = tempfile::tempdir().unwrap();
        for name in ["libcleavedb.so", "libcleavedb.so.0"] {
            symlink(&built, dir.path().join(name)).unwrap();
        }
        Self(dir)
    }

    /// Compiles a program of `tests/programs` or `examples`; `None` without a compiler.
    fn compile(&self, source: &str) -> Option<PathBuf> {
        let program = self.0.path().join("program");
        let (compiler, standard) = match source.ends_with(".cc") {
            true => ("c++", "-std=c++11"),
            false => ("cc", "-std=gnu11"),
        };
        let mut cc = Command::new(compiler);
        cc.args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread", "-g", "-o"])
            .arg(&program);
        cc.arg(Path::new(CRATE).join(source)).arg(format!("-I{CRATE}/include"));
        cc.arg(format!("-L{}", self.0.path().display())).arg("-lcleavedb");
        cc.arg(format!("-Wl,-rpath,{}", self.0.path().display()));
        let Some(done) = output(&mut cc) else {
            println!("NOT CHECKED: there is no compiler {compiler}");
            return None;
        };
        assert!(done.status.success(), "{}", text(&done.stderr));
        Some(program)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a command prints; `None` if there is no such program.
fn output(command: &mut Command) -> Option<Output> {
    match command.output() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        done => Some(done.unwrap()),
    }
}

fn passes(command: &mut Command) -> bool {
    let Some(done) = output(command) else { return false };
    let (out, err) = (text(&done.stdout), text(&done.stderr));
    assert!(done.status.success() && out.ends_with("passed\n"), "{:?}\n{out}{err}", done.status);
    true
}

/// Runs a program in an empty directory, and again under Valgrind, if that is there.
fn run(source: &str) {
    let installed = Installed::new();
    let Some(program) = installed.compile(source) else { return };
    let directory = || tempfile::tempdir().unwrap();
    let first = directory();
    assert!(passes(Command::new(&program).current_dir(&first)));
    let second = directory();
    let mut valgrind = Command::new("valgrind");
    valgrind.args([
        "--quiet",
        "--error-exitcode=9",
        "--leak-check=full",
        "--child-silent-after-fork=yes",
    ]);
    valgrind.arg("--errors-for-leak-kinds=definite,indirect").arg("--show-leak-kinds=definite");
    if !passes(valgrind.arg(&program).current_dir(&second)) {
        println!("NOT CHECKED: there is no valgrind");
    }
}

#[test]
fn functions_of_leveldb_do_what_they_say() {
    run("tests/programs/leveldb.c");
}

#[test]
fn own_functions_do_what_they_say() {
    run("tests/programs/own.c");
}

#[test]
fn threads_share_handles() {
    run("tests/programs/threads.c");
}

#[test]
fn threads_in_cpp_share_handles() {
    run("tests/programs/threads.cc");
}

#[test]
fn the_example_says_hello() {
    let installed = Installed::new();
    let Some(program) = installed.compile("../../examples/c/hello.c") else { return };
    let directory = tempfile::tempdir().unwrap();
    let done = output(Command::new(&program).current_dir(&directory)).unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(text(&done.stdout), "banana: yellow\ncherry: dark red\n");
}

/// Names of functions that a header declares.
fn declared(header: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new(CRATE).join("include").join(header)).unwrap();
    let code: String = text.split("/*").filter_map(|part| part.split("*/").nth(1)).collect();
    let names = code.match_indices('(').map(|(at, _)| {
        let before = code[..at].trim_end();
        let start = before.rfind(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(0);
        before[start..].trim_matches(|c: char| !c.is_alphanumeric()).to_owned()
    });
    let ours = |name: &String| name.starts_with("leveldb_") || name.starts_with("cleavedb_");
    names.filter(ours).collect()
}

#[test]
fn the_library_has_the_functions_of_its_headers_and_nothing_else() {
    let installed = Installed::new();
    let library = installed.0.path().join("libcleavedb.so");
    let Some(listed) = output(Command::new("nm").args(["-D", "--defined-only"]).arg(library))
    else {
        return println!("NOT CHECKED: there is no nm");
    };
    let listed = text(&listed.stdout);
    let mut found: Vec<&str> =
        listed.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let mut expected: Vec<String> = HEADERS.iter().flat_map(|header| declared(header)).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(declared(HEADERS[0]).len(), 68);
}

/// The headers, that of LevelDB first.
const HEADERS: [&str; 2] = ["leveldb/c.h", "cleavedb.h"];
