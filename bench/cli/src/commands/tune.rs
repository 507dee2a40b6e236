//! `tune`: finds the size from which on separation pays, on the user's own disk.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cleavedb::{Db, Durability, Options};
use cleavedb_bench::scratch::Scratch;
use cleavedb_bench::system::Eviction;
use cleavedb_bench::system::machine::Machine;
use cleavedb_bench::tune::search::Next;
use cleavedb_bench::tune::{Curve, Row, Search, Threshold};
use cleavedb_bench::{table, units};
use cleavedb_cli::console::Console;
use cleavedb_cli::failure::{Exit, Failure, Result};
use cleavedb_cli::global::Global;
use cleavedb_cli::interrupt;
use cleavedb_cli::store;
use serde::Serialize;
use serde_json::json;

use crate::countdown::Countdown;
use crate::engine::{CleaveOpener, stays_cached};
use crate::failure::failed;
use crate::tune_args::{Saved, TuneArgs};

/// Data of the simulated store, in bytes: as large as the stores that the presets are measured
/// with. Deeper trees favour separation more.
const IMITATED: u64 = 2 << 30;
/// The directory of the measured stores.
const SCRATCH: &str = "tune-data";

/// The object of the search.
struct Target {
    /// The named path, or else the database of --db.
    path: PathBuf,
    /// Whether it is a database.
    stored: bool,
    /// The options of the database, as far as the arguments do not change them.
    usual: Options,
    /// The directory of the measured stores.
    directory: PathBuf,
}

impl Target {
    fn of(args: &TuneArgs, global: &Global) -> Result<Self> {
        let path = args.dir.as_ref().unwrap_or(&global.db).clone();
        let stored = store::stored(&path)?;
        let is_stored = stored.is_some();
        // The measured stores are small, and only made for the search.
        let usual = store::usual(global, stored);
        let usual = Options { space_limit: None, durability: Durability::Os, ..usual };
        let directory = match (is_stored.then_some(()), &args.dir) {
            (Some(_), _) => beside(&path)?,
            (None, Some(dir)) => dir.clone(),
            (None, None) => parent(&path).to_owned(),
        };
        fs::read_dir(&directory).map_err(Failure::file("list", &directory))?;
        Ok(Self { path, stored: is_stored, usual, directory })
    }

    /// The database, which must exist.
    fn open(&self, global: &Global, console: &Console) -> Result<Db> {
        store::open_existing(&Global { db: self.path.clone(), ..global.clone() }, console)
    }

