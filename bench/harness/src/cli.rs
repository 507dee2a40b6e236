//! The command line of a benchmark, shared by every binary that has engines to run.

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::builder::ArgPredicate;
use clap::{Args, ValueEnum};

use crate::config::Config;
use crate::distribution::{Distribution, Ranks, Skew, ZIPFIAN_CONSTANT};
use crate::engine::{MINIATURE, Opener};
use crate::error::{BenchError, Result};
use crate::features::{self, Asked};
use crate::keys::{KeyOrder, KeySize};
use crate::null::harness_cost;
use crate::observer::{Observer, Silent};
use crate::output::{Output, Reader};
use crate::pace::Rate;
use crate::progress::{Bar, say};
use crate::recording::RecordingOpener;
use crate::result::{Line, PhaseResult, Verification};
use crate::scratch::Scratch;
use crate::session::Session;
use crate::sizes::ValueSizes;
use crate::system::machine::Machine;
use crate::system::{Device, DiskLimits, MemoryLimit};
use crate::table;
use crate::trace::{Replay, Trace};
use crate::turns::Turns;
use crate::units;
use crate::warm::WarmUp;
use crate::workload::{Action, BUNDLES, TRACE, WORKLOADS, Workload, select};

/// Sizes of data with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scale {
    /// 200,000 records of 1 KiB: 0.2 GiB
    Quick,
    /// 2,000,000 records of 1 KiB: 2 GiB
    Standard,
    /// 10,000,000 records of 100 bytes: 1.2 GiB
    Small,
    /// 32,000 records of 64 KiB: 2 GiB
    Large,
    /// 2,000,000 records of 992 bytes: the pairs of 1 KiB of the HashKV paper, 2 GiB
    Hashkv,
}

impl Scale {
    /// Records, and bytes of a value.
    pub fn size(self) -> (u64, usize) {
        match self {
            Self::Quick => (200_000, 1024),
            Self::Standard => (2_000_000, 1024),
            Self::Small => (10_000_000, 100),
            Self::Large => (32_000, 64 * 1024),
            Self::Hashkv => (2_000_000, 992),
        }
    }
}

