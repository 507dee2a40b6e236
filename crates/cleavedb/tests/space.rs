//! The space limit: never exceeded, told when it is reached, and writes go on once there is room.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use cleavedb::{Background, Db, Durability, ErrorKind, Options, Preset, WriteBatch};
use cleavedb_storage::Sim;
use cleavedb_testkit::Setup;
use cleavedb_testkit::full::{FullStore, filled_twice, limited};
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
fn updates_go_on_for_ever_in_a_store_that_is_not_full() {
    for setup in Setup::designs() {
        let store = || FullStore::new(limited(&setup)).unwrap();
        let count = store().fill(0.., 0).unwrap() / 2;
        let store = store();
        for round in 0..8 {
            let order = (0..count).map(|i| i * 7919 % count);
            assert_eq!(store.fill(order, round), Ok(count), "{setup}, round {round}");
        }
        println!("{setup}: {count} records, {:?}", store.db.metrics().stalls);
    }
}

#[test]
fn threads_stay_within_the_limit() {
    for preset in Preset::ALL {
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
        // A search that found nothing rests before the next one.
        let again = (0..600).any(|_| {
            thread::sleep(Duration::from_millis(10));
            store.fill(10_000..10_050, 1) == Ok(50)
        });
        assert!(again, "{preset}: what was deleted does not come back");
    }
}

/// A batch that is longer than a log file, for which no space was reserved beforehand.
#[test]
fn a_batch_for_which_there_is_no_room_is_refused_as_a_whole() {
    for setup in Setup::designs() {
        let store = FullStore::new(limited(&setup)).unwrap();
        let batch = |records| {
            let mut batch = WriteBatch::new();
            (0..records).for_each(|i| _ = batch.put(&key(i), &value(i, 0)).unwrap());
            store.db.write(&batch, Durability::Os)
        };
        let error = batch(8000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{setup}: {error}");
        store.check([(0, None)].into_iter()).unwrap();
        batch(300).unwrap_or_else(|e| panic!("{setup}: {e}"));
        store.within().unwrap();
        store.check((0..300).map(|i| (i, Some(0)))).unwrap();
    }
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
