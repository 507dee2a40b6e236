//! The end of an extent under every schedule: its space is queued once, by its last reader.

use cleavedb_base::FileNumber;
use cleavedb_base::record::FileIdentity;
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};
use cleavedb_base::sync::checker::sync::Arc;
use cleavedb_base::sync::checker::{model, thread};
use cleavedb_storage::segment::Segment;
use cleavedb_storage::{Access, FileKind, Mode, Name, ObsoleteFiles, Storage};
use cleavedb_storage_sim::Sim;

use super::{Extent, ExtentHandle, Location};
use crate::partition::GroupId;

fn handle(obsolete_files: &std::sync::Arc<ObsoleteFiles>) -> ExtentHandle {
    let name = Name::numbered(FileKind::Group, FileNumber(3));
    let file = Sim::new().open(&name, Mode::CreateNew, Access::Random).unwrap();
    let identity = FileIdentity::new(1, name.number());
    let segment =
        std::sync::Arc::new(Segment::new(name, identity, file, None, obsolete_files.clone()));
    let place = Location { file: name.number(), offset: 0 };
    let extent = Extent { filter_len: 10, ..Extent::sample(GroupId(1), place) };
    ExtentHandle::new(&extent, segment, obsolete_files.clone())
}

/// A read state drops an extent that an edit removed, a reader still holds it, and a job punches
/// queued ranges.
fn a_reader_holds_a_dropped_extent() {
    let obsolete_files = std::sync::Arc::new(ObsoleteFiles::default());
    let in_picture = Arc::new(handle(&obsolete_files));
    let punched = Arc::new(AtomicBool::new(false));
    let reader = {
        let (extent, punched) = (in_picture.clone(), punched.clone());
        thread::spawn(move || {
            assert!(!punched.load(Ordering::Acquire), "{:?} has no bytes", extent.place());
            drop(extent);
        })
    };
    let job = {
        let (obsolete_files, punched) = (obsolete_files.clone(), punched.clone());
        thread::spawn(move || {
            let holes = obsolete_files.take_holes();
            punched.store(!holes.is_empty(), Ordering::Release);
            holes.len()
        })
    };
    in_picture.mark_obsolete();
    drop(in_picture);
    reader.join().unwrap();
    let found = job.join().unwrap();
    assert_eq!(found + obsolete_files.take_holes().len(), 1, "an extent is queued once");
    assert_eq!(obsolete_files.take_name(), None, "its file stays");
}

#[test]
fn an_extent_goes_with_its_last_reader() {
    model(a_reader_holds_a_dropped_extent);
}

#[cfg(feature = "test-planted-bugs")]
#[test]
fn planted_an_extent_that_goes_under_its_readers() {
    use cleavedb_base::planted::{Bug, must_notice};
    must_notice(Bug::PunchUnderReaders, || model(a_reader_holds_a_dropped_extent));
}