    /// The current threshold of the database.
    fn present(&self, global: &Global, console: &Console) -> Result<Option<usize>> {
        let db = self.open(global, console)?;
        let present = db.options().min_separated;
        db.close()?;
        Ok(present)
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A directory on the disk of `database`, outside it if possible.
fn beside(database: &Path) -> Result<PathBuf> {
    let device = |path: &Path| {
        fs::metadata(path).map(|found| found.dev()).map_err(Failure::file("examine", path))
    };
    let whole = fs::canonicalize(database).map_err(Failure::file("examine", database))?;
    let same = device(parent(&whole))? == device(&whole)?;
    Ok(if same { parent(&whole).to_owned() } else { whole })
}

/// The result, and the conditions of the measurement.
#[derive(Serialize)]
struct Outcome {
    preset: &'static str,
    directory: PathBuf,
    workload: String,
    durability: String,
    data_bytes: u64,
    /// Whether the stores were in the page cache.
    cached: bool,
    seconds: f64,
    sizes: Vec<Row>,
    /// `at`, `always`, `never`, or `unknown` if it was interrupted early.
    verdict: &'static str,
    /// Length of the shortest value that should be separated, in bytes.
    threshold: Option<usize>,
    /// The nearest sizes for which each alternative is certain.
    surely_inline: Option<usize>,
    surely_separated: Option<usize>,
    /// The threshold of the database so far.
    present: Option<usize>,
    saved: bool,
}

impl Outcome {
    /// Fills in the result of `curve`.
    fn found(mut self, curve: &Curve) -> Self {
        self.sizes = curve.rows();
        (self.verdict, self.threshold) = match curve.threshold() {
            Some(Threshold::At { size, .. }) => ("at", Some(size)),
            Some(Threshold::Always(least)) => ("always", Some(least)),
            Some(Threshold::Never(_)) => ("never", None),
            None => ("unknown", None),
        };
        if let Some(Threshold::At { surely_inline, surely_separated, .. }) = curve.threshold() {
            (self.surely_inline, self.surely_separated) = (surely_inline, surely_separated);
        }
        self
    }

    fn table(&self) -> String {
        let header = ["value", "pairs", "separated op/s", "inline op/s", "ratio", "uncertain by"];
        let row = |row: &Row| {
            let uncertain = 100.0 * (row.uncertainty - 1.0);
            vec![
                format!("{} B", row.value_bytes),
                row.pairs.to_string(),
                units::thousands(row.separated_per_second),
                units::thousands(row.inline_per_second),
                format!("{:.2}", row.ratio),
                format!("{uncertain:.0}%"),
            ]
        };
        let rows: Vec<_> = self.sizes.iter().map(row).collect();
        table::text(&header, &rows, 0..usize::MAX)
    }

    fn certain(&self) -> String {
        match (self.surely_inline, self.surely_separated) {
            (Some(inline), Some(from)) => format!("not up to {inline} B, but from {from} B on"),
            (Some(inline), None) => format!("not up to {inline} B"),
            (None, Some(from)) => format!("from {from} B on"),
            (None, None) => "nothing is certain: use more --time".to_owned(),
        }
    }

    fn sentence(&self) -> String {
        match (self.verdict, self.threshold) {
            ("at", Some(threshold)) => format!(
                "threshold: {threshold} B, from which on separation gains; beyond noise {}",
                self.certain()
            ),
            (_, Some(least)) => format!(
                "threshold: {least} B or less: separation gains at every size that was measured"
            ),
            ("never", _) => "no threshold: values in the index are faster at every size that was \
                             measured; the preset lsm keeps all of them there"
                .to_owned(),
            _ => "no threshold yet: too few sizes were measured".to_owned(),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.cached { "in the page cache" } else { "read from the disk" };
        writeln!(
            f,
            "{} in {}: {} on stores of {}, {place}, durability {}, {:.0} s\n",
            self.preset,
            self.directory.display(),
            self.workload,
            units::bytes(self.data_bytes),
            self.durability,
            self.seconds,
        )?;
        writeln!(f, "{}\n", self.table())?;
        write!(f, "{}", self.sentence())?;
        match (self.saved, self.present) {
            (true, _) => write!(f, "\nsaved: opens that name no threshold use it from now on"),
            (false, Some(present)) => {
                write!(f, "\nthe database has {present} B; --save changes it")
            }
            (false, None) => Ok(()),
        }
    }
}

pub(super) fn run(args: &TuneArgs, global: &Global, console: &Console) -> Result<Exit> {
    let target = Target::of(args, global)?;
    if let Some(saved) = args.set {
        return set(saved, &target, global, console);
    }
    if !target.usual.layout().separates() {
        let message = format!(
            "the preset {} keeps every value in the index; --preset names one that separates them",
            target.usual.chosen_preset()
        );
        return Err(Failure::Usage(message));
    }
    // A database that cannot be opened fails before the search, not after it.
    let present =
        (target.stored || args.save).then(|| target.present(global, console)).transpose()?;
    let mut curve = Curve::default();
    let options = store::options(&global.with_durability(args.durability), target.usual.clone())?;
    let options = Options { volumes: Vec::new(), ..options };
    let (outcome, searched) = search(args, &target, options, &mut curve, console)?;
    let mut outcome = Outcome { present: present.flatten(), ..outcome.found(&curve) };
    let saved = match (&searched, args.save, outcome.threshold) {
        (Ok(()), true, Some(threshold)) => {
            let saved = save(Some(threshold), &target, global, console);
            outcome.saved = saved.is_ok();
            saved
        }
        (Ok(()), true, None) => {
            console.note("there is no threshold to save");
            Ok(())
        }
        _ => Ok(()),
    };
    // A result that took minutes is shown, whatever fails afterwards.
    if searched.is_ok() || curve.pairs() > 0 {
        console.outcome(&outcome)?;
    }
    searched.and(saved).map(|()| Exit::Done)
}

/// Measures stores with `options`, scaled down, until the time is over. An interrupted search
/// returns its curve too.
fn search(
    args: &TuneArgs,
    target: &Target,
    options: Options,
    curve: &mut Curve,
    console: &Console,
) -> Result<(Outcome, Result<()>)> {
    let time = Duration::try_from_secs_f64(args.time);
    let time = time.map_err(|error| Failure::Usage(format!("--time: {error}")))?;
    let phases = Search::phases(&args.workload).map_err(failed)?;
    let durability = options.durability;
    let options = options.miniature(IMITATED.div_ceil(args.data.max(1)));
    let opener =
        |least| CleaveOpener::with(Options { min_separated: Some(least), ..options.clone() });
    let (separated, inline) = (opener(0), opener(usize::MAX));
    if let Some(noise) = Machine::here().noise() {
        console.note(&noise);
    }
    interrupt::watch(console)?;
    let scratch = Scratch::claim(&target.directory.join(SCRATCH)).map_err(failed)?;
    let stay = stays_cached(&options.layout());
    let eviction = (!args.cached).then(|| Eviction::of(&target.directory.join(SCRATCH), stay));
    let countdown = Countdown::new(console, "tune", time);
    let begins = |curve: &Curve, next: Next| countdown.say(describe(curve, next));
    let searched = Search {
        separated: &separated,
        inline: &inline,
        scratch: &scratch,
        phases,
        data: args.data,
        time,
        observer: &countdown,
    }
    .run(curve, &begins);
    let seconds = countdown.elapsed().as_secs_f64();
    drop((countdown, eviction));
    let deleted = scratch.delete();
    let searched = match searched.and(deleted) {
        Err(_) if interrupt::interrupted() => Err(Failure::Interrupted),
        other => other.map_err(failed),
    };
    let outcome = Outcome {
        preset: target.usual.chosen_preset().name(),
        directory: target.directory.clone(),
        workload: args.workload.clone(),
        durability: format!("{durability:?}").to_lowercase(),
        data_bytes: args.data,
        cached: args.cached,
        seconds,
        sizes: Vec::new(),
        verdict: "unknown",
        threshold: None,
        surely_inline: None,
        surely_separated: None,
        present: None,
        saved: false,
    };
    Ok((outcome, searched))
}

/// The current measurement, and the results so far.
fn describe(curve: &Curve, next: Next) -> String {
    let Next { value_bytes, pair, separated } = next;
    let how = if separated { "separated" } else { "inline" };
    let known = match curve.threshold() {
        Some(Threshold::At { size, .. }) => format!("; so far {size} B"),
        _ => String::new(),
    };
    format!("{value_bytes} B, pair {pair}, {how}{known}")
}

fn save(least: Option<usize>, target: &Target, global: &Global, console: &Console) -> Result<()> {
    let db = target.open(global, console)?;
    db.default_keyspace().store_min_separated(least)?;
    db.close()?;
    Ok(())
}

/// Stores the threshold given by the user.
fn set(saved: Saved, target: &Target, global: &Global, console: &Console) -> Result<Exit> {
    let least = match saved {
        Saved::Default => None,
        Saved::Least(least) => Some(least),
    };
    save(least, target, global, console)?;
    if console.json() {
        console.json_line(&json!({ "threshold": least, "saved": true }))?;
    } else {
        let what = least.map_or("the preset's own".to_owned(), |least| format!("{least} B"));
        console.line(format!("threshold: {what}; opens that name none use it from now on"))?;
    }
    Ok(Exit::Done)
}
