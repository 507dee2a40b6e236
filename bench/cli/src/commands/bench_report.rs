//! `bench report`: tables and charts of result files.

use std::fs;
use std::path::{Path, PathBuf};

use cleavedb::Preset;
use cleavedb_bench::report::{Results, brief, collect, html, summary, text};
use cleavedb_cli::console::Console;
use cleavedb_cli::failure::{Exit, Failure, Result};

use crate::bench_args::Pages;
use crate::engine::engine_of;
use crate::failure::failed;

/// The arguments of a report.
pub(super) struct Asked<'a> {
    /// Result files.
    pub files: &'a [PathBuf],
    /// The engine to compare with.
    pub baseline: Option<&'a str>,
    /// Files to write.
    pub pages: &'a Pages,
}

pub(super) fn run(asked: &Asked<'_>, console: &Console) -> Result<Exit> {
    let results = collect(asked.files, asked.baseline).map_err(failed)?;
    show(&results, console)?;
    if let Some(path) = &asked.pages.out {
        write(path, &html::page(&results))?;
        console.note(&format!("charts: {}", path.display()));
    }
    if let Some(path) = &asked.pages.markdown {
        write(path, &text::markdown(&results))?;
        console.note(&format!("tables: {}", path.display()));
    }
    let default = engine_of(Preset::default());
    if let Some(path) = &asked.pages.brief {
        write(path, &brief::brief(&results, &[&default, &engine_of(Preset::HoaKv)]))?;
        console.note(&format!("what documents quote: {}", path.display()));
    }
    if let Some(path) = &asked.pages.chart {
        write(path, &brief::chart(&results, &default))?;
        console.note(&format!("chart: {}", path.display()));
    }
    Ok(Exit::Done)
}

fn show(results: &Results, console: &Console) -> Result<()> {
    if console.json() {
        summary::rows(results).iter().try_for_each(|row| console.json_line(row))?;
    } else {
        console.line(text::summary(results).trim_end())?;
    }
    // Notes follow on standard error: in this order on a terminal.
    console.flush()
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(Failure::file("write", path))
}
