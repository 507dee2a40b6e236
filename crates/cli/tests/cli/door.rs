//! `cleave bench` and its like, and `cleave serve`, which other programs do.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use crate::common::Home;

/// Copies a program, in another process: if this one had it open for writing, a child that another
/// test starts at that moment would too, and the program could not be run ("text file busy").
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg(from).arg(to).status().unwrap();
    assert!(copied.success(), "{}", to.display());
}

/// Copies `cleave` to where no other program is beside it.
fn alone(home: &Home) -> Command {
    let cleave = home.path("bin/cleave");
    fs::create_dir(home.path("bin")).unwrap();
    copy(Path::new(env!("CARGO_BIN_EXE_cleave")), &cleave);
    let mut command = Command::new(cleave);
    command.env("PATH", home.path("path")).current_dir(home.path("."));
    command
}

/// Installs a script as a program.
fn install(directory: &Path, name: &str, script: &str) {
    let program = directory.join(name);
    fs::create_dir_all(directory).unwrap();
    let draft = directory.join("draft");
    fs::write(&draft, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).unwrap();
    copy(&draft, &program);
}

#[test]
fn another_program_gets_the_arguments_as_they_are_and_its_end_is_ours() {
    let home = Home::new();
    let mut cleave = alone(&home);
    install(&home.path("path"), "cleave-bench", "printf '<%s>' \"$@\"; exit 7");
    for line in [
        "bench",
        "bench --help",
        "bench -qw load --records 1k -- -x",
        "--preset lsm --json bench quick --all --preset hashkv",
        "trace record --out t -w ycsb-a",
        "tune site.db --save -h",
    ] {
        let words: Vec<_> = line.split(' ').collect();
        let mut command = Command::new(cleave.get_program());
        let output = command.env("PATH", home.path("path")).args(&words).output().unwrap();
        let given: String = words.iter().map(|word| format!("<{word}>")).collect();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), given, "{said}");
        assert_eq!(output.status.code(), Some(7), "{line}");
    }
    install(&home.path("bin"), "cleave-bench", "kill -TERM $$");
    let status = cleave.arg("bench").status().unwrap();
    assert_eq!(status.signal(), Some(15), "the one beside is found first");
}

#[test]
fn the_server_gets_what_stands_behind_serve() {
    let home = Home::new();
    let mut cleave = alone(&home);
    install(&home.path("path"), "cleave-server", "printf '<%s>' \"$@\"; exit 3");
    let output = cleave.args(["serve", "--dir", "serve", "--help", "-x"]).output().unwrap();
    assert_eq!(output.stdout, b"<--dir><serve><--help><-x>");
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_program_that_is_not_installed_is_named_with_the_way_to_install_it() {
    let home = Home::new();
    let cleave = alone(&home);
    for (command, program, sources) in
        [("bench", "cleave-bench", "bench/cli"), ("serve", "cleave-server", "crates/server")]
    {
        let mut run = Command::new(cleave.get_program());
        let output = run.env("PATH", home.path("path")).arg(command).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{said}");
        let way = format!("cargo install --path {sources}");
        for words in [&format!("needs the program {program}"), "bin/cleave", &way] {
            assert!(said.contains(words), "{words} is not in: {said}");
        }
    }
}
