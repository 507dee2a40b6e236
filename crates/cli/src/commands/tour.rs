//! `tour`: the whole store at work on a copy of a real directory tree.
//!
//! The expected value of every key needs no second copy: it is the content of its file and, after
//! updates, a line with the round in which it was written.

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cleavedb::{Db, Options, Tuning};
use cleavedb_units as units;
use serde::Serialize;

use crate::args::TourArgs;
use crate::console::Console;
use crate::failure::{Exit, Failure, Result};
use crate::formats::{Input, ItemSource, TreeSource, measure};
use crate::global::Global;
use crate::interrupt;
use crate::loader::Loader;
use crate::progress::Progress;
use crate::space::{COSTS, Space, compare, cost};
use crate::store;
use crate::watch;

/// One file in this number is deleted at the end.
const DELETE_EVERY: u64 = 10;

/// One step of the tour.
#[derive(Serialize)]
struct TourStep {
    step: &'static str,
    items: u64,
    bytes: u64,
    seconds: f64,
    /// Keys with a wrong value.
    differences: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    remark: String,
}

impl TourStep {
    fn new(step: &'static str) -> Self {
        Self { step, items: 0, bytes: 0, seconds: 0.0, differences: 0, remark: String::new() }
    }

    fn took(mut self, begin: Instant) -> Self {
        self.seconds = begin.elapsed().as_secs_f64();
        self
    }
}

impl fmt::Display for TourStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut items, mut bytes, mut rate) = (String::new(), String::new(), String::new());
        if self.items > 0 {
            items = units::thousands(self.items as f64);
            bytes = units::bytes(self.bytes);
            let per_second = self.bytes as f64 / self.seconds.max(1e-6);
            rate = format!("{}/s", units::bytes(per_second as u64));
        }
        let (step, seconds) = (self.step, self.seconds);
        write!(f, "{step:8} {items:>10} {bytes:>10} {seconds:>9.3} {rate:>12}")?;
        if !self.remark.is_empty() {
            write!(f, "  {}", self.remark)?;
        }
        if self.differences > 0 {
            write!(f, "  {} DIFFERENCES", units::thousands(self.differences as f64))?;
        }
        Ok(())
    }
}

/// Total cost.
#[derive(Serialize)]
struct Summary {
    step: &'static str,
    preset: &'static str,
    files: u64,
    differences: u64,
    problems: Vec<String>,
    user_bytes: u64,
    written_bytes: u64,
    write_amplification: f64,
    /// Bytes read from files by `get` per byte of a value, if the system counts them.
    read_amplification: Option<f64>,
    live_user_bytes: u64,
    /// Bytes of value files and tables per byte of live keys and values.
    space_amplification_before: f64,
    space_amplification_after: f64,
    before: Space,
    after: Space,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\ngarbage collection:\n{}", compare(&self.before, &self.after))?;
        writeln!(f, "\n{COSTS}")?;
        let what = format!(
            "{} written to files for {} of puts and deletes",
            units::bytes(self.written_bytes),
            units::bytes(self.user_bytes)
        );
        writeln!(
            f,
            "  write {:>6}  {what}, including all background work",
            cost(self.write_amplification, self.user_bytes)
        )?;
        if let Some(read) = self.read_amplification {
            let read = cost(read, self.user_bytes);
            writeln!(f, "  read  {read:>6}  read from files by gets, page cache or not")?;
        }
        writeln!(
            f,
            "  space {:>6}  before collection, {} after it: files and tables for {} alive",
            cost(self.space_amplification_before, self.live_user_bytes),
            cost(self.space_amplification_after, self.live_user_bytes),
            units::bytes(self.live_user_bytes),
        )?;
        for problem in &self.problems {
            writeln!(f, "PROBLEM: {problem}")?;
        }
        match self.differences {
            0 if self.problems.is_empty() => {
                let files = units::counted(self.files, "file");
                write!(f, "\n{files} came back byte for byte, each time")
            }
            differences => {
                let problems = units::counted(self.problems.len() as u64, "problem");
                let differences = units::counted(differences, "difference");
                write!(f, "\nFAILED: {differences} and {problems}, see above")
            }
        }
    }
}

