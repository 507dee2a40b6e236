//! Calls that are failed on purpose, over the simulated disk.

use std::io;
use std::sync::Arc;

use cleavedb_base::FileNumber;
use cleavedb_storage::api::{read_exact_at, write_all_at};
use cleavedb_storage::{Access, File, FileKind, Mode, Name, Storage};
use rustix::io::Errno;

use super::{Call, Fault, Faulty, Op, Rule};
use crate::sim::Sim;

const NAME: fn(u64) -> Name = |number| Name::numbered(FileKind::Log, FileNumber(number));

fn create(storage: &Faulty, number: u64) -> io::Result<Arc<dyn File>> {
    storage.open(&NAME(number), Mode::CreateNew, Access::Random)
}

#[test]
fn a_chosen_call_fails_once_and_a_sticky_plan_until_healed() {
    let faulty = Faulty::new(Arc::new(Sim::new()));
    faulty.fail_call(1, Fault::TooManyFiles);
    create(&faulty, 1).unwrap();
    let error = create(&faulty, 2).err().unwrap();
    assert_eq!(error.raw_os_error(), Some(Errno::MFILE.raw_os_error()));
    create(&faulty, 2).expect("a failed open creates nothing");
    faulty.fail_from(faulty.calls() + 1, Fault::NoSpace);
    create(&faulty, 3).unwrap();
    for _ in 0..3 {
        assert_eq!(faulty.list().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
    faulty.heal();
    assert_eq!(faulty.list().unwrap().len(), 3);
}

#[test]
fn rules_choose_by_operation_and_kind() {
    let faulty = Faulty::new(Arc::new(Sim::new()));
    let file = create(&faulty, 1).unwrap();
    faulty.fail_matching(Rule::both(Op::WriteAt, FileKind::Table), Fault::Io);
    write_all_at(&*file, b"abc", 0).unwrap();
    faulty.fail_next(Rule::kind(FileKind::Log), Fault::Quota);
    assert_eq!(file.len().unwrap_err().kind(), io::ErrorKind::QuotaExceeded);
    assert_eq!(file.len().unwrap(), 3);
    faulty.fail_matching(Rule::op(Op::Len), Fault::Errno(Errno::STALE.raw_os_error()));
    assert_eq!(file.len().unwrap_err().kind(), io::ErrorKind::StaleNetworkFileHandle);
}

#[test]
fn the_helpers_get_through_short_and_interrupted_calls() {
    for fault in [Fault::Short, Fault::Interrupted] {
        let faulty = Faulty::new(Arc::new(Sim::new()));
        let file = create(&faulty, 1).unwrap();
        faulty.fail_from(0, fault);
        write_all_at(&*file, &[7; 100], 0).unwrap();
        let mut back = [0; 100];
        read_exact_at(&*file, &mut back, 0).unwrap();
        assert_eq!(back, [7; 100]);
        assert!(faulty.trace().iter().any(|call| call.fault == Some(fault)));
    }
}

#[test]
fn a_write_of_nothing_ends_the_helper() {
    let faulty = Faulty::new(Arc::new(Sim::new()));
    let file = create(&faulty, 1).unwrap();
    faulty.fail_from(0, Fault::Zero);
    let error = write_all_at(&*file, b"abc", 0).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WriteZero);
}

#[test]
fn a_failed_sync_leaves_its_data_uncertain_for_ever() {
    let sim = Sim::new();
    let faulty = Faulty::over(&sim);
    let file = create(&faulty, 1).unwrap();
    faulty.sync_dir().unwrap();
    write_all_at(&*file, b"abc", 0).unwrap();
    faulty.fail_next(Rule::op(Op::Sync), Fault::Io);
    file.sync().unwrap_err();
    file.sync().expect("the kernel has nothing left to fail");
    let mut replay = sim.replay(crate::sim::SECTOR);
    replay.advance(replay.last_point());
    let mut states = replay.power_loss(&crate::sim::PowerLoss::default());
    assert!(states.any(|image| image.read(&NAME(1)).unwrap().is_empty()));
}

#[test]
fn the_trace_reads_well() {
    let faulty = Faulty::new(Arc::new(Sim::new()));
    let file = create(&faulty, 1).unwrap();
    faulty.fail_call(1, Fault::Short);
    assert_eq!(file.write_at(b"abc", 7).unwrap(), 1);
    faulty.sync_dir().unwrap();
    let trace: Vec<String> = faulty.trace().iter().map(Call::to_string).collect();
    let expected =
        ["0 Create 000001.log at=0 len=0", "1 WriteAt 000001.log at=7 len=3 -> Short", "2 SyncDir"];
    assert_eq!(trace, expected);
}
