//! The space limit: never exceeded, told when it is reached, and writes go on once there is room.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cleavedb::layout::SurvivorRoute;
use cleavedb::{Background, Db, Durability, ErrorKind, Options, Preset, WriteBatch};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::{PowerLoss, SECTOR};
use cleavedb_testkit::Setup;
use cleavedb_testkit::budget::{in_turn, of};
use cleavedb_testkit::full::{FullStore, collected_on_a_full_disk, filled_twice, limited};
use cleavedb_testkit::records::{key, value};

#[test]
fn a_full_store_says_so_reads_and_deletes_and_then_takes_writes_again() {
    for setup in Setup::designs() {
        let (count, again) = filled_twice(&setup).unwrap_or_else(|e| panic!("{setup}: {e}"));
        println!("{setup}: {count} records, {again} in the place of {}", count.div_ceil(2));
        assert!(count > 1500, "{setup}: {count} records");
        assert!(again > count / 3, "{setup}: {again} of {count}");
    }
}

#[test]
fn a_full_store_gives_back_a_deleted_range() {
    for setup in Setup::designs() {
        let store = FullStore::new(limited(&setup)).unwrap();
        let count = store.fill(0.., 0).unwrap();
        store.db.delete_range(..key(count / 2)).unwrap();
        store.within().unwrap();
        let again = store.fill(count.., 1).unwrap();
        println!("{setup}: {count} records, {again} in the place of {}", count / 2);
        assert!(again > count / 3, "{setup}: {again} of {count}");
        let old = (0..count).map(|i| (i, (i >= count / 2).then_some(0)));
        store.check(old.chain((count..count + again).map(|i| (i, Some(1))))).unwrap();
    }
}

#[test]
fn a_collection_on_a_full_disk_leaves_nothing_behind() {
    for setup in Setup::designs().iter().filter(|setup| setup.options.preset != Some(Preset::Lsm)) {
        let failed = collected_on_a_full_disk(setup, 60).unwrap_or_else(|e| panic!("{setup}: {e}"));
        println!("{setup}: {failed} collections of 61 met a full disk");
        // Groups may have room in what an earlier collection has given back, and compactions go in
        // pieces.
        let groups = setup.options.layout().groups;
        let may_have_room = groups.is_some_and(|groups| groups.survivors == SurvivorRoute::Tagged)
            || setup.options.preset == Some(Preset::Ohdb);
        assert!(failed > 0 || may_have_room, "{setup}");
    }
}

#[test]
fn updates_go_on_for_ever_in_a_store_that_is_not_full() {
    for setup in Setup::designs() {
        let store = || FullStore::new(limited(&setup)).unwrap();
        let count = store().fill(0.., 0).unwrap() / 2;
        let store = store();
        for round in 0..of(4, 8, 8) {
            let order = (0..count).map(|i| i * 7919 % count);
            assert_eq!(store.fill(order, round), Ok(count), "{setup}, round {round}");
        }
        println!("{setup}: {count} records, {:?}", store.db.metrics().stalls);
    }
}

#[test]
fn threads_stay_within_the_limit() {
    for preset in in_turn(Preset::ALL.into()) {
        let options = limited(&Setup::tiny(preset, true));
        let threads = Options { background: Background::Threads(2), ..options };
        let store = FullStore::new(threads).unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    store.within().unwrap();
                    thread::sleep(Duration::from_millis(1));
                }
            });
            let writers = [0, 1].map(|first| {
                let store = &store;
                scope.spawn(move || store.fill((first..).step_by(2), 0).unwrap())
            });
            let counts = writers.map(|writer| writer.join().unwrap());
            done.store(true, Ordering::Relaxed);
            println!("{preset}: {counts:?}");
            assert!(counts.iter().sum::<u32>() > 1500, "{preset}: {counts:?}");
        });
        store.delete(0..1000).unwrap();
        assert_eq!(comes_back(&store, 10_000), Ok(()), "{preset}");
    }
}

/// Whether records from `first` on find room, soon after others were deleted: a search that found
/// nothing rests before the next one.
fn comes_back(store: &FullStore, first: u32) -> Result<(), String> {
    for _ in 0..600 {
        thread::sleep(Duration::from_millis(10));
        if store.fill(first..first + 300, 1)? == 300 {
            return Ok(());
        }
    }
    Err("what was deleted does not come back".to_owned())
}

