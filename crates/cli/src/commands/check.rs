//! `check`: reads the whole database and verifies everything.

use std::fmt;

use cleavedb::Db;
use cleavedb::reports::{CheckReport, RecoveryReport};
use cleavedb_units as units;
use serde::Serialize;

use crate::console::Console;
use crate::failure::{Exit, Result, in_words_of_the_program};
use crate::global::Global;
use crate::interrupt;
use crate::progress::Progress;
use crate::store;
use crate::watch;

#[derive(Serialize)]
struct Checked {
    directories: usize,
    tables: u64,
    value_files: u64,
    /// Log files that are kept for readers of changes only.
    retained_logs: u64,
    records: u64,
    keys: u64,
    value_bytes: u64,
    seconds: f64,
    /// Damaged copies of edits of the manifest, which an open for writing replaces.
    healed: u64,
    /// Operations that the open has lost.
    operations_lost: u64,
    bytes_cut: u64,
    window_lost: bool,
    /// The losses in words, including healed copies.
    #[serde(skip)]
    losses: Vec<String>,
    problems: Vec<String>,
    /// Problems that are not listed.
    unlisted: u64,
    /// Keys that cannot be read although all is intact, and why.
    unmerged: Vec<String>,
    unmerged_keys: u64,
}

impl Checked {
    fn new(
        report: &CheckReport,
        opened: &RecoveryReport,
        directories: usize,
        seconds: f64,
    ) -> Self {
        Self {
            directories,
            tables: report.tables,
            value_files: report.value_files,
            retained_logs: report.retained_logs,
            records: report.records,
            keys: report.keys,
            value_bytes: report.value_bytes,
            seconds,
            healed: opened.copies_healed,
            operations_lost: opened.operations_lost,
            bytes_cut: opened.bytes_cut,
            window_lost: opened.window_lost,
            losses: store::losses(opened),
            problems: report.problems.iter().map(in_words_of_the_program).collect(),
            unlisted: report.unlisted,
            unmerged: report.unmerged.iter().map(in_words_of_the_program).collect(),
            unmerged_keys: report.unmerged_keys,
        }
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let many = match self.directories {
            0 | 1 => String::new(),
            many => format!(" in {many} directories"),
        };
        let logs = match self.retained_logs {
            0 => String::new(),
            logs => format!(" and {} kept for changes", units::counted(logs, "log file")),
        };
        writeln!(
            f,
            "read {} and {}{logs} with {}{many}, in {:.2} s",
            units::counted(self.tables, "table"),
            units::counted(self.value_files, "value file"),
            units::counted(self.records, "record"),
            self.seconds
        )?;
        writeln!(
            f,
            "followed {}, to {} of separated values",
            units::counted(self.keys, "key"),
            units::bytes(self.value_bytes)
        )?;
        for loss in &self.losses {
            writeln!(f, "the open found: {loss}")?;
        }
        for problem in &self.problems {
            writeln!(f, "PROBLEM: {problem}")?;
        }
        for key in &self.unmerged {
            writeln!(f, "UNREADABLE: {key}")?;
        }
        match self.problems.len() as u64 + self.unlisted {
            0 if self.unmerged_keys > 0 => write!(
                f,
                "no file is damaged; {} cannot be read, since a merge cannot be applied",
                units::counted(self.unmerged_keys, "key")
            ),
            0 => write!(f, "all is well"),
            1 => write!(f, "1 problem; data that it does not name is not affected"),
            many => {
                let problems = units::counted(many, "problem");
                write!(f, "{problems}; data that they do not name is not affected")
            }
        }
    }
}

pub(super) fn run(global: &Global, console: &Console) -> Result<Exit> {
    interrupt::watch(console)?;
    run_on(store::find_or_follow(global, console)?, console, Db::verify_with)
}

/// Checks `db`, which is open for reading only, by `verify`.
pub(super) fn run_on(
    db: Db,
    console: &Console,
    verify: impl FnOnce(&Db, &cleavedb::Progress) -> cleavedb::Result<CheckReport> + Send + 'static,
) -> Result<Exit> {
    let progress = Progress::towards(console, "check");
    let theirs = db.clone();
    let report = watch::count(&progress, move |counted| verify(&theirs, counted));
    let seconds = progress.elapsed().as_secs_f64();
    drop(progress);
    let directories = db.directories()?.len();
    let opened = db.recovery_report().clone();
    // Damage may make the close fail; the report of the check matters more.
    let closed = db.close();
    let checked = Checked::new(&report?, &opened, directories, seconds);
    console.outcome(&checked)?;
    if !checked.problems.is_empty() {
        return Ok(Exit::Damaged);
    }
    closed?;
    Ok(if checked.unmerged_keys > 0 { Exit::Failed } else { Exit::Done })
}
