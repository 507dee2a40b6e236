//! The integrity check: reads everything and believes nothing.

use std::collections::BTreeMap;

use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::{EntryKind, Error, FileNumber, Result, ValuePointer};
use cleavedb_index::{MergeIter, ReadMode, VisibleIter};
use cleavedb_storage::FileKind;
use cleavedb_storage::log::LogReader;
use cleavedb_values::Ledger;

use crate::engine::Engine;

/// What a check read, and what it found wrong.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Tables read in full.
    pub tables: u64,
    /// Value files read in full.
    pub value_files: u64,
    /// Records in them.
    pub records: u64,
    /// Visible keys.
    pub keys: u64,
    /// Bytes of values that visible keys point to.
    pub value_bytes: u64,
    /// Everything that is not as it should be. Empty: all is well.
    pub problems: Vec<Error>,
}

/// Most problems that are listed: a lost disk has one cause and a million symptoms.
const PROBLEMS_MAX: usize = 100;

impl CheckReport {
    fn note(&mut self, result: Result<()>) {
        if let Err(problem) = result
            && self.problems.len() < PROBLEMS_MAX
        {
            self.problems.push(problem);
        }
    }
}

/// Checks the whole database as of now.
pub(crate) fn check(engine: &Engine) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    let held = engine.snapshots.take(|| engine.commit.visible());
    // Under the manifest's lock picture and ledger belong together.
    let (state, ledger) = {
        let manifest = engine.manifest.lock();
        (engine.state.load_full(), manifest.live().ledger.clone())
    };
    for (_, table) in state.version.tables() {
        report.tables += 1;
        let verified = table.table().and_then(|table| table.verify());
        report.note(verified);
    }
    check_values(&state, &ledger, &mut report)?;
    check_pointers(&state, held.seq, &mut report);
    check_directory(engine, &mut report)?;
    Ok(report)
}

/// Every sealed value file, front to back.
fn check_values(
    state: &crate::state::ReadState,
    ledger: &Ledger,
    report: &mut CheckReport,
) -> Result<()> {
    for segment in state.segments.iter() {
        let Some(facts) = ledger.get(segment.number()) else { continue };
        let Some(len) = facts.len else { continue };
        report.value_files += 1;
        let identity = segment.identity();
        let mut reader =
            LogReader::new(&**segment.file(), None, identity, facts.base, 0, Some(len))?;
        let read = read_all(&mut reader, len, &mut report.records);
        report.note(read.map_err(|e| e.with("file", segment.name())));
    }
    // Live bytes are those that entries in tables own: recount them.
    let mut owned: BTreeMap<FileNumber, u64> = BTreeMap::new();
    let mut merged = MergeIter::new(state.version.iters(None, None, ReadMode::Ahead));
    let walked = count_owned(&mut merged, &mut owned);
    report.note(walked);
    for (number, facts) in ledger.iter() {
        let counted = owned.get(&number).copied().unwrap_or_default();
        if counted != facts.live {
            let what = "the ledger's live bytes differ from what the index owns";
            report.note(Err(Error::corruption(what)
                .with("file", number)
                .with("ledger", facts.live)
                .with("index", counted)));
        }
    }
    Ok(())
}

/// Reads records up to `len`, the end of the last one.
fn read_all(reader: &mut LogReader<'_>, len: u64, records: &mut u64) -> Result<()> {
    while reader.next_record()?.is_some() {
        *records += 1;
    }
    if reader.offset() == len {
        return Ok(());
    }
    let what = "a value file has a damaged record";
    Err(Error::corruption(what).with("offset", reader.offset()))
}

fn count_owned(merged: &mut MergeIter, owned: &mut BTreeMap<FileNumber, u64>) -> Result<()> {
    use cleavedb_index::EntryIter;
    merged.seek_first()?;
    while merged.valid() {
        let entry = merged.entry();
        // A moved record's old entry names a file that is gone, and counts for nothing.
        if entry.kind == EntryKind::Pointer && !entry.repeat {
            let pointer = ValuePointer::decode(entry.value)?;
            *owned.entry(pointer.file).or_default() += u64::from(pointer.len);
        }
        merged.next()?;
    }
    Ok(())
}

/// Every visible pointer leads to its record.
fn check_pointers(state: &crate::state::ReadState, seq: u64, report: &mut CheckReport) {
    debug_assert!(seq <= SEQ_MAX);
    let mut sources = Vec::new();
    for slot in &state.memtables {
        sources.extend(slot.table.iters());
    }
    sources.extend(state.version.iters(None, None, ReadMode::Ahead));
    let mut iter = VisibleIter::new(MergeIter::new(sources), seq, None, None);
    let mut step = iter.seek_first();
    while step.is_ok() && iter.valid() {
        report.keys += 1;
        if iter.kind() == EntryKind::Pointer {
            let resolved = ValuePointer::decode(iter.value())
                .and_then(|pointer| state.segments.read(pointer, iter.key(), iter.seq()))
                .map(|value| report.value_bytes += value.len() as u64);
            report.note(resolved);
        }
        step = iter.next();
    }
    report.note(step);
}

/// The manifest names no file that is missing.
fn check_directory(engine: &Engine, report: &mut CheckReport) -> Result<()> {
    // The lock keeps jobs from naming new files, or dropping old ones, behind the listing.
    let manifest = engine.manifest.lock();
    let live = manifest.live();
    let files = engine.storage.list().map_err(|e| Error::io("list the directory", e))?;
    let there =
        |kind, number| files.iter().any(|(name, _)| name.kind() == kind && name.number() == number);
    let missing = |kind, number| {
        let name = cleavedb_storage::Name::numbered(kind, number);
        Err(Error::corruption("a file that the manifest names is missing").with("file", name))
    };
    for (number, facts) in live.ledger.iter() {
        if !there(facts.kind, number) {
            report.note(missing(facts.kind, number));
        }
    }
    for (_, table) in live.version.tables() {
        if !there(FileKind::Table, table.number()) {
            report.note(missing(FileKind::Table, table.number()));
        }
    }
    Ok(())
}