/// A batch that is longer than a log file, for which no space was reserved beforehand.
#[test]
fn a_batch_for_which_there_is_no_room_is_refused_as_a_whole() {
    for setup in Setup::designs() {
        let store = FullStore::new(limited(&setup)).unwrap();
        let batch = |records| {
            let mut batch = WriteBatch::new();
            (0..records).for_each(|i| _ = batch.put(key(i), value(i, 0)).unwrap());
            store.db.write_with(&batch, Durability::Os)
        };
        let error = batch(8000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{setup}: {error}");
        store.check([(0, None)].into_iter()).unwrap();
        batch(300).unwrap_or_else(|e| panic!("{setup}: {e}"));
        store.within().unwrap();
        store.check((0..300).map(|i| (i, Some(0)))).unwrap();
    }
}

/// A batch that is not refused has room for its flush, whatever else wants it.
#[test]
fn a_long_batch_that_was_admitted_is_flushed() {
    for (setup, len) in
        Setup::designs().into_iter().cycle().zip((100..1200).step_by(of(150, 60, 30)))
    {
        let store = FullStore::new(limited(&setup)).unwrap();
        let mut admitted = 0;
        for first in (0..).step_by(len) {
            let mut batch = WriteBatch::new();
            (first..first + len as u32).for_each(|i| _ = batch.put(key(i), value(i, 0)).unwrap());
            match store.db.write_with(&batch, Durability::Os) {
                Ok(()) => admitted = first + len as u32,
                Err(e) if e.kind() == ErrorKind::NoSpace => break,
                Err(e) => panic!("{setup}: {e}"),
            }
        }
        assert!(admitted > 900, "{setup}, {len}: {admitted}");
        store.db.flush().unwrap_or_else(|e| panic!("{setup}, {len}: {e}"));
        store.within().unwrap();
        store.check((0..admitted).step_by(7).map(|i| (i, Some(0)))).unwrap();
    }
}

/// Each attempt begins a log file for a batch that does not come.
#[test]
fn long_batches_that_are_refused_take_no_space() {
    for setup in Setup::designs() {
        let store = FullStore::new(limited(&setup)).unwrap();
        let mut batch = WriteBatch::new();
        (0..8000).for_each(|i| _ = batch.put(key(i), value(i, 0)).unwrap());
        for i in 0..400 {
            store.db.put(key(i), value(i, 1)).unwrap_or_else(|e| panic!("{setup}, {i}: {e}"));
            assert!(store.db.write_with(&batch, Durability::Os).is_err());
        }
        store.within().unwrap();
    }
}

/// Of the space that was reserved for a log file most is unused if the next record does not fit.
#[test]
fn what_log_files_do_not_use_comes_back() {
    for setup in Setup::designs() {
        let store = FullStore::new(limited(&setup)).unwrap();
        let len = limited(&setup).tuning.log_file_bytes as usize * 11 / 20;
        let fits = (0..1000u32).take_while(|i| store.db.put(key(*i), vec![7; len]).is_ok());
        let bytes = fits.count() * len;
        println!("{setup}: {bytes} bytes");
        assert!(bytes > 7 << 19, "{setup}: {bytes} bytes");
    }
}

/// A file that is longer than all that is kept for jobs, and alive, is left where it is.
#[test]
fn a_long_value_in_front_keeps_nothing_from_being_collected() {
    let setup = Setup::tiny(Preset::WiscKey, true);
    let store = FullStore::new(limited(&setup)).unwrap();
    store.db.put(key(0), vec![7; 40 * limited(&setup).tuning.log_file_bytes as usize]).unwrap();
    store.db.put(key(1), value(1, 0)).unwrap();
    store.db.delete(key(1)).unwrap();
    for round in 0..6 {
        let done = store.fill(2..3002, round);
        assert_eq!(done, Ok(3000), "round {round}");
    }
}

#[test]
fn many_writers_leave_what_is_kept_for_jobs() {
    for setup in [Setup::tiny(Preset::WiscKey, true), Setup::tiny(Preset::HashKv, true)] {
        let options = limited(&setup);
        let records = options.tuning.log_file_bytes as u32 / 1024 * 3 / 4;
        let threads = Options { background: Background::Threads(2), ..options };
        let store = FullStore::new(threads).unwrap();
        let counts = thread::scope(|scope| {
            let writers = (0..16u32).map(|writer| {
                let store = &store;
                scope.spawn(move || {
                    for batch in 0.. {
                        let mut ops = WriteBatch::new();
                        let first = (batch * 16 + writer) * records;
                        let all = first..first + records;
                        all.for_each(|i| _ = ops.put(key(i), value(i, 0)).unwrap());
                        if store.db.write_with(&ops, Durability::Os).is_err() {
                            return batch;
                        }
                        store.within().unwrap();
                    }
                    0
                })
            });
            let writers: Vec<_> = writers.collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<u32>>()
        });
        println!("{setup}: {counts:?}");
        store.db.flush().unwrap_or_else(|e| panic!("{setup}: {e}"));
        // All that was written goes, and the store is as good as new.
        for (writer, batches) in (0..).zip(counts) {
            for batch in 0..batches {
                let first = (batch * 16 + writer) * records;
                store.delete(first..first + records).unwrap();
            }
        }
        assert_eq!(comes_back(&store, 1_000_000), Ok(()), "{setup}");
    }
}

/// A writer that searches for space goes on once there is some, though others, who are never
/// stopped, always have work for the background.
#[test]
fn a_search_ends_when_space_is_found() {
    for preset in in_turn(vec![Preset::WiscKey, Preset::HashKv]) {
        let setup = Setup::tiny(preset, true);
        let count = FullStore::new(limited(&setup)).unwrap().fill(0.., 0).unwrap() * 9 / 10;
        let options = Options { background: Background::Threads(2), ..limited(&setup) };
        let store = FullStore::new(options).unwrap();
        store.fill(0..count, 0).unwrap();
        let (start, done) = (Instant::now(), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) && start.elapsed() < Duration::from_secs(20) {
                    // While jobs write, what they will give back is not there yet.
                    let _ = store.delete(count..count + 10);
                }
            });
            for i in (0..10_000).map(|i| i * 7919 % count) {
                // Room that is not there yet is no failure here.
                let _ = store.db.put(key(i), value(i, 1));
            }
            done.store(true, Ordering::Relaxed);
        });
        println!("{preset}: {:?}", start.elapsed());
        assert!(start.elapsed() < Duration::from_secs(20), "{preset}: a writer was kept waiting");
        store.delete((0..count).step_by(2)).unwrap_or_else(|e| panic!("{preset}: {e}"));
        assert_eq!(comes_back(&store, count), Ok(()), "{preset}");
    }
}

