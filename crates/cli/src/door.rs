//! Commands that other programs have, run by them in place of this one: the store needs nothing of
//! what measures it, nor of what serves it over a network.

use std::convert::Infallible;
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result};

/// Another program, by its name and the folder of its crate.
pub struct OtherProgram {
    name: &'static str,
    sources: &'static str,
}

/// The benchmark.
pub const BENCH: OtherProgram = OtherProgram { name: "cleave-bench", sources: "bench/cli" };

/// The server.
pub const SERVER: OtherProgram = OtherProgram { name: "cleave-server", sources: "crates/server" };

impl OtherProgram {
    /// Becomes the program with the arguments of this process, but for the first one that is
    /// `without`. The process keeps its id: exit code and signals are those of the program. Returns
    /// only if it cannot be run.
    pub fn become_it(&self, without: Option<&str>) -> Result<Infallible> {
        let Self { name: program, sources } = *self;
        let mut arguments: Vec<OsString> = env::args_os().skip(1).collect();
        let is_left_out = |argument: &OsString| without.is_some_and(|word| argument == word);
        if let Some(at) = arguments.iter().position(is_left_out) {
            arguments.remove(at);
        }
        let own = env::current_exe().map_err(Failure::file("find", Path::new("this program")))?;
        let beside = own.with_file_name(program);
        let found = find(beside.clone());
        let path = found.ok_or(Failure::NotInstalled { program, sources, beside })?;
        let error = Command::new(&path).args(arguments).exec();
        Err(Failure::file("run", &path)(error))
    }
}

/// The file `beside`, or the first of its name on the search path.
fn find(beside: PathBuf) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let name = beside.file_name().unwrap_or_default().to_owned();
    let on_path = env::split_paths(&path).map(|directory| directory.join(&name));
    std::iter::once(beside.clone()).chain(on_path).find(|place| place.is_file())
}
