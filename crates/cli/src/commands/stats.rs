//! `stats`: the content of the database and its cost, with the meaning of each figure.

use std::fmt;

use cleavedb::{Db, DirectoryMetrics, FileClass, LevelMetrics, Options, ValueFileMetrics};
use cleavedb_units::{self as units, counted};
use serde::Serialize;

use crate::args::StatsArgs;
use crate::console::Console;
use crate::failure::{Exit, Failure, Result};
use crate::global::Global;
use crate::hot::HotStore;
use crate::space::{COSTS, Space, cost};
use crate::store;
use crate::vitals::Vitals;

/// Most value files that are listed as text.
const FILES_MAX: usize = 24;

#[derive(Serialize)]
struct Stats {
    /// Whether the text has every figure.
    #[serde(skip)]
    all: bool,
    path: String,
    preset: &'static str,
    /// How values are kept, in words.
    layout: String,
    /// Operations that the open replayed.
    replayed_operations: u64,
    bytes_cut: u64,
    /// The directories of its files, its own first.
    directories: Vec<Directory>,
    levels: Vec<Level>,
    value_files: Vec<ValueFile>,
    space: Space,
    dead_bytes: u64,
    /// Space amplification above which the store collects, and dead bytes that are always
    /// tolerated.
    space_goal: f64,
    space_floor: u64,
    /// The space limit, and the space in use, if there is a limit.
    space_limit: Option<u64>,
    space_used: Option<u64>,
    /// Bytes of the log that are kept for changes alone.
    retained_log_bytes: u64,
    retained_log_files: usize,
    /// Sequence number of the oldest change, if changes are kept.
    oldest_change: Option<u64>,
    /// Sorted runs that a look-up may visit.
    runs: usize,
    filter_bits: usize,
    separates: bool,
    /// Length of the shortest value that is separated, in bytes.
    separated_from: Option<usize>,
    /// Groups of values; 0 if the preset has none.
    groups: usize,
    /// Records of each group, in the order of their bounds.
    group_records: Vec<u64>,
    reserve_used: u64,
    reserve_bytes: u64,
    /// Values of groups that were not updated, and their bytes in the cold log.
    tags: u64,
    cold_log_bytes: u64,
    /// The hot store, if there is one.
    hot: Option<HotStore>,
    #[serde(flatten)]
    vitals: Vitals,
}

#[derive(Serialize)]
struct Directory {
    path: String,
    classes: Vec<&'static str>,
    capacity: Option<u64>,
    files: usize,
    bytes: u64,
    free: u64,
}

impl From<DirectoryMetrics> for Directory {
    fn from(from: DirectoryMetrics) -> Self {
        let DirectoryMetrics { path, classes, capacity, files, bytes, free } = from;
        let classes = classes.into_iter().map(FileClass::name).collect();
        Self { path, classes, capacity, files, bytes, free }
    }
}

#[derive(Serialize)]
struct Level {
    level: usize,
    tables: usize,
    runs: usize,
    bytes: u64,
    entries: u64,
    tombstones: u64,
}

impl From<LevelMetrics> for Level {
    fn from(from: LevelMetrics) -> Self {
        let LevelMetrics { level, tables, runs, bytes, entries, tombstones } = from;
        Self { level, tables, runs, bytes, entries, tombstones }
    }
}

#[derive(Serialize)]
struct ValueFile {
    name: String,
    /// Unknown while the file is written.
    bytes: Option<u64>,
    live: u64,
}

impl From<ValueFileMetrics> for ValueFile {
    fn from(from: ValueFileMetrics) -> Self {
        let ValueFileMetrics { name, bytes, live } = from;
        Self { name, bytes, live }
    }
}