/// The tree, and the database made of it.
struct Tour<'a> {
    root: &'a Path,
    /// Path of the database.
    path: PathBuf,
    options: Options,
    console: &'a Console,
    round: u32,
    /// Whether what the tour leaves out of the tree was said.
    noted: Cell<bool>,
    /// Files of the tree that are in the database.
    files: u64,
    deleted: HashSet<Vec<u8>>,
    user_bytes: u64,
    written_bytes: u64,
    differences: u64,
}

pub(super) fn run(args: &TourArgs, global: &Global, console: &Console) -> Result<Exit> {
    interrupt::watch(console)?;
    let (files, bytes) = measure(&args.dir)?;
    if files == 0 {
        return Err(Failure::Usage(format!("there are no files in {}", args.dir.display())));
    }
    // Dropped at the end of the tour, which deletes its content.
    let scratch = tempfile::Builder::new().prefix("cleave-tour-").tempdir();
    let scratch = scratch.map_err(Failure::file("create a directory in", &std::env::temp_dir()))?;
    let path = match &args.keep {
        Some(path) if !store::is_empty(path)? => {
            let message = format!("{} is not empty; --keep needs a new directory", path.display());
            return Err(Failure::Usage(message));
        }
        Some(path) => path.clone(),
        None => scratch.path().join("db"),
    };
    let options = scaled(store::options(global, store::usual(global, None))?, bytes);
    if !console.json() {
        console.line(format_args!(
            "tour of {}: {}, {}; preset {}, log files of {} to suit the tree",
            args.dir.display(),
            units::counted(files, "file"),
            units::bytes(bytes),
            options.chosen_preset(),
            units::bytes(options.tuning.log_file_bytes),
        ))?;
        let titles = ["step", "items", "bytes", "seconds", "rate"];
        console.line(format_args!(
            "\n{:8} {:>10} {:>10} {:>9} {:>12}",
            titles[0], titles[1], titles[2], titles[3], titles[4]
        ))?;
    }
    let mut tour = Tour {
        root: &args.dir,
        path,
        options,
        console,
        round: 0,
        noted: Cell::new(false),
        files: 0,
        deleted: HashSet::new(),
        user_bytes: 0,
        written_bytes: 0,
        differences: 0,
    };
    let summary = tour.go(args.rounds)?;
    console.outcome(&summary)?;
    if let Some(path) = args.keep.as_ref().filter(|_| !console.json()) {
        console.line(format_args!("\nlook at it with: cleave --db {} stats", path.display()))?;
    }
    let passed = summary.differences == 0 && summary.problems.is_empty();
    Ok(if passed { Exit::Done } else { Exit::Damaged })
}

/// Options under which a tree of `bytes` behaves like a large one at the defaults: several
/// MemTables, a dozen log files, and a significant share of dead values.
fn scaled(defaults: Options, bytes: u64) -> Options {
    let part = (bytes / 4).next_multiple_of(4096);
    let file = part.clamp(256 << 10, defaults.tuning.log_file_bytes);
    let memtable = defaults.clone().in_effect().tuning.memtable_bytes;
    Options {
        tuning: Tuning {
            memtable_bytes: memtable.map(|bytes| bytes.min(part.max(1 << 20) as usize)),
            log_file_bytes: file,
            segment_bytes: file,
            space_floor: defaults.tuning.space_floor.min(file),
            ..defaults.tuning
        },
        ..defaults
    }
}

/// Bytes that this process has read through system calls, if the system counts them.
fn read_so_far() -> Option<u64> {
    let counters = fs::read_to_string("/proc/self/io").ok()?;
    counters.lines().find_map(|line| line.strip_prefix("rchar: "))?.parse().ok()
}

