//! Filters: what background work drops and replaces, and that everything else stays.

use std::sync::Arc;

use cleavedb::{Db, Error, ErrorKind, Filter, FilterDecision, Operand};
use cleavedb_storage_sim::Sim;
use cleavedb_testkit::{Disks, Generator, Profile, Session, Setup, State, session};

/// Drops keys that begin with `drop`, and replaces those that begin with `swap`, if their value has
/// more than a byte.
fn by_name() -> Filter {
    Filter::new(|value| {
        assert_eq!(value.keyspace(), "default");
        Ok(match value.key() {
            key if key.starts_with(b"drop") => FilterDecision::Drop,
            key if key.starts_with(b"swap") => {
                let old = value.value()?;
                match old.len() {
                    1 => FilterDecision::Keep,
                    _ => FilterDecision::Replace(vec![old[0]]),
                }
            }
            _ => FilterDecision::Keep,
        })
    })
}

fn with(setup: &Setup, filter: Filter) -> Setup {
    let mut setup = setup.clone();
    setup.options.filter = Some(filter);
    setup
}

fn open(sim: &Arc<Sim>, setup: &Setup) -> Db {
    session::open(sim.clone(), setup).unwrap()
}

/// Whether jobs ask about separated values of this layout when they collect them.
fn asks_outside(setup: &Setup) -> bool {
    setup.options.layout().separates() && !setup.name.contains("tagging")
}

#[test]
fn jobs_drop_and_replace_what_the_filter_says() {
    for setup in Setup::designs() {
        for len in [20, 2500] {
            let (sim, filtered) = (Arc::new(Sim::new()), with(&setup, by_name()));
            let db = open(&sim, &filtered);
            let value = |number: u32| vec![number as u8; len];
            for number in 0..60 {
                for name in ["drop", "keep", "swap"] {
                    db.put(format!("{name}{number:02}"), value(number)).unwrap();
                }
            }
            db.put("keep", "x").unwrap();
            // Every other value is overwritten, so that there is something to collect.
            for number in (0..60).step_by(2) {
                for name in ["drop", "keep", "swap"] {
                    db.put(format!("{name}{number:02}"), value(number)).unwrap();
                }
            }
            let snapshot = db.snapshot();
            let jobs = |db: &Db| {
                db.flush().unwrap();
                for _ in 0..3 {
                    db.compact().and_then(|()| db.collect()).unwrap();
                }
            };
            let all = |range: cleavedb::Range| range.map(Result::unwrap).collect::<Vec<_>>();
            let before = all(snapshot.range(..));
            jobs(&db);
            assert!(all(db.range(..)) == before, "{setup}: a snapshot is held");
            assert!(all(snapshot.range(..)) == before, "{setup}");
            drop(snapshot);
            // What is collected without a neighbour of its key that is dead.
            for number in (1..60).step_by(2) {
                db.put(format!("keep{number:02}"), value(number)).unwrap();
            }
            jobs(&db);
            let check = |db: &Db| {
                for number in 0..60 {
                    assert_eq!(
                        db.get(format!("keep{number:02}")).unwrap().unwrap(),
                        value(number),
                        "{setup}"
                    );
                    if len == 20 || asks_outside(&setup) {
                        let swapped = db.get(format!("swap{number:02}")).unwrap().unwrap();
                        assert_eq!(swapped, [number as u8][..], "{setup} {len}");
                        assert_eq!(
                            db.get(format!("drop{number:02}")).unwrap(),
                            None,
                            "{setup} {len}"
                        );
                    }
                }
                assert!(db.verify().unwrap().problems.is_empty(), "{setup}");
            };
            check(&db);
            db.close().unwrap();
            // Another open without the filter does not bring anything back.
            let db = open(&sim, &setup);
            check(&db);
            for number in 0..60 {
                db.put(format!("new{number:02}"), value(number)).unwrap();
            }
            jobs(&db);
            check(&db);
        }
    }
}

/// A filter that replaces each value by itself changes nothing, whatever it meets: snapshots,
/// operands, deletes of ranges, values that expire, kills.
#[test]
fn a_filter_that_puts_each_value_back_changes_no_answer() {
    let same = || Filter::new(|value| Ok(FilterDecision::Replace(value.value()?.to_vec())));
    for seed in 0..12 {
        let ttls = if seed % 3 == 0 { 25 } else { 0 };
        let profile = Profile { merges: 30 * (seed % 2), ranges: 4, ttls, ..Profile::model() };
        let ops = Generator::new(seed, profile).take(150);
        for setup in Setup::designs() {
            let setup = with(&setup, same());
            let run = || {
                let disks = Disks::forgetful(&setup);
                let mut session = Session::on(disks, &setup, State::default())?;
                ops.iter().try_for_each(|op| session.run(op))?;
                session.compare_all()?;
                session.verify()
            };
            run().unwrap_or_else(|failure| panic!("{setup}, seed {seed}: {failure}"));
        }
    }
}

/// A filter that fails fails its jobs, and nothing else.
#[test]
fn a_filter_that_fails_loses_nothing() {
    let failing = Filter::new(|_| Err(Error::new(ErrorKind::InvalidArgument, "no")));
    let mut failures = 0;
    for setup in Setup::every_design() {
        let sim = Arc::new(Sim::new());
        {
            let db = open(&sim, &with(&setup, failing.clone()));
            for number in 0..40 {
                db.put(format!("{}", number % 20), vec![7; 60 * (number % 20)]).unwrap();
                if number % 10 == 9 {
                    db.flush().unwrap();
                }
            }
            db.merge("0", &Operand::append("x")).unwrap();
            let failed = db.compact().and_then(|()| db.collect());
            if let Err(failed) = failed {
                assert_eq!(failed.kind(), ErrorKind::InvalidArgument, "{setup}");
                failures += 1;
            }
            assert_eq!(db.range(..).count(), 20);
        }
        let db = open(&sim, &setup);
        db.compact().and_then(|()| db.collect()).unwrap();
        assert_eq!(
            (db.range(..).count(), db.get("0").unwrap().unwrap()),
            (20, "x".into()),
            "{setup}"
        );
        assert!(db.verify().unwrap().problems.is_empty(), "{setup}");
    }
    assert!(failures > 3, "{failures}");
}