impl Stats {
    fn new(db: &Db, all: bool, global: &Global) -> Result<Self> {
        let space = Space::of(db, &global.db);
        let (metrics, opened) = (db.metrics(), db.recovery_report());
        let vitals = Vitals::of(&metrics);
        let Options { preset, layout, min_separated, space_amplification, .. } = *db.options();
        let Options { space_floor, filter_bits, .. } = *db.options();
        let (levels, value_files) = (metrics.levels, metrics.value_files);
        Ok(Self {
            all,
            directories: db.directories()?.into_iter().map(Directory::from).collect(),
            path: global.db.display().to_string(),
            preset: preset.name(),
            layout: layout.to_string(),
            replayed_operations: opened.operations,
            bytes_cut: opened.bytes_cut,
            runs: levels.iter().map(|level| level.runs).sum(),
            levels: levels.into_iter().map(Level::from).collect(),
            value_files: value_files.into_iter().map(ValueFile::from).collect(),
            dead_bytes: space.dead_bytes(),
            space,
            space_goal: space_amplification,
            space_floor,
            space_limit: metrics.space_limit,
            space_used: metrics.space_used,
            retained_log_bytes: metrics.retained_log_bytes,
            retained_log_files: metrics.retained_log_files,
            oldest_change: metrics.oldest_change,
            filter_bits,
            separates: min_separated.least().is_some(),
            separated_from: min_separated.least(),
            groups: metrics.groups,
            group_records: metrics.group_records,
            reserve_used: metrics.reserve_used,
            reserve_bytes: metrics.reserve_bytes,
            tags: metrics.tags,
            cold_log_bytes: metrics.cold_log_bytes,
            hot: metrics.hot.map(HotStore::from),
            vitals,
        })
    }

