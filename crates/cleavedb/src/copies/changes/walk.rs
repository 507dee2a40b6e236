//! Walks through the log files that hold changes, from a place on.

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{Error, ErrorKind, FileNumber, Result, SeqNo};
use cleavedb_storage::log::FileHeader;

use super::batches::{LoggedBatch, next_batch};
use crate::background::log_retention::{first_seq_of, name_of, open_part, read_part};
use crate::engine::Engine;
use crate::store::retained_log::{LogPart, RetainedLog};

/// A place in the log: behind a whole batch, or at the beginning of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchBoundary {
    file: FileNumber,
    offset: u64,
}

impl BatchBoundary {
    fn at(file: FileNumber) -> Self {
        Self { file, offset: FileHeader::RECORD_LEN as u64 }
    }
}

/// What becomes of a batch that the walk has come to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchOutcome {
    /// The batch was taken, and the next one follows.
    On,
    /// The batch was taken, and the walk ends behind it.
    Last,
    /// The batch was not taken: the walk ends before it.
    Before,
}

/// The beginning of the last file that has a batch with a number up to `seq`, or of the first file.
pub(super) fn place_before(engine: &Engine, seq: SeqNo) -> Result<Option<BatchBoundary>> {
    let parts = engine.retained_log.parts();
    let (mut low, mut high) = (0, parts.len());
    while low < high {
        let middle = (low + high) / 2;
        match first_seq_of(engine, &parts[middle])? {
            Some(first) if first <= seq => low = middle + 1,
            _ => high = middle,
        }
    }
    Ok(parts.get(low.saturating_sub(1)).map(|part| BatchBoundary::at(part.number)))
}

/// Shows the batches from `place` on to `visit`, in commit order, and moves the place behind those
/// that were taken. Returns how the walk ended: `On` if there is nothing more.
pub(super) fn walk(
    engine: &Engine,
    place: &mut Option<BatchBoundary>,
    mut visit: impl FnMut(LoggedBatch) -> Result<BatchOutcome>,
) -> Result<BatchOutcome> {
    // Before the files are looked up: the end of each file below this position is known then.
    let limit = engine.commit.log.buffer().written_upto();
    loop {
        let first = || engine.retained_log.first_part().map(|part| BatchBoundary::at(part.number));
        let Some(now) = place.or_else(first) else { return Ok(BatchOutcome::On) };
        let at = place.insert(now);
        let there = engine.retained_log.part_and_next(at.file);
        let (part, next) = there.ok_or_else(|| gone(&engine.retained_log))?;
        let read = walk_part(engine, &part, at, limit, &mut visit);
        let step = match read {
            // The file was removed meanwhile.
            Err(_) if !engine.retained_log.has(at.file) => return Err(gone(&engine.retained_log)),
            read => read?,
        };
        match (step, part.end, next) {
            // All of it is stored, and was read.
            (BatchOutcome::On, Some(end), Some(next)) if end <= limit => {
                *place = Some(BatchBoundary::at(next))
            }
            (step, ..) => return Ok(step),
        }
    }
}

/// As [`walk`], in one file.
fn walk_part(
    engine: &Engine,
    part: &LogPart,
    place: &mut BatchBoundary,
    limit: u64,
    visit: &mut impl FnMut(LoggedBatch) -> Result<BatchOutcome>,
) -> Result<BatchOutcome> {
    let end = part.end.unwrap_or(u64::MAX).min(limit);
    let len = end.saturating_sub(part.base);
    if len <= place.offset {
        return Ok(BatchOutcome::On);
    }
    let file = open_part(engine, part, len)?;
    let failed = |e: Error| e.with("file", name_of(part));
    let mut reader = read_part(engine, part, &file, place.offset)?;
    while let Some(batch) = next_batch(&mut reader).map_err(failed)? {
        match visit(batch)? {
            BatchOutcome::Before => return Ok(BatchOutcome::Before),
            step => {
                place.offset = reader.offset();
                if step == BatchOutcome::Last {
                    return Ok(step);
                }
            }
        }
    }
    // A mark may stand behind the last batch.
    let is_whole = reader.offset() == len || part.is_open && planted(Bug::ShortChangesBelieved);
    if part.end.is_some_and(|end| end <= limit) && !is_whole {
        let what = "a log file that holds changes is damaged; take a snapshot, and go on behind it";
        return Err(failed(Error::corruption(what)).with("offset", reader.offset()));
    }
    Ok(BatchOutcome::On)
}

/// The error for changes that are not kept, or not any more.
#[cold]
pub(super) fn gone(retained_log: &RetainedLog) -> Error {
    let Some(first) = retained_log.first_seq() else {
        let what = "no changes are kept; open the database with change_retention_bytes";
        return Error::new(ErrorKind::NotRetained, what);
    };
    let what = "the changes from there on are not kept any more; copy what a snapshot sees, and go \
                on behind its sequence number";
    Error::new(ErrorKind::NotRetained, what).with("oldest", first)
}
