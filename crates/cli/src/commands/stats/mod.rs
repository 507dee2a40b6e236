//! `stats`: the content of the database and its cost, with the meaning of each figure.

mod hot;
mod work;
mod json;

use std::fmt;

use cleavedb::metrics::{DirectoryMetrics, LevelMetrics};
use cleavedb::reports::RecoveryReport;
use cleavedb::{Db, FileClass, Metrics, Options};
use cleavedb_named::decisions;
use cleavedb_units::{self as units, counted};

use crate::args::StatsArgs;
use crate::console::Console;
use crate::failure::{Exit, Failure, Result};
use crate::global::Global;
use crate::space::{COSTS, Space, cost};
use crate::store;
use hot::Hot;

/// Most value files that are listed as text.
const FILES_MAX: usize = 24;

struct Stats<'a> {
    /// Whether the text has every figure.
    all: bool,
    path: String,
    options: &'a Options,
    /// What the open found.
    opened: &'a RecoveryReport,
    /// The directories of its files, its own first.
    directories: Vec<DirectoryMetrics>,
    space: Space,
    metrics: Metrics,
}

impl<'a> Stats<'a> {
    fn new(db: &'a Db, all: bool, global: &Global) -> Result<Self> {
        Ok(Self {
            all,
            path: global.db.display().to_string(),
            options: db.options(),
            opened: db.recovery_report(),
            directories: db.directories()?,
            space: Space::of(db, &global.db),
            metrics: db.metrics(),
        })
    }

    /// Sorted runs that a look-up may visit.
    fn runs(&self) -> usize {
        self.metrics.levels.iter().map(|level| level.runs).sum()
    }

    fn separates(&self) -> bool {
        self.options.min_separated.is_some()
    }

    /// Places of files, if there are several directories.
    fn directories(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.directories.len() < 2 {
            return Ok(());
        }
        writeln!(f, "\ndirectories: files, and the classes that are created there")?;
        for directory in &self.directories {
            let classes: Vec<_> = directory.classes.iter().copied().map(FileClass::name).collect();
            let classes =
                if classes.is_empty() { "nothing new".to_owned() } else { classes.join(", ") };
            let capacity = directory.capacity.map(units::bytes);
            writeln!(
                f,
                "  {}: {classes}; {}, {}{}, {} free",
                directory.path,
                counted(directory.files as u64, "file"),
                units::bytes(directory.bytes),
                capacity.map_or(String::new(), |capacity| format!(" of {capacity}")),
                units::bytes(directory.free),
            )?;
        }
        Ok(())
    }

    fn index(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nindex: sorted tables of keys, with pointers to values or the values")?;
        if self.metrics.levels.is_empty() {
            return writeln!(f, "  no tables yet");
        }
        let titles = ["level", "tables", "runs", "size", "entries", "deletes"];
        writeln!(
            f,
            "  {:>5} {:>8} {:>6} {:>12} {:>14} {:>12}",
            titles[0], titles[1], titles[2], titles[3], titles[4], titles[5]
        )?;
        for level in &self.metrics.levels {
            writeln!(
                f,
                "  {:>5} {:>8} {:>6} {:>12} {:>14} {:>12}",
                level.level,
                level.tables,
                level.runs,
                units::bytes(level.bytes),
                units::thousands(level.entries as f64),
                units::thousands(level.tombstones as f64),
            )?;
        }
        Ok(())
    }

    fn values(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = match (self.separates(), self.metrics.groups, self.metrics.reserve_bytes) {
            (false, ..) => "log files: recent writes, which flushes move to tables",
            (true, 0, _) => "value files: the log, and segments of values moved by collection",
            (true, _, 0) => "value files: the log until it is flushed, then groups by key range",
            (true, ..) => {
                "value files: the log until it is flushed, then groups by hash of the key"
            }
        };
        writeln!(f, "\n{title}")?;
        for file in self.metrics.value_files.iter().take(FILES_MAX) {
            let live = units::bytes(file.live);
            match file.bytes {
                Some(bytes) => {
                    let share = 100.0 * file.live as f64 / bytes.max(1) as f64;
                    let bytes = units::bytes(bytes);
                    writeln!(f, "  {:16} {bytes:>12} {live:>12} live {share:>4.0}%", file.name)?;
                }
                None => writeln!(f, "  {:16} {:>12}", file.name, "in use")?,
            }
        }
        let more = self.metrics.value_files.len().saturating_sub(FILES_MAX);
        if more > 0 {
            writeln!(f, "  and {} more; --json lists all", units::thousands(more as f64))?;
        }
        if !self.separates() {
            return Ok(());
        }
        if self.metrics.groups > 0 {
            let take = if self.metrics.groups == 1 { "takes" } else { "take" };
            write!(f, "  {}", counted(self.metrics.groups as u64, "group"))?;
            let records = self.metrics.group_records.iter();
            if let (Some(least), Some(most)) = (records.clone().min(), records.max()) {
                let range = if least == most { String::new() } else { format!("{least} to ") };
                write!(f, " of {range}{}", counted(*most, "record"))?;
            }
            if self.metrics.reserve_bytes > 0 {
                let (used, of) = (self.metrics.reserve_used, self.metrics.reserve_bytes);
                write!(
                    f,
                    ", which {take} {} of a reserve of {}",
                    units::bytes(used),
                    units::bytes(of)
                )?;
            }
            if self.metrics.cold_log_bytes > 0 {
                let (tags, bytes) =
                    (counted(self.metrics.tags, "tag"), self.metrics.cold_log_bytes);
                write!(f, ", {tags}, {} in the cold log", units::bytes(bytes))?;
            }
            writeln!(f)?;
        }
        if let Some(hot) = &self.metrics.hot {
            write!(f, "{}", Hot(hot))?;
        }
        writeln!(
            f,
            "  {} live, {} dead, of which {} are estimated: not compacted yet",
            units::bytes(self.space.live_bytes),
            units::bytes(self.space.dead_bytes()),
            units::bytes(self.space.hidden_bytes),
        )
    }