    /// Places of files, if there are several directories.
    fn directories(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.directories.len() < 2 {
            return Ok(());
        }
        writeln!(f, "\ndirectories: files, and the classes that are created there")?;
        for directory in &self.directories {
            let classes = match &directory.classes[..] {
                [] => "nothing new".to_owned(),
                classes => classes.join(", "),
            };
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
        if self.levels.is_empty() {
            return writeln!(f, "  no tables yet");
        }
        let titles = ["level", "tables", "runs", "size", "entries", "deletes"];
        writeln!(
            f,
            "  {:>5} {:>8} {:>6} {:>12} {:>14} {:>12}",
            titles[0], titles[1], titles[2], titles[3], titles[4], titles[5]
        )?;
        for level in &self.levels {
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
        let title = match (self.separates, self.groups, self.reserve_bytes) {
            (false, ..) => "log files: recent writes, which flushes move to tables",
            (true, 0, _) => "value files: the log, and segments of values moved by collection",
            (true, _, 0) => "value files: the log until it is flushed, then groups by key range",
            (true, ..) => {
                "value files: the log until it is flushed, then groups by hash of the key"
            }
        };
        writeln!(f, "\n{title}")?;
        for file in self.value_files.iter().take(FILES_MAX) {
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
        let more = self.value_files.len().saturating_sub(FILES_MAX);
        if more > 0 {
            writeln!(f, "  and {} more; --json lists all", units::thousands(more as f64))?;
        }
        if !self.separates {
            return Ok(());
        }
        if self.groups > 0 {
            let take = if self.groups == 1 { "takes" } else { "take" };
            write!(f, "  {}", counted(self.groups as u64, "group"))?;
            let records = self.group_records.iter();
            if let (Some(least), Some(most)) = (records.clone().min(), records.max()) {
                let range = if least == most { String::new() } else { format!("{least} to ") };
                write!(f, " of {range}{}", counted(*most, "record"))?;
            }
            if self.reserve_bytes > 0 {
                let (used, of) = (self.reserve_used, self.reserve_bytes);
                write!(
                    f,
                    ", which {take} {} of a reserve of {}",
                    units::bytes(used),
                    units::bytes(of)
                )?;
            }
            if self.cold_log_bytes > 0 {
                let (tags, bytes) = (counted(self.tags, "tag"), self.cold_log_bytes);
                write!(f, ", {tags}, {} in the cold log", units::bytes(bytes))?;
            }
            writeln!(f)?;
        }
        if let Some(hot) = &self.hot {
            write!(f, "{hot}")?;
        }
        writeln!(
            f,
            "  {} live, {} dead, of which {} are estimated: not compacted yet",
            units::bytes(self.space.live_bytes),
            units::bytes(self.dead_bytes),
            units::bytes(self.space.hidden_bytes),
        )
    }

    /// The index and the values outside it, a line each.
    fn brief(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&Level) -> u64| self.levels.iter().map(of).sum::<u64>();
        writeln!(
            f,
            "\nindex: {} of {}, {}",
            counted(sum(|level| level.tables as u64), "table"),
            counted(sum(|level| level.entries), "entry"),
            units::bytes(sum(|level| level.bytes)),
        )?;
        if self.separates {
            writeln!(
                f,
                "values outside it: {}, {} live, {} dead",
                counted(self.value_files.len() as u64, "file"),
                units::bytes(self.space.live_bytes),
                units::bytes(self.dead_bytes),
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
        if self.separates {
            let floor = units::bytes(self.space_floor);
            let goal = self.space_goal;
            writeln!(
                f,
                "                collection begins by itself above {goal:.2}, if {floor} are dead"
            )?;
        }
        if let (Some(limit), Some(used)) = (self.space_limit, self.space_used) {
            let (used, limit) = (units::bytes(used), units::bytes(limit));
            writeln!(f, "                {used} in use of the limit of {limit}")?;
        }
        if let Some(oldest) = self.oldest_change {
            let kept = units::bytes(self.retained_log_bytes);
            let of_log =
                format!("{kept} of log in {}", counted(self.retained_log_files as u64, "file"));
            writeln!(f, "                {of_log} kept for changes, from number {oldest} on")?;
        }
        if !self.all {
            return self.vitals.totals.ratio(f);
        }
        writeln!(f, "  read  {:>6}  sorted runs that a look-up may visit", self.runs)?;
        let bits = self.filter_bits;
        let value = if self.separates { ", then one read of the value" } else { "" };
        writeln!(
            f,
            "                filters of {bits} bits a key skip nearly all that lack the key{value}"
        )?;
        write!(f, "{}", self.vitals.totals)
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "about {} of keys and values, in {} on disk",
            units::bytes(self.space.data_bytes),
            units::bytes(self.space.disk_bytes)
        )?;
        match self.separated_from {
            Some(least @ 1..) => writeln!(
                f,
                "{}: preset {}, values of {} and more leave the index",
                self.path,
                self.preset,
                counted(least as u64, "byte")
            )?,
            _ => writeln!(f, "{}: preset {}", self.path, self.preset)?,
        }
        writeln!(f, "{}", self.layout)?;
        if self.all {
            self.vitals.machine(f)?;
        }
        if self.space.unflushed_bytes > 0 {
            let bytes = units::bytes(self.space.unflushed_bytes);
            writeln!(f, "{bytes} of the log are not flushed to tables yet")?;
        }
        if self.replayed_operations > 0 || self.bytes_cut > 0 {
            writeln!(
                f,
                "not closed in good order last time: {} replayed, {} behind the last whole \
                 write cut",
                counted(self.replayed_operations, "operation"),
                units::bytes(self.bytes_cut),
            )?;
        }
        self.directories(f)?;
        if !self.all {
            self.brief(f)?;
            self.amplification(f)?;
            self.vitals.problems(f)?;
            return writeln!(f, "\n--all shows levels, files, memory, and what was done");
        }
        self.index(f)?;
        self.values(f)?;
        self.amplification(f)?;
        self.vitals.session(f)?;
        self.vitals.latencies(f)?;
        self.vitals.problems(f)
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
        console.json_line(&stats)
    } else {
        console.write(stats.to_string().as_bytes())
    }
}