impl Tour<'_> {
    fn go(&mut self, rounds: u32) -> Result<Summary> {
        let db = store::open(&self.path, self.options.clone())?;
        self.write(&db, "put")?;
        let read_amplification = self.get_all(&db, "get")?;
        self.scan_all(&db, "scan")?;
        for round in 1..=rounds {
            self.round = round;
            self.write(&db, "update")?;
        }
        self.delete_some(&db)?;
        self.count(&db)?;
        self.close(db)?;
        let db = self.reopen()?;
        let live_user_bytes = self.scan_all(&db, "scan")?;
        let before = Space::of(&db, &self.path);
        self.long(&db, "collect", Db::collect)?;
        self.long(&db, "compact", Db::compact)?;
        let after = Space::of(&db, &self.path);
        self.get_all(&db, "get")?;
        self.scan_all(&db, "scan")?;
        let problems = self.long(&db, "check", Db::verify)?.problems;
        self.count(&db)?;
        db.close()?;
        let ratio = |space: &Space| {
            (space.value_bytes + space.index_bytes) as f64 / live_user_bytes.max(1) as f64
        };
        Ok(Summary {
            step: "summary",
            preset: self.options.chosen_preset().name(),
            files: self.files,
            differences: self.differences,
            problems: problems.iter().map(ToString::to_string).collect(),
            user_bytes: self.user_bytes,
            written_bytes: self.written_bytes,
            write_amplification: self.written_bytes as f64 / self.user_bytes.max(1) as f64,
            read_amplification,
            live_user_bytes,
            space_amplification_before: ratio(&before),
            space_amplification_after: ratio(&after),
            before,
            after,
        })
    }

    /// Prints a step as soon as it is done.
    fn report(&mut self, step: TourStep) -> Result<()> {
        self.differences += step.differences;
        self.console.outcome(&step)?;
        self.console.flush()
    }

    /// Adds the bytes written by a database before it is closed: an open resets its counters.
    fn count(&mut self, db: &Db) -> Result<()> {
        db.flush()?;
        let metrics = db.metrics();
        self.user_bytes += metrics.user_bytes;
        self.written_bytes += metrics.written();
        Ok(())
    }

    /// The expected value of the key of a file with this content.
    fn expected(&self, mut content: Vec<u8>) -> Vec<u8> {
        if self.round > 0 {
            content.extend_from_slice(format!("\nupdated in round {}\n", self.round).as_bytes());
        }
        content
    }

    /// Calls `visit` with the key and the content of every file.
    fn each(&self, mut visit: impl FnMut(Vec<u8>, Vec<u8>) -> Result<()>) -> Result<()> {
        let mut source = TreeSource::new(self.root, &self.path)?;
        while let Some(input) = source.next()? {
            interrupt::check()?;
            match input {
                Input::Pair(key, content, _) => visit(key, content)?,
                Input::File(key, mut file, len) => {
                    let mut content = Vec::with_capacity(len as usize);
                    let read = file.read_to_end(&mut content);
                    read.map_err(Failure::file("read", Path::new(&source.place())))?;
                    visit(key, content)?;
                }
                Input::Skipped(what) | Input::Failed(what) if !self.noted.get() => {
                    self.console.note(&what);
                }
                Input::Skipped(_) | Input::Failed(_) | Input::Keyspace(..) => {}
            }
        }
        self.noted.set(true);
        Ok(())
    }

    fn write(&mut self, db: &Db, name: &'static str) -> Result<()> {
        let mut step = TourStep::new(name);
        let progress = Progress::new(self.console, name, None);
        let begin = Instant::now();
        let mut loader = Loader::new(db.default_keyspace());
        self.each(|key, content| {
            loader.put(&key, &self.expected(content))?;
            progress.moved(loader.items, loader.bytes);
            Ok(())
        })?;
        loader.finish()?;
        (step.items, step.bytes) = (loader.items, loader.bytes);
        self.files = loader.items;
        if self.round > 0 {
            step.remark = format!("round {}", self.round);
        }
        drop(progress);
        self.report(step.took(begin))
    }

    fn delete_some(&mut self, db: &Db) -> Result<()> {
        let begin = Instant::now();
        let mut loader = Loader::new(db.default_keyspace());
        let mut deleted = HashSet::new();
        let mut number = 0;
        self.each(|key, _| {
            number += 1;
            if number % DELETE_EVERY == 0 {
                loader.delete(&key)?;
                deleted.insert(key);
            }
            Ok(())
        })?;
        loader.finish()?;
        let mut step = TourStep::new("delete");
        (step.items, step.bytes) = (loader.items, loader.bytes);
        self.deleted = deleted;
        self.report(step.took(begin))
    }

    /// Gets every key and compares; returns bytes read from files per byte of a value.
    fn get_all(&mut self, db: &Db, name: &'static str) -> Result<Option<f64>> {
        let mut step = TourStep::new(name);
        let begin = Instant::now();
        let (mut reading, mut of_tree) = (Duration::ZERO, 0);
        let before = read_so_far();
        self.each(|key, content| {
            of_tree += content.len() as u64;
            let asked = Instant::now();
            let value = db.get(&key)?;
            reading += asked.elapsed();
            let expected = (!self.deleted.contains(&key)).then(|| self.expected(content));
            step.differences += u64::from(value.as_deref() != expected.as_deref());
            step.items += 1;
            step.bytes += value.map_or(0, |value| value.len() as u64);
            Ok(())
        })?;
        let read = read_so_far().zip(before).map(|(now, before)| {
            (now - before).saturating_sub(of_tree) as f64 / step.bytes.max(1) as f64
        });
        step.remark = "compared with the tree byte for byte".to_owned();
        step = step.took(begin);
        step.seconds = reading.as_secs_f64();
        self.report(step)?;
        Ok(read)
    }

    /// Scans everything and compares; returns the bytes of all keys and values.
    fn scan_all(&mut self, db: &Db, name: &'static str) -> Result<u64> {
        let mut step = TourStep::new(name);
        let mut comparing = Duration::ZERO;
        let begin = Instant::now();
        for item in db.range(..) {
            interrupt::check()?;
            let item = item?;
            let read = Instant::now();
            let file = std::ffi::OsString::from_vec(item.key.to_vec());
            let content = fs::read(self.root.join(file)).ok();
            let expected = content.map(|content| self.expected(content));
            let wrong = expected.as_deref() != Some(&item.value[..])
                || self.deleted.contains(&item.key[..]);
            comparing += read.elapsed();
            step.differences += u64::from(wrong);
            step.items += 1;
            step.bytes += (item.key.len() + item.value.len()) as u64;
        }
        let took = begin.elapsed().saturating_sub(comparing);
        let mut files = 0;
        self.each(|key, _| {
            files += u64::from(!self.deleted.contains(&key));
            Ok(())
        })?;
        step.differences += files.abs_diff(step.items);
        step.seconds = took.as_secs_f64();
        step.remark = "compared with the tree byte for byte".to_owned();
        let bytes = step.bytes;
        self.report(step)?;
        Ok(bytes)
    }

    fn close(&mut self, db: Db) -> Result<()> {
        let begin = Instant::now();
        db.close()?;
        self.report(TourStep::new("close").took(begin))
    }

    fn reopen(&mut self) -> Result<Db> {
        let begin = Instant::now();
        let db = store::open(&self.path, self.options.clone())?;
        let mut step = TourStep::new("open").took(begin);
        step.remark =
            format!("{} replayed", units::counted(db.recovery_report().operations, "operation"));
        self.report(step)?;
        Ok(db)
    }

    /// A long call of the engine.
    fn long<T: Send + 'static>(
        &mut self,
        db: &Db,
        name: &'static str,
        call: fn(&Db) -> cleavedb::Result<T>,
    ) -> Result<T> {
        let progress = Progress::new(self.console, name, None);
        let begin = Instant::now();
        let done = watch::run(db, &progress, |_| String::new(), call);
        let step = TourStep::new(name).took(begin);
        drop(progress);
        let done = done?;
        self.report(step)?;
        Ok(done)
    }
}