/// What to run, on how much data, under which conditions.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// Workloads or bundles of them, separated by commas, run in this order on one store
    #[arg(
        short,
        long,
        value_delimiter = ',',
        default_value = "basic",
        default_value_if("trace", ArgPredicate::IsPresent, "trace"),
        value_name = "NAME,.."
    )]
    pub workload: Vec<String>,
    /// List the workloads and bundles, and exit
    #[arg(long)]
    pub list: bool,
    /// Measure this feature once, in place of workloads (`cleave bench features --list` names
    /// them); NAME/N for an Nth of its records and times
    #[arg(long, value_name = "NAME")]
    pub feature: Option<Asked>,
    /// Measure the harness itself with an engine that does nothing, and exit
    #[arg(long)]
    pub self_check: bool,
    /// Records and value size by name
    #[arg(long, value_enum, default_value = "standard")]
    pub scale: Scale,
    /// Records of a load, in place of the scale's (2M, 200k)
    #[arg(long, value_parser = units::parse)]
    pub records: Option<u64>,
    /// Bytes of a value, in place of the scale's (1KiB, 100B)
    #[arg(long, value_parser = units::parse)]
    pub value_size: Option<u64>,
    /// Client threads
    #[arg(short, long, default_value_t = 1)]
    pub threads: u32,
    /// Measured operations of each workload but loads, in place of its own share of the records
    #[arg(long, value_parser = units::parse)]
    pub operations: Option<u64>,
    /// Seconds after which a workload (but a load, or a pass of updates) ends
    #[arg(long, value_name = "SECONDS")]
    pub duration: Option<f64>,
    /// Start measuring at once
    #[arg(long)]
    pub no_warm_up: bool,
    /// Do not compare the whole store with what was written, at the end
    #[arg(long)]
    pub no_verify: bool,
    /// Directory for the data: a new one, or one that a benchmark made; deleted at the end
    #[arg(long, default_value = "bench-data")]
    pub dir: PathBuf,
    /// Leave the data where it is
    #[arg(long)]
    pub keep: bool,
    /// Limit on memory, page cache included (1GiB); needs root, or a control group of one's own
    #[arg(long, value_parser = units::parse)]
    pub memory_limit: Option<u64>,
    /// Seed of all that is random
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Append results as JSON lines to this file
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,
    /// No progress: neither a bar nor a row for each workload as it ends
    #[arg(short, long)]
    pub quiet: bool,
    /// How large values are, in place of one size for all: uniform:LEAST:MOST, pareto (Meta's),
    /// pareto:MEAN, zipfian:LEAST:MOST, two:SMALL:LARGE:PERCENT_SMALL
    #[arg(long, value_name = "SIZES")]
    pub value_sizes: Option<ValueSizes>,
    /// Which key a record has, and in which order a load inserts: hashed, but shuffled if a
    /// workload has hot key ranges, or takes the first key
    #[arg(long, value_enum, value_name = "ORDER")]
    pub key_order: Option<KeyOrder>,
    /// Bytes of a key: 24 as in YCSB, 16 as in db_bench
    #[arg(long, value_enum, value_name = "BYTES", hide_possible_values = true)]
    #[arg(default_value = "24")]
    pub key_size: KeySize,
    /// Bytes of a load, keys included: as many records as they hold, in place of --records
    #[arg(long, value_parser = units::parse, conflicts_with = "records", value_name = "BYTES")]
    pub data: Option<u64>,
    /// A store in miniature: an Nth of the records, and an Nth of all that the engine sizes by its
    /// data, as set: MemTables, caches, tables, levels, segments
    #[arg(
        long,
        value_parser = clap::value_parser!(u64).range(1..),
        default_value_t = 1,
        value_name = "N"
    )]
    pub miniature: u64,
    /// Constant of the Zipfian distributions
    #[arg(long, default_value_t = ZIPFIAN_CONSTANT, value_name = "CONSTANT")]
    pub zipfian: f64,
    /// Ranks that the Zipfian distributions draw and fold onto the records. With ten billion, as in
    /// YCSB, about half of all requests are spread evenly; with `records`, one for each, few are
    #[arg(long, default_value = "10G", value_name = "COUNT")]
    pub zipfian_ranks: Ranks,
    /// Operations after which the popular records of moving workloads are replaced by others, in
    /// place of a tenth of the number of records
    #[arg(long, value_parser = units::parse, value_name = "COUNT")]
    pub moves_every: Option<u64>,
    /// Records of every scan, in place of the workload's own number
    #[arg(long, value_name = "RECORDS")]
    pub scan_length: Option<usize>,
    /// Operations before the measurement of each workload but loads, in place of its own number;
    /// `still`: as many as there are records, and more until no hot store gains or loses keys
    #[arg(long, conflicts_with = "no_warm_up", value_name = "COUNT")]
    pub warm_up: Option<WarmUp>,
    /// Begin RATE operations a second, whether the engine keeps up or not, in all workloads but
    /// loads; a latency then counts from the intended start. RATE:SHARE:SECONDS rises and falls by
    /// a share as a sine: 4500:0.22:60
    #[arg(long, value_name = "RATE")]
    pub rate: Option<Rate>,
    /// Replay a trace: the workload `trace`, alone or where -w names it
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Begin the operations of the trace when they were recorded, not as soon as possible
    #[arg(long, requires = "trace")]
    pub trace_timed: bool,
    /// Write all that the engine is asked for to this file, as a trace
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Measure the disk first, some seconds: sequential, random at depths 1, 8 and 32, sync
    #[arg(long)]
    pub disk: bool,
    /// Run in pieces, as `bench quick` does: --duration is for workloads that only read, in slices
    /// of a quarter of a second; others write in four parts, and finish background work after each
    #[arg(long)]
    pub pieces: bool,
    /// Wait for a line on standard input before each piece: a suite runs several programs in turn
    #[arg(long, hide = true)]
    pub turns: bool,
    /// Set an option of the engine, where it has one of that name; may be repeated
    #[arg(long = "option", value_parser = name_and_value, value_name = "NAME=VALUE")]
    pub options: Vec<(String, String)>,
}

