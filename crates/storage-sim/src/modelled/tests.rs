//! The time of known patterns of access is what a calculation by hand gives.

use std::sync::Arc;
use std::time::Duration;

use cleavedb_base::FileNumber;
use cleavedb_base::limits::BLOCK;
use cleavedb_storage::aligned::AlignedBuf;
use cleavedb_storage::api::{read_exact_at, write_all_at};
use cleavedb_storage::{Access, File, FileKind, Mode, Name, RemoveMode, Storage};

use super::{Clock, DIRTY_MAX, Profile, SimulatedDevice};
use crate::sim::Sim;

const PAGE: u64 = BLOCK as u64;

/// A device over memory, and a way to measure.
struct Bench {
    storage: SimulatedDevice,
    clock: Clock,
}

impl Bench {
    fn new(profile: Profile, cache_bytes: u64) -> Self {
        Self::on(Clock::virtual_time(), profile, cache_bytes)
    }

    fn on(clock: Clock, profile: Profile, cache_bytes: u64) -> Self {
        let sim = Sim::new();
        sim.stop_recording();
        Self {
            storage: SimulatedDevice::new(Arc::new(sim), profile, clock.clone(), cache_bytes),
            clock,
        }
    }

    /// A file of `pages` pages that the device holds.
    fn file(&self, number: u64, pages: u64, access: Access) -> Arc<dyn File> {
        let name = Name::numbered(FileKind::Table, FileNumber(number));
        let file = self.storage.open(&name, Mode::CreateNew, access).unwrap();
        write_all_at(&*file, &AlignedBuf::zeroed((pages * PAGE) as usize), 0).unwrap();
        file.sync().unwrap();
        file
    }

    /// Nanoseconds that `work` takes.
    fn time(&self, work: impl FnOnce()) -> u64 {
        let before = self.clock.now();
        work();
        (self.clock.now() - before).as_nanos() as u64
    }

    fn read(&self, file: &Arc<dyn File>, page: u64) -> u64 {
        self.time(|| read_exact_at(&**file, &mut [0; BLOCK], page * PAGE).unwrap())
    }
}

/// A page at 100 MB/s, 500 MB/s and 1300 MB/s.
const HDD_PAGE: u64 = 40_960;
const SATA_PAGE: u64 = 8_192;
const NVME_PAGE: u64 = 3_150;

const SEEK: u64 = 10_000_000;
const HDD_FLUSH: u64 = 8_333_000;

#[test]
fn a_hard_disk_seeks_unless_a_read_follows_the_last_one() {
    let bench = Bench::new(Profile::HDD, 0);
    let file = bench.file(1, 600, Access::Random);
    let other = bench.file(2, 1, Access::Random);
    assert_eq!(bench.read(&file, 0), SEEK + HDD_PAGE);
    assert_eq!(bench.read(&file, 1), HDD_PAGE);
    assert_eq!(bench.read(&file, 3), 2 * HDD_PAGE, "a page passes by below the head");
    assert_eq!(bench.read(&file, 500), SEEK + HDD_PAGE, "too far to wait for");
    assert_eq!(bench.read(&file, 499), SEEK + HDD_PAGE, "backwards");
    assert_eq!(bench.read(&other, 0), SEEK + HDD_PAGE);
    assert_eq!(bench.read(&file, 500), SEEK + HDD_PAGE, "the head was elsewhere");
}

#[test]
fn a_write_waits_for_its_sync_and_costs_one_request_a_piece() {
    let bench = Bench::new(Profile::HDD, 1 << 20);
    let file = bench.file(1, 1, Access::Random);
    let wrote = bench.time(|| {
        for page in [1, 2, 3, 9, 10] {
            write_all_at(&*file, &[1; BLOCK], page * PAGE).unwrap();
        }
    });
    assert_eq!(wrote, 0);
    // The first piece follows the head; the second is five pages away.
    let synced = bench.time(|| file.sync().unwrap());
    assert_eq!(synced, 3 * HDD_PAGE + 5 * HDD_PAGE + 2 * HDD_PAGE + HDD_FLUSH);
    assert_eq!(bench.time(|| file.sync().unwrap()), HDD_FLUSH, "nothing is dirty any more");
    assert_eq!(bench.read(&file, 9), 0, "what was written is in memory");
    assert_eq!(bench.storage.totals().bytes_written, 6 * PAGE);
}

#[test]
fn a_directory_costs_a_page_for_each_change_and_a_flush() {
    let bench = Bench::new(Profile::HDD, 0);
    bench.file(1, 1, Access::Random);
    bench.file(2, 1, Access::Random);
    let synced = bench.time(|| bench.storage.sync_dir().unwrap());
    assert_eq!(synced, SEEK + 2 * HDD_PAGE + HDD_FLUSH);
}

