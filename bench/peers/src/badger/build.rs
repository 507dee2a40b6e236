//! Finding the Go program, or building it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use cleavedb_bench::{BenchError, Result};

/// File name of the program, beside this executable.
const PROGRAM: &str = "badger-peer";
/// The source of the peer, where this crate was built.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/badger");

/// The program beside this executable; built first if it is not there, or older than its source.
pub fn program() -> Result<PathBuf> {
    // Two openers of one process must not build at once.
    static BUILDING: Mutex<()> = Mutex::new(());
    let _alone = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let here = Path::new("this executable");
    let executable = env::current_exe().map_err(BenchError::io("find", here))?;
    let program = executable.with_file_name(PROGRAM);
    let source = Path::new(SOURCE);
    if !is_current(&program, source) {
        build(source, &program)?;
    }
    Ok(program)
}

/// Builds `program` under another name first: one that is running cannot be written to.
fn build(source: &Path, program: &Path) -> Result<()> {
    eprintln!("bench-peers: building {} with go, once", program.display());
    let unfinished = program.with_file_name(format!("{PROGRAM}.{}", process::id()));
    let built = Command::new("go")
        .args(["build", "-trimpath", "-o"])
        .arg(&unfinished)
        .arg(".")
        .current_dir(source)
        .env("CGO_ENABLED", "0")
        .status();
    match built {
        Ok(status) if status.success() => {
            fs::rename(&unfinished, program).map_err(BenchError::io("rename", &unfinished))
        }
        Ok(status) => Err(BenchError::Usage(format!(
            "go build in {} failed ({status}): its own words are above",
            source.display()
        ))),
        Err(error) => Err(BenchError::Usage(format!(
            "cannot run go to build {} from {}: {error}. Install Go 1.24 or later, or build it \
             there with `go build -o {PROGRAM}` and put it beside this executable",
            program.display(),
            source.display()
        ))),
    }
}

/// Whether the program is there and no file of the source is younger. Without its source it is.
fn is_current(program: &Path, source: &Path) -> bool {
    let Some(built) = modified(program) else { return false };
    let entries = fs::read_dir(source).into_iter().flatten().flatten();
    let youngest = entries.filter_map(|entry| modified(&entry.path())).max();
    youngest.is_none_or(|youngest| youngest <= built)
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use super::is_current;

    #[test]
    fn a_program_older_than_its_source_is_built_again() {
        let root = tempfile::tempdir().unwrap();
        let (source, program) = (root.path().join("source"), root.path().join("program"));
        fs::create_dir(&source).unwrap();
        assert!(!is_current(&program, &source), "not built yet");
        let now = SystemTime::now();
        let write = |path: &Path, at| File::create(path).unwrap().set_modified(at).unwrap();
        write(&program, now);
        assert!(is_current(&program, &source), "no source");
        write(&source.join("old.go"), now - Duration::from_secs(1));
        assert!(is_current(&program, &source));
        write(&source.join("new.go"), now + Duration::from_secs(1));
        assert!(!is_current(&program, &source));
    }
}
