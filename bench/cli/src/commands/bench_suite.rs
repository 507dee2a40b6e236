//! `bench quick`, `bench suite`, `bench papers`, `bench features`: many engines, each in a process
//! of its own.

use std::env;
use std::path::Path;
use std::time::Duration;

use cleavedb::Preset;
use cleavedb_bench::catalogue::{experiments, features, overview};
use cleavedb_bench::orchestrate::plan::plan;
use cleavedb_bench::orchestrate::target::{Target, choose, find_peers, list_peers};
use cleavedb_bench::orchestrate::trial;
use cleavedb_bench::orchestrate::watch::{Rows, Unwatched, Watcher};
use cleavedb_bench::orchestrate::{Finish, Settings, run as run_suite};
use cleavedb_bench::suite::{FIGURES, Suite};
use cleavedb_cli::console::Console;
use cleavedb_cli::failure::{Exit, Failure, Result};
use cleavedb_cli::global::Global;
use cleavedb_cli::interrupt;

use crate::bench_args::{Many, Pages, SuiteArgs};
use crate::commands::bench_report::{self, Asked};
use crate::engine::engine_of;
use crate::failure::failed;

/// Engines of the two-minute benchmark: the default preset, the one that keeps values in the tree,
/// and the tree that all others are compared with.
const FEW: [&str; 3] = ["cleave", "cleave-lsm", "rocksdb"];

/// Engines of the benchmark of features: two presets, and the peers that have some of them.
const FEATURED: [&str; 6] = ["cleave", "cleave-lsm", "rocksdb", "leveldb", "fjall", "redb"];

/// The peers beside all presets in the suite of `docs/figures.md`.
const SHOWN: [&str; 4] = ["rocksdb", "blobdb", "leveldb", "fjall"];

/// Engines that run if none are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Engines {
    /// All presets.
    Presets,
    /// The engines of the two-minute benchmark.
    Few,
    /// The engines of the benchmark of features.
    Featured,
    /// All presets, and the peers of `docs/figures.md`.
    Shown,
    /// All presets and all peers.
    All,
}

/// The engines to compare with, in order of preference.
const BASELINES: [&str; 2] = ["rocksdb", "cleave-lsm"];

pub(super) fn run(many: &Many, global: &Global, console: &Console) -> Result<Exit> {
    let single = [
        ("place", !global.place.is_empty()),
        ("space-limit", global.space_limit.is_some()),
        ("with", !global.with.is_empty()),
    ];
    if let Some((name, _)) = single.into_iter().find(|(_, given)| *given) {
        return Err(Failure::Usage(format!(
            "--{name} is for one preset at a time: cleave --{name} ... bench -w load"
        )));
    }
    match many {
        Many::Quick { all, miniature, suite: args } => {
            let engines = if *all { Engines::All } else { Engines::Few };
            let targets = targets(args, engines, global, console)?;
            interrupt::watch(console)?;
            // Peers that cannot be scaled down run only in longer benchmarks.
            let few = engines == Engines::Few && args.engines.is_empty();
            let parts = match miniature {
                Some(parts) => *parts,
                None if few => tried(args, console)?,
                None => 1,
            };
            measure(Suite::quick(parts), args, targets, console)
        }
        Many::Suite { list: true, .. } => {
            console.line(overview())?;
            Ok(Exit::Done)
        }
        Many::Suite { config, only, suite: args, .. } => {
            let mut suite = Suite::named(config).map_err(failed)?;
            suite.keep(only).map_err(failed)?;
            let args = kept(args, &format!("suite-{config}"));
            let engines = if config == FIGURES { Engines::Shown } else { Engines::All };
            let targets = targets(&args, engines, global, console)?;
            interrupt::watch(console)?;
            measure(suite, &args, targets, console)
        }
        Many::Papers { list: true, .. } => {
            console.line(experiments())?;
            Ok(Exit::Done)
        }
        Many::Papers { papers, experiment, only, miniature, suite: args, .. } => {
            let mut suite = Suite::papers(papers, experiment, *miniature).map_err(failed)?;
            suite.keep(only).map_err(failed)?;
            let args = kept(args, "papers");
            let named = args.peers.is_some() || !args.engines.is_empty();
            let engines = if named { Engines::All } else { Engines::Presets };
            let targets = targets(&args, engines, global, console)?;
            interrupt::watch(console)?;
            measure(suite, &args, targets, console)
        }
        Many::Features { list: true, .. } => {
            console.line(features())?;
            Ok(Exit::Done)
        }
        Many::Features { features, part, suite: args, .. } => {
            let suite = Suite::features(features, *part).map_err(failed)?;
            let args = SuiteArgs { no_memory_limit: true, ..args.clone() };
            let targets = targets(&args, Engines::Featured, global, console)?;
            interrupt::watch(console)?;
            measure(suite, &args, targets, console)
        }
        Many::Report { files, baseline, pages } => {
            let asked = Asked { files, baseline: baseline.as_deref(), pages };
            bench_report::run(&asked, console)
        }
    }
}