#[test]
fn the_cache_keeps_what_was_used_last() {
    let bench = Bench::new(Profile::SATA, 2 * PAGE);
    let file = bench.file(1, 4, Access::Random);
    let miss = 524_000 + SATA_PAGE;
    // The last two pages were written last.
    let times: Vec<u64> = [3, 2, 0, 2, 3, 0].map(|page| bench.read(&file, page)).into();
    assert_eq!(times, [0, 0, miss, 0, miss, miss]);
    let both = bench.time(|| read_exact_at(&*file, &mut [0; 2 * BLOCK], PAGE).unwrap());
    assert_eq!(both, 524_000 + 2 * SATA_PAGE, "two missing pages are one request");
}

#[test]
fn advice_overlaps_latencies_and_a_read_waits_for_the_rest() {
    let bench = Bench::new(Profile::NVME, 1 << 20);
    let file = bench.file(1, 17, Access::Direct);
    let name = Name::numbered(FileKind::Table, FileNumber(1));
    drop(file);
    let file = bench.storage.open(&name, Mode::Read, Access::Random).unwrap();
    let one = 52_000 + NVME_PAGE;
    assert_eq!(bench.read(&file, 0), one, "a direct write leaves nothing in the cache");
    let asked = bench.time(|| (0..8).for_each(|i| file.will_need((1 + 2 * i) * PAGE, BLOCK)));
    assert_eq!(asked, 0);
    // Four channels: the second four wait for the first, whose transfers end one after another.
    let waited = bench.read(&file, 1);
    assert_eq!(waited, one);
    let all: u64 = (1..8).map(|i| bench.read(&file, 1 + 2 * i)).sum();
    assert_eq!(waited + all, 2 * 52_000 + 5 * NVME_PAGE);
    file.will_need(1 << 40, 1 << 20);
    assert_eq!(bench.read(&file, 2), one, "advice beyond the end asks for nothing");
}

#[test]
fn a_sequential_reader_fetches_ahead_to_the_end_of_the_file() {
    let bench = Bench::new(Profile::SATA, 1 << 20);
    drop(bench.file(1, 100, Access::Direct));
    let name = Name::numbered(FileKind::Table, FileNumber(1));
    let file = bench.storage.open(&name, Mode::Read, Access::Sequential).unwrap();
    assert_eq!(bench.read(&file, 0), 524_000 + 64 * SATA_PAGE);
    assert_eq!((1..64).map(|page| bench.read(&file, page)).sum::<u64>(), 0);
    assert_eq!(bench.read(&file, 64), 524_000 + 36 * SATA_PAGE);
}

#[test]
fn direct_access_never_waits_for_a_sync() {
    let bench = Bench::new(Profile::SATA, 1 << 20);
    let file = bench.file(1, 1, Access::Direct);
    let buf = AlignedBuf::zeroed(BLOCK);
    let wrote = bench.time(|| write_all_at(&*file, &buf, PAGE).unwrap());
    assert_eq!(wrote, 60_000 + 10_240);
    assert_eq!(bench.time(|| file.sync().unwrap()), 500_000);
}

#[test]
fn a_writer_waits_once_too_much_is_dirty() {
    let bench = Bench::new(Profile::SATA, 0);
    let file = bench.file(1, 0, Access::Random);
    let chunk = vec![1; 1 << 20];
    let chunks = DIRTY_MAX >> 20;
    let time = |at: u64| bench.time(|| write_all_at(&*file, &chunk, at << 20).unwrap());
    assert_eq!((0..chunks - 1).map(time).sum::<u64>(), 0);
    assert_eq!(time(chunks - 1), 60_000 + DIRTY_MAX * 5 / 2, "400 MB/s");
    assert_eq!(time(chunks), 0);
}

#[test]
fn what_was_removed_is_never_written() {
    let bench = Bench::new(Profile::HDD, 1 << 20);
    let name = Name::numbered(FileKind::Table, FileNumber(1));
    let file = bench.storage.open(&name, Mode::CreateNew, Access::Random).unwrap();
    write_all_at(&*file, &[1; BLOCK], 0).unwrap();
    bench.storage.remove(&name, RemoveMode::Paced).unwrap();
    assert_eq!(bench.read(&file, 0), 0, "it is there as long as a handle is open");
    drop(file);
    let again = bench.storage.open(&name, Mode::CreateNew, Access::Random).unwrap();
    assert_eq!(bench.time(|| again.sync().unwrap()), HDD_FLUSH);
    assert_eq!(bench.storage.totals().writes, 0);
}

#[test]
fn two_devices_on_one_clock_work_side_by_side() {
    let slow = Bench::new(Profile::HDD, 0);
    let fast = Bench::on(slow.clock.clone(), Profile::SATA, 0);
    let (log, table) = (slow.file(1, 2, Access::Random), fast.file(1, 2, Access::Random));
    log.will_need(0, BLOCK);
    let during = fast.read(&table, 0);
    assert_eq!(during, 524_000 + SATA_PAGE, "the head of the other disk moves meanwhile");
    let totals = slow.storage.totals();
    assert_eq!((totals.reads, totals.writes, totals.flushes, totals.positionings), (1, 1, 1, 2));
    assert_eq!(totals.busy, Duration::from_nanos(2 * SEEK + 3 * HDD_PAGE));
}
