//! Event listeners: what they are told, that they may use the database, and that no panic of one
//! harms it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use cleavedb::metrics::JobKind;
use cleavedb::{Background, Db, Durability, ErrorKind, Event, EventListener, KeyspaceOptions};
use cleavedb_storage::FileKind;
use cleavedb_storage_sim::faulty::{Fault, Op, Rule};
use cleavedb_storage_sim::{Faulty, Sim};
use cleavedb_testkit::{Churn, Disks, Setup, session};

/// Keeps what it is told.
#[derive(Debug, Default)]
struct Notes(Mutex<Vec<Event>>);

impl EventListener for Notes {
    fn on_event(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Notes {
    fn taken(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn open(disks: &Disks, setup: &Setup) -> Db {
    session::open_all(&disks.storages(), setup).unwrap()
}

/// Jobs by kind: how many began, how many ended well, and the bytes that they wrote.
fn jobs(events: &[Event]) -> BTreeMap<JobKind, (u64, u64, u64)> {
    let mut jobs = BTreeMap::<JobKind, (u64, u64, u64)>::new();
    for event in events {
        match event {
            Event::JobBegan { job, why, .. } => {
                assert!(!why.is_empty());
                jobs.entry(*job).or_default().0 += 1;
            }
            Event::JobEnded { job, bytes_out, error, .. } => {
                let count = jobs.entry(*job).or_default();
                count.1 += u64::from(error.is_none());
                count.2 += bytes_out;
            }
            _ => {}
        }
    }
    jobs
}

#[test]
fn what_happens_is_told_as_it_is_counted_under_every_design() {
    for mut setup in Setup::designs() {
        let notes = Arc::new(Notes::default());
        setup.options.listeners.push(notes.clone());
        let disks = Disks::new(&setup);
        let db = open(&disks, &setup);
        let opened = notes.taken();
        assert!(matches!(opened[..], [Event::Opened { replayed: 0, .. }]), "{opened:?}");
        let mut churn = Churn::new(3);
        (0..3).for_each(|_| churn.work(&db, 300));
        db.collect().unwrap();
        let (events, metrics) = (notes.taken(), db.metrics());
        let jobs = jobs(&events);
        let of = |kind| jobs.get(&kind).copied().unwrap_or_default();
        let (count, written) = (metrics.flushes, metrics.flush_written);
        assert_eq!(of(JobKind::Flush), (count, count, written), "{setup}");
        let count = metrics.compactions + metrics.compaction_moves;
        let written = metrics.compaction_written;
        assert_eq!(of(JobKind::Compact), (count, count, written), "{setup}");
        let (count, written) = (metrics.collections, metrics.collection_written);
        assert_eq!(of(JobKind::Collect), (count, count, written), "{setup}");
        let removed = events.iter().filter(|event| matches!(event, Event::FileRemoved { .. }));
        assert_eq!(removed.count() as u64, metrics.files_removed, "{setup}");
        let stalls: u64 = metrics.stalls.iter().map(|stall| stall.count).sum();
        let ended = events.iter().filter(|event| matches!(event, Event::StallEnded { .. }));
        assert_eq!(ended.count() as u64, stalls, "{setup}");
        db.put_with("key", "value", Durability::Os).unwrap();
        let disks = disks.kill();
        drop(db);
        notes.taken();
        let db = open(&disks, &setup);
        let opened = notes.taken();
        assert!(matches!(opened[..], [Event::Opened { replayed: 1.., .. }]), "{opened:?}");
        db.close().unwrap();
        let closed = notes.taken();
        assert!(matches!(closed[..], [.., Event::Closed { error: None, .. }]), "{closed:?}");
    }
}

/// Uses the database at every event: if its thread held a lock, this would wait for ever.
#[derive(Debug, Default)]
struct Busy {
    db: Mutex<Option<(Weak<Db>, bool)>>,
    used: Mutex<BTreeMap<&'static str, u64>>,
}

impl Busy {
    fn count(&self, what: &'static str) {
        *self.used.lock().unwrap().entry(what).or_default() += 1;
    }
}

impl EventListener for Busy {
    fn on_event(&self, event: &Event) {
        let handle =
            self.db.lock().unwrap().as_ref().and_then(|(db, all)| Some((db.upgrade()?, *all)));
        let Some((db, all)) = handle else { return };
        self.count("events");
        let kind = std::mem::discriminant(event);
        match db.put_with("told", format!("{kind:?}"), Durability::Sync) {
            Ok(()) => assert!(db.get("told").unwrap().is_some()),
            Err(e) => assert!([ErrorKind::Stalled, ErrorKind::Closed].contains(&e.kind()), "{e}"),
        }
        let _ = db.metrics();
        assert!(db.find_keyspace("none").unwrap_or_default().is_none());
        // A writer may create one meanwhile, and wait for this thread.
        let name = format!("keyspace {}", self.used.lock().unwrap()["events"]);
        match db.create_keyspace(&name, KeyspaceOptions::default()) {
            Ok(_) => _ = db.drop_keyspace(&name),
            Err(e) => assert!([ErrorKind::Stalled, ErrorKind::Closed].contains(&e.kind()), "{e}"),
        }
        if all {
            for waits in [Db::flush, Db::compact, Db::collect, Db::wait_idle] {
                let refused = waits(&db).err().map(|e| e.kind());
                assert!([ErrorKind::Stalled, ErrorKind::Closed].map(Some).contains(&refused));
                self.count("refused");
            }
            let closed = Db::clone(&db).close().unwrap_err();
            assert!(closed.message().contains("in another thread"), "{closed}");
        }
    }
}

#[test]
fn a_listener_may_use_the_database_and_is_refused_what_would_wait() {
    for mut setup in Setup::designs() {
        for background in [Background::Manual, Background::Threads(2)] {
            let busy = Arc::new(Busy::default());
            setup.options.listeners = vec![busy.clone()];
            setup.options.background = background;
            let disks = Disks::new(&setup);
            let db = Arc::new(open(&disks, &setup));
            db.put("a", "b").unwrap();
            *busy.db.lock().unwrap() = Some((Arc::downgrade(&db), true));
            for key in 0..400u32 {
                db.put_with(key.to_be_bytes(), [1; 400], Durability::Os).unwrap();
                if key % 100 == 0 {
                    let name = format!("of the user {key}");
                    db.create_keyspace(&name, KeyspaceOptions::default()).unwrap();
                    db.drop_keyspace(&name).unwrap();
                    // A load waits for flushes, and keeps writers waiting.
                    let loaded = (0..9u32).map(|n| (format!("load {n:02}"), [2; 400]));
                    db.default_keyspace().ingest(loaded).unwrap();
                }
            }
            db.flush().unwrap();
            Db::clone(&db).close().unwrap();
            let used = busy.used.lock().unwrap();
            assert!(used["events"] > 5 && used["refused"] > 0, "{setup} {used:?}");
        }
    }
}

#[derive(Debug)]
struct Panics;

impl EventListener for Panics {
    fn on_event(&self, _: &Event) {
        // No message: it would be printed many times.
        std::panic::resume_unwind(Box::new("a listener"));
    }
}

#[test]
fn a_listener_that_panics_harms_neither_the_database_nor_other_listeners() {
    for mut setup in Setup::designs() {
        let notes = Arc::new(Notes::default());
        setup.options.listeners = vec![Arc::new(Panics), notes.clone()];
        let db = open(&Disks::new(&setup), &setup);
        let mut churn = Churn::new(4);
        churn.work(&db, 600);
        churn.check(&db);
        assert!(db.metrics().poisoned.is_none(), "{setup}");
        db.close().unwrap();
        assert!(jobs(&notes.taken())[&JobKind::Flush].1 > 0, "{setup}");
    }
}

/// A database over a disk that can be made to fail, and what it tells.
fn failing(setup: &Setup) -> (Arc<Faulty>, Db, Arc<Notes>) {
    let (notes, mut setup) = (Arc::new(Notes::default()), setup.clone());
    setup.options.listeners.push(notes.clone());
    let sim = Sim::new();
    let faulty = Arc::new(Faulty::over(&sim));
    let db = session::open(faulty.clone(), &setup).unwrap();
    db.put_with("key", "value", Durability::Os).unwrap();
    notes.taken();
    (faulty, db, notes)
}

#[test]
fn a_job_that_fails_and_one_that_recovers_are_told() {
    for setup in Setup::designs() {
        let setup = setup.in_one_directory();
        let (faulty, db, notes) = failing(&setup);
        faulty.fail_matching(Rule::both(Op::Create, FileKind::Table), Fault::Io);
        let error = db.flush().unwrap_err();
        let failed = notes.taken();
        let tries = |event: &Event| match event {
            Event::JobFailed { job: JobKind::Flush, tries, error: told, .. } => {
                assert_eq!(told.kind(), error.kind(), "{setup}");
                Some(*tries)
            }
            _ => None,
        };
        let failures: Vec<u64> = failed.iter().filter_map(tries).collect();
        assert!(!failures.is_empty() && failures.is_sorted(), "{setup}: {failed:?}");
        faulty.heal();
        while db.step().unwrap() {}
        let told = notes.taken();
        assert_eq!(jobs(&told)[&JobKind::Flush].1, 1, "{setup}");
        let is_recovery = |event: &Event| match event {
            Event::JobRecovered { job: JobKind::Flush, tries, .. } => failures.ends_with(&[*tries]),
            _ => false,
        };
        assert!(told.iter().any(is_recovery), "{setup}: {told:?}");
        db.close().unwrap();
    }
}

#[test]
fn writes_that_are_refused_from_now_on_are_told_once() {
    for setup in Setup::designs() {
        let (faulty, db, notes) = failing(&setup.in_one_directory());
        faulty.fail_next(Rule::both(Op::Sync, FileKind::Log), Fault::Io);
        for _ in 0..3 {
            assert!(db.put_with("new", "value", Durability::Sync).is_err());
        }
        assert!(db.close().is_err());
        let told = notes.taken();
        let refusals = told.iter().filter(|event| matches!(event, Event::WritesRefused { .. }));
        assert_eq!(refusals.count(), 1, "{told:?}");
        assert!(matches!(told[..], [.., Event::Closed { error: Some(_), .. }]), "{told:?}");
    }
}
