//! `check`: everything is read and believed only if it proves itself.

use std::fmt;

use cleavedb::CheckReport;
use cleavedb_bench::units;
use serde::Serialize;

use crate::args::Global;
use crate::console::Console;
use crate::failure::{Exit, Result};
use crate::interrupt;
use crate::progress::Progress;
use crate::store;
use crate::watch;

#[derive(Serialize)]
struct Checked {
    directories: usize,
    tables: u64,
    value_files: u64,
    records: u64,
    keys: u64,
    value_bytes: u64,
    seconds: f64,
    problems: Vec<String>,
}

impl Checked {
    fn new(report: &CheckReport, directories: usize, seconds: f64) -> Self {
        Self {
            directories,
            tables: report.tables,
            value_files: report.value_files,
            records: report.records,
            keys: report.keys,
            value_bytes: report.value_bytes,
            seconds,
            problems: report.problems.iter().map(ToString::to_string).collect(),
        }
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |number: u64| units::thousands(number as f64);
        let many = match self.directories {
            0 | 1 => String::new(),
            many => format!(" in {many} directories"),
        };
        writeln!(
            f,
            "read {} tables and {} value files with {} records{many}, in {:.2} s",
            number(self.tables),
            number(self.value_files),
            number(self.records),
            self.seconds
        )?;
        writeln!(
            f,
            "followed {} keys, to {} of separated values",
            number(self.keys),
            units::bytes(self.value_bytes)
        )?;
        for problem in &self.problems {
            writeln!(f, "PROBLEM: {problem}")?;
        }
        match self.problems.len() {
            0 => write!(f, "all is well"),
            1 => write!(f, "1 problem; what it does not name is not affected"),
            many => write!(f, "{many} problems; what they do not name is not affected"),
        }
    }
}

pub(super) fn run(global: &Global, console: &Console) -> Result<Exit> {
    interrupt::watch()?;
    let db = store::open_existing(global)?;
    let progress = Progress::new(console, "check", None);
    let report = watch::run(&db, &progress, |_| "reading everything".into(), |db| db.verify());
    let seconds = progress.elapsed().as_secs_f64();
    drop(progress);
    let directories = db.directories()?.len();
    // Damage may keep it from closing well; what was found matters more.
    let closed = db.close();
    let checked = Checked::new(&report?, directories, seconds);
    console.outcome(&checked)?;
    if !checked.problems.is_empty() {
        return Ok(Exit::Damaged);
    }
    closed?;
    Ok(Exit::Done)
}