impl BenchArgs {
    /// The engine of `opener` with the options that are asked for; `None` if none are.
    pub fn configured(&self, opener: &dyn Opener) -> Result<Option<Box<dyn Opener>>> {
        // The last one: it divides what the others set.
        let miniature = (MINIATURE.to_owned(), self.miniature.to_string());
        let mut options = self.options.clone();
        options.extend((self.miniature > 1).then_some(miniature));
        (!options.is_empty()).then(|| opener.configured(&options)).transpose()
    }

    /// A recording of what stores of `opener` are asked for, if one is wanted.
    pub fn recording<'a>(&self, opener: &'a dyn Opener) -> Result<Option<RecordingOpener<'a>>> {
        self.record.as_deref().map(|path| RecordingOpener::new(opener, path)).transpose()
    }
}

/// Splits `NAME=VALUE`.
fn name_and_value(text: &str) -> std::result::Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl BenchArgs {
    /// The size of the run.
    pub fn config(&self) -> Result<Config> {
        let (records, value_size) = self.scale.size();
        let value_size = self.value_size.map_or(value_size, |size| size as usize);
        let duration = self.duration.map(Duration::try_from_secs_f64).transpose();
        let duration =
            duration.map_err(|error| BenchError::Usage(format!("--duration: {error}")))?;
        let replay = self.trace.as_deref().map(Trace::open).transpose()?;
        let replay = replay.map(|trace| Replay { trace: Arc::new(trace), timed: self.trace_timed });
        let config = Config {
            value_sizes: self.value_sizes.unwrap_or(ValueSizes::Fixed(value_size)),
            key_order: self.key_order.unwrap_or(key_order_of(&select(&self.workload)?)),
            key_size: self.key_size,
            skew: Skew { constant: self.zipfian, moves_every: self.moves_every, ..Skew::default() },
            scan_length: self.scan_length,
            threads: self.threads,
            seed: self.seed,
            operations: self.operations,
            duration,
            warm_up: if self.no_warm_up { Some(WarmUp::Operations(0)) } else { self.warm_up },
            rate: self.rate,
            replay,
            in_pieces: self.pieces,
            verify: !self.no_verify,
            ..Config::new(self.records.unwrap_or(records), value_size)
        };
        config.validate()?;
        let records = self.data.map(|bytes| bytes / config.record_bytes());
        let records = (records.unwrap_or(config.records) / self.miniature).max(1);
        let skew = Skew { ranks: self.zipfian_ranks.of(records), ..config.skew };
        Ok(Config { records, skew, ..config })
    }
}

/// Ranges of keys are neighbours, and the first key is the oldest, only if keys are not hashed.
fn key_order_of(workloads: &[Workload]) -> KeyOrder {
    let ascends = |workload: &Workload| {
        workload.distribution == Distribution::KeyRanges || workload.share(Action::Expire) > 0
    };
    if workloads.iter().any(ascends) { KeyOrder::Shuffled } else { KeyOrder::Hashed }
}

/// Everything that a run yielded.
#[derive(Clone, Debug)]
pub struct Report {
    /// The phases, in order.
    pub phases: Vec<PhaseResult>,
    /// The check at the end, if one was made.
    pub verification: Option<Verification>,
}

impl Report {
    /// Whether every value was right.
    pub fn passed(&self) -> bool {
        let phases = self.phases.iter().all(|phase| phase.problems() == 0);
        phases && self.verification.as_ref().is_none_or(Verification::passed)
    }
}

/// The conditions of a run, once they are in force.
struct Begun {
    /// The memory limit; `None` if none was asked for, or if it could not be set.
    limit: Option<MemoryLimit>,
    /// What a reader has to know before believing the numbers.
    warnings: Vec<String>,
    /// The lines that a result file begins with: the run, and the disk if it is to be measured.
    lines: Vec<Line>,
}

impl Begun {
    /// Measures the disk and limits memory as `args` ask for.
    fn under(args: &BenchArgs) -> Result<Self> {
        let machine = Machine::here();
        let mut warnings: Vec<_> = machine.noise().into_iter().collect();
        warnings.extend(Device::uncounted(&args.dir)?);
        let disk = args.disk.then(|| DiskLimits::measure(&args.dir)).transpose()?;
        let limit = args.memory_limit.map(MemoryLimit::set).transpose();
        let limit = limit.unwrap_or_else(|warning| {
            warnings.push(warning);
            None
        });
        let command = env::args().collect::<Vec<_>>().join(" ");
        let run = Line::Run { machine, command, warnings: warnings.clone() };
        Ok(Self { limit, warnings, lines: [run].into_iter().chain(disk.map(Line::Disk)).collect() })
    }
}

