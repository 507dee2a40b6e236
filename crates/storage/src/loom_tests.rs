//! The end of a value file under every schedule: it is queued for removal once, by its last reader.

use std::iter;

use cleavedb_base::FileNumber;
use cleavedb_base::record::FileIdentity;
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};
use cleavedb_base::sync::checker::sync::Arc;
use cleavedb_base::sync::checker::{model, thread};

use crate::segment::Segment;
use crate::{Access, Disk, File, FileKind, Mode, Name, ObsoleteFiles, Storage};

/// A read state drops a segment that an edit removed, a reader still holds it, and a job removes
/// queued files.
fn a_reader_holds_a_dropped_segment(name: Name, file: std::sync::Arc<dyn File>) {
    let obsolete_files = std::sync::Arc::new(ObsoleteFiles::default());
    let identity = FileIdentity::new(1, name.number());
    let in_picture = Arc::new(Segment::new(name, identity, file, None, obsolete_files.clone()));
    let removed = Arc::new(AtomicBool::new(false));
    let reader = {
        let (segment, removed) = (in_picture.clone(), removed.clone());
        thread::spawn(move || {
            assert!(!removed.load(Ordering::Acquire), "the file of {} is gone", segment.name());
            drop(segment);
        })
    };
    let job = {
        let (obsolete_files, removed) = (obsolete_files.clone(), removed.clone());
        thread::spawn(move || {
            let name = obsolete_files.take_name();
            removed.store(name.is_some(), Ordering::Release);
            usize::from(name.is_some())
        })
    };
    in_picture.mark_obsolete();
    drop(in_picture);
    reader.join().unwrap();
    let found = job.join().unwrap();
    let left = iter::from_fn(|| obsolete_files.take_name()).count();
    assert_eq!(found + left, 1, "a file is queued once");
}

/// Every schedule with the same file, of which nothing is read.
fn check() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::open(dir.path(), false).unwrap();
    let name = Name::numbered(FileKind::Segment, FileNumber(3));
    let file = disk.open(&name, Mode::CreateNew, Access::Random).unwrap();
    model(move || a_reader_holds_a_dropped_segment(name, file.clone()));
}

#[test]
fn a_file_goes_with_its_last_reader() {
    check();
}

#[cfg(feature = "test-planted-bugs")]
#[test]
fn planted_a_file_that_goes_under_its_readers() {
    use cleavedb_base::planted::{Bug, must_notice};
    must_notice(Bug::BuriedUnderReaders, check);
}
