//! What a drain that passes parts of the log by leaves in its files.

use std::ops::Range;

use cleavedb_base::FileNumber;
use cleavedb_base::limits::BLOCK;
use cleavedb_storage::log::{Appender, FileHeader, Log, WriteBack};
use cleavedb_storage::{FileKind, Name};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::log::{log_of, spare_of};

const LEN: usize = 1 << 16;

/// A log with a lazy drain, and its appender.
fn lazy(sim: &Sim) -> (Log, Appender) {
    log_of(sim, LEN, WriteBack::OnPressure)
}

fn append(log: &Log, appender: &mut Appender) {
    let (reserved, mut slot) = log.reserve(appender, 100).unwrap();
    slot.push(&[7; 100]);
    log.set_written_upto(reserved.end);
}

/// A batch that found the disk full has begun a file, and then its MemTable was flushed.
#[test]
fn a_file_may_be_begun_and_passed_by_before_it_is_filled() {
    let sim = Sim::new();
    let (log, mut appender) = lazy(&sim);
    append(&log, &mut appender);
    log.rotate(&mut appender, spare_of(&sim, 2)).unwrap();
    log.release_range(FileHeader::RECORD_LEN as u64..appender.end());
    append(&log, &mut appender);
    log.drain_to(log.buffer().written_upto() - 100).unwrap();
}

#[test]
fn the_end_of_the_log_proves_what_was_durable() {
    let sim = Sim::new();
    let (log, mut appender) = lazy(&sim);
    (0..100).for_each(|_| append(&log, &mut appender));
    log.release_range(FileHeader::RECORD_LEN as u64..appender.end());
    for pad in [Log::pad, Log::end] {
        let end = pad(&log, &mut appender).unwrap();
        log.set_written_upto(end);
        log.sync_to(end, appender.end()).unwrap();
    }
    let written = sim.image().read(&Name::numbered(FileKind::Log, FileNumber(1))).unwrap();
    let zeros = |range: Range<usize>| written[range].iter().all(|byte| *byte == 0);
    assert!(!zeros(0..FileHeader::RECORD_LEN), "the header");
    assert!(zeros(FileHeader::RECORD_LEN..BLOCK), "what was passed by");
    assert!(!zeros(2 * BLOCK..written.len()), "a mark");
}