/// Does what `args` ask for on the engine of `opener`; prints what happens to standard error, and
/// the summary to standard output.
pub fn run(args: &BenchArgs, opener: &dyn Opener) -> Result<Report> {
    run_for(args, opener, None)
}

/// Does what `args` ask for, as [`run`]; if there is a `reader` of the results, nothing is said in
/// words but the progress.
pub fn run_for(
    args: &BenchArgs,
    opener: &dyn Opener,
    reader: Option<&mut dyn Reader>,
) -> Result<Report> {
    let nothing = Report { phases: Vec::new(), verification: None };
    if args.list {
        print(&list())?;
        return Ok(nothing);
    }
    let (config, workloads) = (args.config()?, select(&args.workload)?);
    if args.self_check {
        print(&self_check(&config, &workloads)?)?;
        return Ok(nothing);
    }
    let configured = args.configured(opener)?;
    let opener = configured.as_deref().unwrap_or(opener);
    let recording = args.recording(opener)?;
    let opener = recording.as_ref().map_or(opener, |recording| recording);
    let scratch = Scratch::claim(&args.dir)?;
    let begun = Begun::under(args)?;
    let mut output = Output::open(args.results.as_deref(), reader)?;
    let words = !args.quiet && !output.is_read();
    if words && args.feature.is_none() {
        announce(opener.name(), &config, &begun);
    }
    begun.warnings.iter().for_each(|warning| output.note(&format!("WARNING: {warning}")));
    begun.lines.iter().try_for_each(|line| output.write(line))?;
    if let Some(feature) = args.feature {
        let results = features::run(feature, opener, &scratch, args.seed)?;
        results.iter().try_for_each(|result| output.write(&Line::Feature(result.clone())))?;
        if words {
            print(&table::feature(&results))?;
        }
        if !args.keep {
            scratch.delete()?;
        }
        return Ok(nothing);
    }
    let limit = begun.limit.as_ref();
    let report = measure(args, opener, config, &workloads, &scratch, limit, &mut output);
    if let Some(recording) = &recording {
        // What was recorded until a failure is a trace too.
        output.note(&recording.finish()?);
    }
    let report = report?;
    if !output.is_read() {
        print(&summary(&report))?;
    }
    if !args.keep {
        scratch.delete()?;
    }
    Ok(report)
}

/// Runs the workloads; each result is written as soon as it is there.
fn measure(
    args: &BenchArgs,
    opener: &dyn Opener,
    config: Config,
    workloads: &[Workload],
    scratch: &Scratch,
    limit: Option<&MemoryLimit>,
    output: &mut Output<'_>,
) -> Result<Report> {
    let bar = (!args.quiet).then(Bar::new);
    let words = !args.quiet && !output.is_read();
    let observer: &dyn Observer = bar.as_ref().map_or(&Silent, |bar| bar);
    let session = Session::new(opener, scratch, config, limit, observer)?;
    let mut session = session.taking(if args.turns { Turns::Given } else { Turns::Own });
    let mut phases = Vec::new();
    for workload in workloads {
        let result = session.run(workload)?;
        if words && phases.is_empty() {
            say_above(bar.as_ref(), &settings(&result));
        }
        if words {
            say_above(bar.as_ref(), &one_line(&result));
        }
        output.write(&Line::Phase(Box::new(result.clone())))?;
        phases.push(result);
    }
    let verification = if args.no_verify { None } else { Some(session.verify()?) };
    if let Some(found) = &verification {
        let engine = opener.name().to_owned();
        output.write(&Line::Verification { engine, found: found.clone() })?;
    }
    session.close()?;
    Ok(Report { phases, verification })
}

