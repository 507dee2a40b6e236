//! `bench`: the workloads on one preset; its commands are elsewhere.

use cleavedb::Preset;
use cleavedb_bench::cli::{self, Begun, BenchArgs, Report};
use cleavedb_bench::observer::{Observer, Silent};
use cleavedb_bench::progress::Bar;
use cleavedb_bench::result::Line;
use cleavedb_bench::scratch::Scratch;
use cleavedb_bench::workload::select;
use cleavedb_bench::{Opener, Session};

use crate::args::Global;
use crate::bench_args::BenchCommand;
use crate::commands::bench_suite;
use crate::console::Console;
use crate::engine::CleaveOpener;
use crate::failure::{Exit, Failure, Result};
use crate::interrupt;
use crate::placement::Placement;

pub(super) fn run(args: &BenchCommand, global: &Global, console: &Console) -> Result<Exit> {
    if let Some(many) = &args.many {
        return bench_suite::run(many, global, console);
    }
    let preset = global.preset.unwrap_or(Preset::WiscKey);
    let opener = CleaveOpener::new(preset, args.durability.into());
    let opener = opener.on(&args.device, &global.place)?;
    let bench = &args.bench;
    if bench.list || bench.self_check {
        cli::run(bench, &opener)?;
        return Ok(Exit::Done);
    }
    interrupt::watch()?;
    let report = if console.json() {
        as_json(bench, &opener, console)
    } else {
        cli::run(bench, &opener).map_err(Failure::from)
    };
    // A run that the arguments did not allow never had a directory.
    let begun = !matches!(&report, Err(failure) if failure.exit() == Exit::Usage);
    // A run that went well has deleted its own directory.
    let own = report.is_err().then_some(&*bench.dir);
    let volumes = global.place.iter().filter_map(Placement::directory);
    let mut left = own.into_iter().chain(volumes);
    let mut left = left.by_ref().filter(|path| begun && !bench.keep && path.exists());
    let deleted = left.try_for_each(|path| Scratch::claim(path)?.delete());
    match report {
        Err(_) if interrupt::interrupted() => Err(Failure::Interrupted),
        // What went wrong first is what there is to say.
        Err(failure) => Err(failure),
        Ok(report) => {
            deleted?;
            Ok(if report.passed() { Exit::Done } else { Exit::Damaged })
        }
    }
}

/// Runs the workloads and prints each result, and the check at the end, as a line of JSON.
fn as_json(args: &BenchArgs, opener: &dyn Opener, console: &Console) -> Result<Report> {
    let (config, workloads) = (args.config()?, select(&args.workload)?);
    let configured = args.configured(opener)?;
    let opener = configured.as_deref().unwrap_or(opener);
    let recording = args.recording(opener)?;
    let opener = recording.as_ref().map_or(opener, |recording| recording);
    let scratch = Scratch::claim(&args.dir)?;
    let begun = Begun::under(args)?;
    begun.warnings.iter().for_each(|warning| console.note(warning));
    begun.lines.iter().try_for_each(|line| console.json_line(line))?;
    console.flush()?;
    let bar = (!console.quiet()).then(Bar::new);
    let observer: &dyn Observer = bar.as_ref().map_or(&Silent, |bar| bar);
    let mut session = Session::new(opener, &scratch, config, begun.limit.as_ref(), observer)?;
    let mut phases = Vec::new();
    for workload in &workloads {
        let result = session.run(workload)?;
        console.json_line(&Line::Phase(Box::new(result.clone())))?;
        console.flush()?;
        phases.push(result);
    }
    let verification = if args.no_verify { None } else { Some(session.verify()?) };
    if let Some(found) = verification.clone() {
        console.json_line(&Line::Verification { engine: opener.name().to_owned(), found })?;
    }
    session.close()?;
    if let Some(recording) = &recording {
        console.note(&recording.finish()?);
    }
    if !args.keep {
        scratch.delete()?;
    }
    Ok(Report { phases, verification })
}