/// Whatever the disk holds when a full store dies, it opens within the same limit and works.
#[test]
fn a_full_store_survives_crashes_within_its_limit() {
    let points = of(2, 7, 30);
    for setup in Setup::designs() {
        let options = limited(&setup);
        let sim = Sim::new();
        let store = FullStore::on(sim.clone(), options.clone()).unwrap();
        let count = store.fill(0.., 0).unwrap();
        store.db.sync().unwrap();
        let full = sim.time();
        store.delete((0..count).step_by(3)).unwrap();
        store.fill((1..count).step_by(3), 1).unwrap();
        let last = sim.time();
        let mut replay = sim.replay(SECTOR);
        for point in (0..points).map(|i| full + (last - full) * i / (points - 1)) {
            replay.advance(point);
            let losses = PowerLoss { states_max: 2, ..PowerLoss::default() };
            let images = replay.power_loss(&losses).chain([replay.process_kill()]);
            for image in images {
                let sim = Sim::from_image(image);
                sim.stop_recording();
                let at = format!("{setup}, operation {point}");
                let store = FullStore::on(sim, options.clone());
                let store = store.unwrap_or_else(|e| panic!("{at}: {e}"));
                store.within().unwrap_or_else(|e| panic!("{at}: {e}"));
                check_full(&store, count).unwrap_or_else(|e| panic!("{at}: {e}"));
            }
        }
    }
}

/// Whether each record is as some prefix of the writes left it, deletes pass, and writes go on.
fn check_full(store: &FullStore, count: u32) -> Result<(), String> {
    for i in 0..count {
        let got = store.db.get(key(i)).map_err(|e| format!("record {i}: {e}"))?;
        let is = |round| got.as_deref() == Some(&value(i, round));
        let fine = match i % 3 {
            0 => got.is_none() || is(0),
            1 => is(0) || is(1),
            _ => is(0),
        };
        if !fine {
            return Err(format!("record {i} is wrong"));
        }
    }
    store.delete(0..count / 2)?;
    let again = store.fill(count..count + 300, 2)?;
    if again == 300 { Ok(()) } else { Err(format!("{again} records, then it is full")) }
}

#[test]
fn a_limit_that_is_too_low_is_refused_in_words() {
    for preset in Preset::ALL {
        let setup = Setup::tiny(preset, true);
        let options = Options { space_limit: Some(1 << 20), ..setup.options.clone() };
        let error = Db::open_in(Arc::new(Sim::new()), options, 7).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidOptions);
        assert!(error.fact("least").is_some(), "{error}");
    }
}
