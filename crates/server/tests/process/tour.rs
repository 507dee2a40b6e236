//! The lines of README that show the server, typed by an ordinary user with few descriptors.

use std::path::Path;
use std::process::{Command, Output};

/// A shell with addresses of its own, so that the ports of README are free.
fn apart(dir: &Path, script: &str) -> Option<Output> {
    let shell =
        "ip link set lo up && ulimit -n 256 && exec unshare --map-user=1000 sh -ex -c \"$0\"";
    let program = Path::new(env!("CARGO_BIN_EXE_cleave-server")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "sh", "-c", shell, script]);
    command.current_dir(dir).env("PATH", path).output().ok()
}

/// The lines as a script that waits where a reader does.
fn script(lines: &str) -> String {
    let mut script = "trap 'kill $!; wait $!' EXIT\n".to_owned();
    for line in lines.lines() {
        script += &format!("{line}\n");
        if line.ends_with('&') {
            script += "timeout 20 sh -c 'until redis-cli ping; do sleep 0.1; done'\n";
        }
        if let Some((_, page)) = line.split_once("--http ") {
            script += &format!("curl -sSf http://{} >&2\n", page.split(' ').next().unwrap());
        }
        if line.starts_with("kill") {
            script += "! wait $!\n";
        }
    }
    script
}

#[test]
fn the_tour_of_readme_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let tools = "[ $(ulimit -n) = 256 ] && curl --version && redis-cli --version && \
                 cat /proc/self/status";
    match apart(dir.path(), tools) {
        Some(said) if said.status.success() => {
            let said = String::from_utf8(said.stdout).unwrap();
            assert!(said.contains("CapEff:\t0000000000000000\n"), "{said}");
        }
        other => return println!("NOT CHECKED: no addresses of its own, or tools: {other:?}"),
    }
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let (_, tour) = readme.split_once("```sh\ncleave-server").expect("README has a tour");
    let (tour, _) = tour.split_once("```").unwrap();
    let said = apart(dir.path(), &script(&format!("cleave-server{tour}"))).unwrap();
    let printed = String::from_utf8(said.stdout).unwrap();
    let told = String::from_utf8(said.stderr).unwrap();
    assert!(said.status.success(), "{printed}{told}");
    assert!(printed.contains("\nOK\n") && printed.ends_with("\nred\n"), "{printed}{told}");
    assert!(told.contains("<!doctype html>"), "{told}");
}