fn announce(engine: &str, config: &Config, begun: &Begun) {
    let data = units::bytes(config.records * config.record_bytes());
    let limited = begun.limit.as_ref().map_or("no memory limit".to_owned(), |limit| {
        format!("memory limited to {} with page cache", units::bytes(limit.bytes()))
    });
    say(format_args!(
        "{engine}: {} records of {} bytes ({data} with keys), {} client(s), seed {}, {limited}",
        units::thousands(config.records as f64),
        config.value_sizes,
        config.threads,
        config.seed,
    ));
    for line in &begun.lines {
        if let Line::Disk(limits) = line {
            say(limits);
        }
    }
}

fn settings(result: &PhaseResult) -> String {
    let settings: Vec<_> =
        result.settings.iter().map(|(name, value)| format!("  {name} = {value}")).collect();
    format!("settings of {}:\n{}", result.engine, settings.join("\n"))
}

fn one_line(result: &PhaseResult) -> String {
    let warm = result.warm.as_ref().map_or(String::new(), |it| format!(", warm: {}", it.words()));
    format!(
        "{:16} {:>10} op/s {:>10} settled {:>9} us p50 {:>9} us p99  {} on disk{warm}",
        result.workload,
        units::thousands(result.per_second()),
        units::thousands(result.settled_per_second()),
        units::short(result.latency.p50_us),
        units::short(result.latency.p99_us),
        units::bytes(result.space.end.allocated),
    )
}

fn summary(report: &Report) -> String {
    let mut lines = vec![table::speed(&report.phases), table::cost(&report.phases)];
    lines.extend(table::state(&report.phases));
    lines.extend(table::problems(&report.phases));
    lines.extend(report.verification.as_ref().map(table::verification));
    lines.join("\n")
}

fn list() -> String {
    let entries = WORKLOADS.iter().chain([&TRACE]);
    let workloads = entries.map(|entry| format!("  {:16} {}", entry.name, entry.about));
    let bundles = BUNDLES.iter().map(|(name, list)| format!("  {name:16} {}", list.join(", ")));
    let lines: Vec<_> = ["workloads:".to_owned()]
        .into_iter()
        .chain(workloads)
        .chain(["bundles:".to_owned()])
        .chain(bundles)
        .collect();
    lines.join("\n")
}

fn self_check(config: &Config, workloads: &[Workload]) -> Result<String> {
    let mut lines = vec![format!("harness' own time per operation, {} bytes:", config.value_sizes)];
    for workload in workloads {
        let cost = harness_cost(&config.adjusted(workload), config)?.as_nanos();
        lines.push(format!("  {:16} {:>6} ns", workload.name, cost));
    }
    Ok(lines.join("\n"))
}

fn say_above(bar: Option<&Bar>, line: &str) {
    match bar {
        Some(bar) => bar.say(line),
        None => say(line),
    }
}

/// Prints to standard output; a closed pipe is no error, the reader has seen enough.
fn print(text: &str) -> Result<()> {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(BenchError::io("write to", Path::new("standard output"))(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::BenchArgs;
    use crate::experiments::{Experiment, all};

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        bench: BenchArgs,
    }

    #[test]
    fn every_run_of_every_experiment_can_be_typed() {
        let mut count = 0;
        for run in all().flat_map(Experiment::runs) {
            let line = ["bench".to_owned()].into_iter().chain(run.arguments);
            let parsed = Program::try_parse_from(line).map_err(|error| error.to_string());
            let config = parsed
                .and_then(|program| program.bench.config().map_err(|error| error.to_string()));
            assert!(config.is_ok(), "{}", run.label);
            count += 1;
        }
        assert!(count > 150, "{count}");
    }

    #[test]
    fn data_says_how_many_records_there_are() {
        let records = |line: &[&str]| {
            let line = ["bench", "--value-size", "1000"].iter().chain(line);
            Program::try_parse_from(line).unwrap().bench.config().unwrap().records
        };
        assert_eq!(records(&["--data", "1MiB"]), 1024);
        assert_eq!(records(&["--data", "1MiB", "--miniature", "8"]), 128);
        assert_eq!(records(&["--records", "5", "--miniature", "8"]), 1);
        let plain = ["bench", "--zipfian-ranks", "records", "--records", "1k", "--miniature", "8"];
        let config = Program::try_parse_from(plain).unwrap().bench.config().unwrap();
        assert_eq!((config.records, config.skew.ranks), (125, 125));
    }
}