/// Results of runs that take hours are always stored.
fn kept(args: &SuiteArgs, name: &str) -> SuiteArgs {
    let results = args.results.clone().unwrap_or_else(|| format!("{name}.jsonl").into());
    let out = args.pages.out.clone().unwrap_or_else(|| results.with_extension("html"));
    let pages = Pages { out: Some(out), ..args.pages.clone() };
    SuiteArgs { results: Some(results), pages, ..args.clone() }
}

/// The divisor of all sizes for a quick benchmark on this machine now.
fn tried(args: &SuiteArgs, console: &Console) -> Result<u64> {
    if args.resume {
        let message = "--resume goes on with the sizes of before: name them by --miniature, which \
                       is 1 if that run has not said another number";
        return Err(Failure::Usage(message.to_owned()));
    }
    let parts =
        trial::parts(&preset(Preset::Lsm)?, &args.dir, &interrupt::interrupted).map_err(failed)?;
    if parts > 1 {
        console.note(&format!(
            "this machine is slow: all sizes are divided by {parts} (--miniature {parts})"
        ));
    }
    Ok(parts)
}

fn measure(
    mut suite: Suite,
    args: &SuiteArgs,
    targets: Vec<Target>,
    console: &Console,
) -> Result<Exit> {
    if !args.engines.is_empty() {
        suite.leave_none_out();
    }
    suite.repetitions = args.repetitions.unwrap_or(suite.repetitions);
    suite.each = args.duration.map(Duration::from_secs).or(suite.each);
    suite.timeout = args.timeout.map_or(suite.timeout, Duration::from_secs);
    let limit = args.memory_limit.unwrap_or(suite.memory_limit);
    let home = tempfile::tempdir().map_err(Failure::file("create", Path::new("a directory")))?;
    let results = args.results.clone().unwrap_or_else(|| home.path().join("quick.jsonl"));
    let settings = Settings {
        baseline: baseline(args, &targets)?,
        memory_limit: (!args.no_memory_limit).then_some(limit),
        dir: args.dir.clone(),
        results: results.clone(),
        disk: true,
        resume: args.resume,
        command: typed(env::args()),
        suite,
        targets,
    };
    announce(&settings, console);
    let finish = {
        let rows = (!console.quiet() && !console.json()).then(Rows::new);
        let watcher: &dyn Watcher = rows.as_ref().map_or(&Unwatched, |rows| rows);
        run_suite(&settings, watcher, &interrupt::interrupted).map_err(failed)?
    };
    let files = [results.clone()];
    let asked = Asked { files: &files, baseline: args.baseline.as_deref(), pages: &args.pages };
    bench_report::run(&asked, console)?;
    if args.results.is_some() {
        console.note(&format!("results: {}", results.display()));
    } else if args.pages.out.is_none() {
        console.note("charts: --out FILE.html; the numbers of every run: --results FILE");
    }
    exit(finish)
}

fn exit(finish: Finish) -> Result<Exit> {
    match finish {
        Finish { interrupted: true, .. } => Ok(Exit::Interrupted),
        Finish { wrong: 1.., .. } => Ok(Exit::Damaged),
        Finish { failed: 1.., .. } => Ok(Exit::Failed),
        _ => Ok(Exit::Done),
    }
}

/// A preset, run by this program.
fn preset(preset: Preset) -> Result<Target> {
    let own = Path::new("this program");
    Ok(Target {
        engine: engine_of(preset),
        program: env::current_exe().map_err(Failure::file("find", own))?,
        arguments: ["--preset", preset.name(), "bench"].map(str::to_owned).into(),
        extra: false,
    })
}

