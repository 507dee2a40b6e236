//! Commands that the program `cleave-bench` has, run by it in place of this one: the store needs
//! nothing of what measures it.

use std::convert::Infallible;
use std::env;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::failure::{Failure, Result};

const PROGRAM: &str = "cleave-bench";

/// Becomes `cleave-bench` with the arguments of this process, which keeps its id: exit code and
/// signals are those of the other program. Returns only if it cannot be run.
pub fn pass() -> Result<Infallible> {
    let beside = env::current_exe().map_err(Failure::file("find", "this program".as_ref()))?;
    let found = find(beside.with_file_name(PROGRAM));
    let program = found.ok_or(Failure::NotInstalled { program: PROGRAM, beside })?;
    let error = Command::new(&program).args(env::args_os().skip(1)).exec();
    Err(Failure::file("run", &program)(error))
}

/// The file `beside`, or the first of its name on the search path.
fn find(beside: PathBuf) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|directory| directory.join(PROGRAM));
    std::iter::once(beside).chain(on_path).find(|place| place.is_file())
}
