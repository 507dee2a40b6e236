//! Runs one peer through the workloads of CleaveDB's benchmark, with the same arguments.

use std::io::{self, Write};
use std::process::ExitCode;

use bench_peers::engines::{ENGINES, Entry};
use bench_peers::settings::PeerArgs;
use clap::Parser;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use cleavedb_bench::cli::{BenchArgs, run};
use cleavedb_bench::{BenchError, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Runs one peer through the workloads of CleaveDB's benchmark.
#[derive(Parser)]
struct Arguments {
    /// The engine to run
    #[arg(short, long, value_parser = engine(), default_value = ENGINES[0].name)]
    engine: &'static Entry,
    /// List the engines, one a line, and exit; "extra" stands behind those that only run if named
    #[arg(long)]
    list_engines: bool,
    #[command(flatten)]
    bench: BenchArgs,
    #[command(flatten)]
    peer: PeerArgs,
}

fn engine() -> impl TypedValueParser<Value = &'static Entry> {
    let names = ENGINES.iter().map(|entry| PossibleValue::new(entry.name).help(entry.about));
    PossibleValuesParser::new(names).map(|name| {
        let named = ENGINES.iter().find(|entry| entry.name == name);
        named.expect("only names of the list pass")
    })
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match execute(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench-peers: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Does what was asked for; returns whether every value was right.
fn execute(arguments: &Arguments) -> Result<bool> {
    if arguments.list_engines {
        return list_engines().map(|()| true);
    }
    allow_many_files();
    let opener = arguments.engine.opener(&arguments.peer)?;
    Ok(run(&arguments.bench, opener.as_ref())?.passed())
}

fn list_engines() -> Result<()> {
    let line =
        |entry: &Entry| format!("{}{}\n", entry.name, if entry.extra { " extra" } else { "" });
    let names: String = ENGINES.iter().map(line).collect();
    match io::stdout().write_all(names.as_bytes()) {
        // The reader has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(BenchError::io("write to", "standard output".as_ref())),
    }
}

/// Raises the soft limit on open files to the hard one. Engines keep a file open for each table,
/// and LevelDB, which takes a fifth of the limit, opens the others anew for each read.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    // If it is refused, the engine says so when it runs out of files.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