    /// The index and the values outside it, a line each.
    fn brief(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&LevelMetrics) -> u64| self.metrics.levels.iter().map(of).sum::<u64>();
        writeln!(
            f,
            "\nindex: {} of {}, {}",
            counted(sum(|level| level.tables as u64), "table"),
            counted(sum(|level| level.entries), "entry"),
            units::bytes(sum(|level| level.bytes)),
        )?;
        if self.separates() {
            writeln!(
                f,
                "values outside it: {}, {} live, {} dead",
                counted(self.metrics.value_files.len() as u64, "file"),
                units::bytes(self.space.live_bytes),
                units::bytes(self.space.dead_bytes()),
            )?;
        }
        Ok(())
    }

    fn amplification(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{COSTS}")?;
        writeln!(
            f,
            "  space {:>6}  bytes of value files and tables per live byte",
            cost(self.space.space_amplification, self.space.data_bytes),
        )?;
        if self.separates() {
            let floor = units::bytes(self.options.tuning.space_floor);
            let goal = self.options.space_amplification;
            writeln!(
                f,
                "                collection begins by itself above {goal:.2}, if {floor} are dead"
            )?;
        }
        if let (Some(limit), Some(used)) = (self.metrics.space_limit, self.metrics.space_used) {
            let (used, limit) = (units::bytes(used), units::bytes(limit));
            writeln!(f, "                {used} in use of the limit of {limit}")?;
        }
        if let Some(oldest) = self.metrics.oldest_change {
            let kept = units::bytes(self.metrics.retained_log_bytes);
            let of_log = format!(
                "{kept} of log in {}",
                counted(self.metrics.retained_log_files as u64, "file")
            );
            writeln!(f, "                {of_log} kept for changes, from number {oldest} on")?;
        }
        if !self.all {
            return work::ratio(&self.metrics, f);
        }
        writeln!(f, "  read  {:>6}  sorted runs that a look-up may visit", self.runs())?;
        let bits = self.options.tuning.filter_bits;
        let value = if self.separates() { ", then one read of the value" } else { "" };
        writeln!(
            f,
            "                filters of {bits} bits a key skip nearly all that lack the key{value}"
        )?;
        work::ratio(&self.metrics, f)?;
        work::history(&self.metrics, f)
    }
}

impl fmt::Display for Stats<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "about {} of keys and values, in {} on disk",
            units::bytes(self.space.data_bytes),
            units::bytes(self.space.disk_bytes)
        )?;
        match self.options.min_separated {
            Some(least @ 1..) => writeln!(
                f,
                "{}: preset {}, values of {} and more leave the index",
                self.path,
                self.options.chosen_preset().name(),
                counted(least as u64, "byte")
            )?,
            _ => writeln!(f, "{}: preset {}", self.path, self.options.chosen_preset().name())?,
        }
        writeln!(f, "{}", self.options.layout())?;
        if self.all {
            writeln!(f, "decided: {}", decisions::text(&self.metrics.decisions))?;
            work::machine(&self.metrics, f)?;
        }
        if self.space.unflushed_bytes > 0 {
            let bytes = units::bytes(self.space.unflushed_bytes);
            writeln!(f, "{bytes} of the log are not flushed to tables yet")?;
        }
        if self.opened.operations > 0 || self.opened.bytes_cut > 0 {
            writeln!(
                f,
                "not closed in good order last time: {} replayed, {} behind the last whole \
                 write cut",
                counted(self.opened.operations, "operation"),
                units::bytes(self.opened.bytes_cut),
            )?;
        }
        self.directories(f)?;
        if !self.all {
            self.brief(f)?;
            self.amplification(f)?;
            work::problems(&self.metrics, f)?;
            return writeln!(f, "\n--all shows levels, files, memory, and what was done");
        }
        self.index(f)?;
        self.values(f)?;
        self.amplification(f)?;
        work::session(&self.metrics, f)?;
        work::latencies(&self.metrics, f)?;
        work::problems(&self.metrics, f)
    }
}

pub(super) fn run(args: &StatsArgs, global: &Global, console: &Console) -> Result<Exit> {
    if args.prometheus && console.json() {
        let message = "--prometheus is a format of its own; leave out --json";
        return Err(Failure::Usage(message.to_owned()));
    }
    let db = store::open_or_follow(global, console)?;
    let printed = match args.prometheus {
        true => {
            let path = global.db.display().to_string();
            console.write(db.metrics().to_prometheus(&[("db", &path)]).as_bytes())
        }
        false => print(&db, args.all, global, console),
    };
    store::closed(db, printed)?;
    Ok(Exit::Done)
}

/// Prints the statistics of an open database.
pub(super) fn print(db: &Db, all: bool, global: &Global, console: &Console) -> Result<()> {
    let stats = Stats::new(db, all, global)?;
    if console.json() {
        console.json_line(&json::object(&stats))
    } else {
        console.write(stats.to_string().as_bytes())
    }
}
