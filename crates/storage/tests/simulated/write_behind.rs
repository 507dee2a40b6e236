//! Files that a thread writes, or the caller at once where there is no thread.

use std::io;
use std::sync::Arc;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::{ErrorKind, FileNumber};
use cleavedb_storage::api::write_all_at;
use cleavedb_storage::{Access, File, FileKind, FileLayer, Mode, Name, Storage, WriteBehind};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::faulty::{Fault, Faulty, Op, Rule};
use cleavedb_storage_sim::sim::PowerLoss;

const PIECE: usize = 1 << 20;
/// More than wait at once.
const PIECES: usize = 9;

fn name(number: u64) -> Name {
    Name::numbered(FileKind::Table, FileNumber(number))
}

fn create(storage: &dyn Storage, behind: &WriteBehind, number: u64) -> Arc<dyn File> {
    let name = name(number);
    behind.file(name, storage.open(&name, Mode::CreateNew, Access::Direct).unwrap())
}

fn write(file: &dyn File) {
    for piece in 0..PIECES {
        write_all_at(file, &vec![piece as u8; PIECE], (piece * PIECE) as u64).unwrap();
    }
    file.truncate(((PIECES - 1) * PIECE) as u64 + 7).unwrap();
    file.sync().unwrap();
}

#[test]
fn what_is_settled_is_written_in_order_cut_and_durable() {
    for threads in [false, true] {
        let sim = Sim::new();
        let behind = WriteBehind::new(threads).unwrap();
        (1..=2).for_each(|number| write(&*create(&sim, &behind, number)));
        behind.settle().unwrap();
        sim.sync_dir().unwrap();
        let mut replay = sim.replay(BLOCK);
        replay.advance(replay.last_point());
        let images: Vec<_> = replay.power_loss(&PowerLoss::default()).collect();
        let [image] = &images[..] else { panic!("{} states are possible", images.len()) };
        for number in 1..=2 {
            let bytes = image.read(&name(number)).unwrap();
            assert_eq!(bytes.len(), (PIECES - 1) * PIECE + 7);
            assert!((0..bytes.len()).all(|at| bytes[at] as usize == at / PIECE));
        }
    }
}

#[test]
fn a_failure_names_its_file_and_nothing_follows_it() {
    for threads in [false, true] {
        for (op, fault, kind) in [
            (Op::WriteAt, Fault::NoSpace, ErrorKind::NoSpace),
            (Op::Truncate, Fault::Io, ErrorKind::Io),
            (Op::Sync, Fault::NoSpace, ErrorKind::Io),
        ] {
            let faulty = Faulty::over(&Sim::new());
            let behind = WriteBehind::new(threads).unwrap();
            let (first, second) = (create(&faulty, &behind, 1), create(&faulty, &behind, 2));
            faulty.fail_next(Rule::op(op), fault);
            write(&*first);
            write(&*second);
            let error = behind.settle().unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(&name(1).to_string()), "{error}");
            assert_eq!(behind.check().unwrap_err().to_string(), error.to_string());
            let second = faulty.open(&name(2), Mode::Read, Access::Random).unwrap();
            assert_eq!(second.len().unwrap(), 0);
        }
    }
}

#[test]
fn a_drop_gives_up_what_waits() {
    let sim = Sim::new();
    let behind = WriteBehind::new(true).unwrap();
    let file = create(&sim, &behind, 1);
    write(&*file);
    drop(behind);
    // Neither waits nor fails, although there is no thread any more.
    write(&*file);
}

/// A file whose writes panic.
struct Panicking(Arc<dyn File>);

impl FileLayer for Panicking {
    fn inner(&self) -> &dyn File {
        &*self.0
    }

    fn write_at(&self, _buf: &[u8], _offset: u64) -> io::Result<usize> {
        std::panic::resume_unwind(Box::new("a write"));
    }
}

#[test]
fn a_panic_of_the_thread_is_an_error_of_its_caller() {
    let behind = WriteBehind::new(true).unwrap();
    let file = Sim::new().open(&name(1), Mode::CreateNew, Access::Direct).unwrap();
    write(&*behind.file(name(1), Arc::new(Panicking(file))));
    assert_eq!(behind.settle().unwrap_err().kind(), ErrorKind::Io);
}
