//! `bench`: the workloads on one preset; the commands for many engines have their own files.

use cleavedb::{Durability, Options};
use cleavedb_bench::cli::{self, BenchArgs, Report};
use cleavedb_bench::output::Reader;
use cleavedb_bench::result::Line;
use cleavedb_bench::scratch::Scratch;
use cleavedb_bench::system::MemoryLimit;
use cleavedb_bench::{BenchError, Opener};
use cleavedb_cli::console::Console;
use cleavedb_cli::failure::{Exit, Failure, Result};
use cleavedb_cli::global::Global;
use cleavedb_cli::interrupt;
use cleavedb_cli::placement::Placement;
use cleavedb_cli::store;

use crate::bench_args::BenchCommand;
use crate::commands::bench_suite;
use crate::engine::CleaveOpener;
use crate::failure::failed;

pub(super) fn run(args: &BenchCommand, global: &Global, console: &Console) -> Result<Exit> {
    if let Some(many) = &args.many {
        return bench_suite::run(many, global, console);
    }
    // The engine's defaults follow the memory that it may use, at which it looks once.
    let limited = args.bench.memory_limit.map(MemoryLimit::set);
    let usual = Options { durability: Durability::Os, ..store::usual(global, None) };
    drop(limited);
    let options = store::options(&global.with_durability(args.durability), usual)?;
    // The opener creates and deletes the volumes itself.
    let options = Options { volumes: Vec::new(), ..options };
    let opener = CleaveOpener::with(options).on(&args.device, &global.place).map_err(failed)?;
    let bench = &args.bench;
    if bench.list || bench.self_check {
        cli::run(bench, &opener).map_err(failed)?;
        return Ok(Exit::Done);
    }
    interrupt::watch(console)?;
    let report = if console.json() {
        as_json(bench, &opener, console)
    } else {
        cli::run(bench, &opener).map_err(failed)
    };
    // A run with invalid arguments has created no directory.
    let begun = !matches!(&report, Err(failure) if failure.exit() == Exit::Usage);
    // A successful run has deleted its own directory.
    let own = report.is_err().then_some(&*bench.dir);
    let volumes = global.place.iter().filter_map(Placement::directory);
    let mut left = own.into_iter().chain(volumes);
    let mut left = left.by_ref().filter(|path| begun && !bench.keep && path.exists());
    let deleted = left.try_for_each(|path| Scratch::claim(path)?.delete());
    match report {
        Err(_) if interrupt::interrupted() => Err(Failure::Interrupted),
        // The first failure is the one to report.
        Err(failure) => Err(failure),
        Ok(report) => {
            deleted.map_err(failed)?;
            Ok(if report.passed() { Exit::Done } else { Exit::Damaged })
        }
    }
}

/// Prints each result, and the check at the end, as a line of JSON.
struct Lines<'a> {
    console: &'a Console,
    /// The error of printing a line, if one failed.
    failure: Option<Failure>,
}

impl Reader for Lines<'_> {
    fn line(&mut self, line: &Line) -> cleavedb_bench::Result<()> {
        let printed = self.console.json_line(line).and_then(|()| self.console.flush());
        printed.map_err(|failure| {
            self.failure = Some(failure);
            BenchError::Usage("the results cannot be written".to_owned())
        })
    }

    fn note(&mut self, words: &str) {
        self.console.note(words);
    }
}

fn as_json(args: &BenchArgs, opener: &dyn Opener, console: &Console) -> Result<Report> {
    let mut lines = Lines { console, failure: None };
    let args = BenchArgs { quiet: args.quiet || console.quiet(), ..args.clone() };
    let report = cli::run_for(&args, opener, Some(&mut lines));
    lines.failure.map_or_else(|| report.map_err(failed), Err)
}