/// The presets and found peers that were named, or that take part by default.
fn targets(
    args: &SuiteArgs,
    engines: Engines,
    global: &Global,
    console: &Console,
) -> Result<Vec<Target>> {
    let chosen = Preset::ALL.into_iter().filter(|own| global.preset.is_none_or(|p| p == *own));
    let mut targets = chosen.map(preset).collect::<Result<Vec<_>>>()?;
    if engines != Engines::Presets && !args.no_peers {
        targets.extend(found_peers(args.peers.as_deref(), console)?);
    }
    let usual = match engines {
        Engines::Few => &FEW[..],
        Engines::Featured => &FEATURED,
        Engines::Shown => &SHOWN,
        Engines::Presets | Engines::All => &[],
    };
    if !usual.is_empty() && args.engines.is_empty() {
        let asked = |engine: &str| match engines {
            Engines::Shown => Preset::ALL.into_iter().any(|own| engine_of(own) == engine),
            _ => global.preset.is_some_and(|own| engine_of(own) == engine),
        };
        let few = |target: &Target| usual.contains(&&*target.engine) || asked(&target.engine);
        let (taken, left): (Vec<_>, Vec<_>) = targets.into_iter().partition(few);
        if !left.is_empty() {
            let names: Vec<_> = left.iter().map(|target| target.engine.as_str()).collect();
            let names = names.join(", ");
            console.note(&format!("left out; --all or --engines adds them: {names}"));
        }
        targets = taken;
    }
    choose(targets, &args.engines).map_err(failed)
}

fn found_peers(given: Option<&Path>, console: &Console) -> Result<Vec<Target>> {
    let Some(program) = find_peers(given).map_err(failed)? else {
        console.note(
            "no peers were found, only presets run; build them as bench/peers/README.md says, and \
             name the program by --peers",
        );
        return Ok(Vec::new());
    };
    match list_peers(&program) {
        Ok(peers) => Ok(peers),
        Err(why) if given.is_some() => Err(Failure::Usage(why)),
        Err(why) => {
            console.note(&format!("peers are left out: {why}"));
            Ok(Vec::new())
        }
    }
}

fn baseline(args: &SuiteArgs, targets: &[Target]) -> Result<String> {
    let there = |name: &str| targets.iter().any(|target| target.engine == name);
    if let Some(asked) = &args.baseline {
        let known = there(asked).then(|| asked.clone());
        return known.ok_or_else(|| {
            Failure::Usage(format!("--baseline {asked}: that engine does not take part"))
        });
    }
    let usual = BASELINES.into_iter().find(|name| there(name)).map(str::to_owned);
    Ok(usual.unwrap_or_else(|| targets.first().map_or(String::new(), |t| t.engine.clone())))
}

fn announce(settings: &Settings, console: &Console) {
    let suite = &settings.suite;
    let engines: Vec<_> = settings.targets.iter().map(|target| target.engine.clone()).collect();
    let tasks = plan(suite, &engines).len();
    console.note(&format!(
        "{}: {}; {} engine(s) ({}), {} list(s) of workloads, {} repetition(s): {tasks} tasks, \
         compared with {}",
        suite.name,
        suite.about,
        engines.len(),
        engines.join(", "),
        suite.lists.len(),
        suite.repetitions,
        settings.baseline,
    ));
}

/// The typed command, without arguments that only name places or select a part, so that it can be
/// repeated elsewhere.
fn typed(given: impl Iterator<Item = String>) -> String {
    const DROPPED: [&str; 8] =
        ["--only", "--dir", "--results", "--out", "--markdown", "--brief", "--chart", "--peers"];
    let mut words = vec!["cleave".to_owned()];
    let mut given = given.skip(1);
    while let Some(word) = given.next() {
        let name = word.split('=').next().unwrap_or_default();
        match (DROPPED.contains(&name), name.len() == word.len()) {
            (true, true) => drop(given.next()),
            (true, false) => {}
            _ if word == "--resume" => {}
            _ => words.push(word),
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::typed;

    #[test]
    fn a_command_is_repeated_without_its_places() {
        let line = "/x/cleave bench suite --config ycsb --dir /y --only=a --peers p --resume -q";
        assert_eq!(
            typed(line.split(' ').map(str::to_owned)),
            "cleave bench suite --config ycsb -q"
        );
    }
}
