//! Values from readers: what a blob is for reads and for its space, under every design.

use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cleavedb::{ChangeKind, Db, Durability, ErrorKind, FileClass, Options, Preset};
use cleavedb_storage::{FileKind, Name, Storage};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::faulty::{Fault, Faulty};
use cleavedb_testkit::blobs::Halting;
use cleavedb_testkit::{Disks, Setup, session};

/// Bytes of a whole piece of a blob.
const PIECE: usize = 64 << 10;

fn open(sim: &Sim, options: &Options) -> Db {
    Db::open_in(Arc::new(sim.clone()), options.clone(), 7).unwrap()
}

/// A value in which no part equals another one.
fn value(seed: u32, len: usize) -> Vec<u8> {
    let words = (0..len as u32 / 4 + 1).flat_map(|at| (at ^ seed << 24).to_be_bytes());
    words.take(len).collect()
}

/// Names of the files of blobs.
fn blobs(sim: &Sim) -> Vec<Name> {
    let files = sim.list().unwrap().into_iter().map(|(name, _)| name);
    files.filter(|name| name.kind() == FileKind::Blob).collect()
}

/// Every design, with blobs.
fn designs() -> Vec<Setup> {
    Setup::designs().into_iter().map(Setup::with_blobs).collect()
}

#[test]
fn every_part_of_a_blob_is_read_as_it_was_written() {
    let lens = [200, 1000, PIECE - 1, PIECE, PIECE + 1, 17 * PIECE + 5, 40 * PIECE];
    for setup in designs() {
        let sim = Sim::new();
        let db = open(&sim, &setup.options);
        for len in lens {
            let value = value(7, len);
            assert_eq!(
                db.default_keyspace().put_reader("key", Halting::new(&value)).unwrap(),
                len as u64
            );
            assert!(db.get("key").unwrap().unwrap() == value, "{setup}: {len}");
            let mut reader = db.default_keyspace().get_reader("key").unwrap().unwrap();
            assert_eq!(reader.len(), len as u64);
            let mut found = Vec::new();
            reader.read_to_end(&mut found).unwrap();
            assert!(found == value, "{setup}: {len}");
            for at in [0, 1, len / 2, len - 1, len, len + 9] {
                reader.seek(SeekFrom::Start(at as u64)).unwrap();
                let expected = &value[at.min(len)..];
                let seen = reader.fill_buf().unwrap();
                assert!(expected.starts_with(seen) && seen.is_empty() == expected.is_empty());
                for wanted in [0, 1, 3000, PIECE, 3 * PIECE, usize::MAX] {
                    let part =
                        db.default_keyspace().get_range("key", at as u64, wanted).unwrap().unwrap();
                    assert!(part == expected[..wanted.min(expected.len())], "{setup}: {at}");
                }
            }
        }
        assert!(reader_refuses_places_in_front(&db));
        assert_eq!(db.default_keyspace().get_range("none", 0, 10).unwrap(), None);
        assert!(db.default_keyspace().get_reader("none").unwrap().is_none());
        assert_eq!(db.verify().unwrap().problems.len(), 0, "{setup}");
    }
}

fn reader_refuses_places_in_front(db: &Db) -> bool {
    let mut reader = db.default_keyspace().get_reader("key").unwrap().unwrap();
    let refused = reader.seek(SeekFrom::End(-(1 << 40)));
    refused.is_err_and(|e| e.kind() == io::ErrorKind::InvalidInput)
}

/// A cursor has a reader of each value that it comes to, as of its moment.
#[test]
fn cursors_have_readers_of_values() {
    for setup in designs() {
        let db = open(&Sim::new(), &setup.options);
        let values = [value(1, 3 * PIECE), value(2, 50), value(3, 2000)];
        for (at, value) in values.iter().enumerate() {
            match at {
                0 => _ = db.default_keyspace().put_reader("0", &value[..]).unwrap(),
                at => db.put(at.to_string(), value).unwrap(),
            }
        }
        for _ in 0..2 {
            let mut cursor = db.cursor(..);
            assert!(cursor.reader().unwrap().is_none());
            db.put("0", "later").unwrap();
            for value in &values {
                assert!(cursor.next().unwrap());
                for _ in 0..2 {
                    let mut found = Vec::new();
                    cursor.reader().unwrap().unwrap().read_to_end(&mut found).unwrap();
                    assert!(
                        found == *value && cursor.value().unwrap().unwrap() == *value,
                        "{setup}"
                    );
                }
            }
            assert!(!cursor.next().unwrap() && cursor.reader().unwrap().is_none());
            drop(cursor);
            db.default_keyspace().put_reader("0", &values[0][..]).unwrap();
            db.compact().unwrap();
        }
    }
}

/// What was put plainly, or is short, is read by the same calls.
#[test]
fn other_values_have_readers_and_ranges_too() {
    for setup in designs() {
        let db = open(&Sim::new(), &setup.options);
        let (short, long) = (value(1, 100), value(2, 5000));
        db.default_keyspace().put_reader("short", &short[..]).unwrap();
        db.put("long", &long).unwrap();
        for _ in 0..2 {
            for (key, value) in [("short", &short), ("long", &long)] {
                let mut found = Vec::new();
                db.default_keyspace()
                    .get_reader(key)
                    .unwrap()
                    .unwrap()
                    .read_to_end(&mut found)
                    .unwrap();
                assert!(found == *value, "{setup}: {key}");
                assert_eq!(
                    db.default_keyspace().get_range(key, 60, 30).unwrap().unwrap(),
                    value[60..90]
                );
                assert_eq!(db.default_keyspace().get_range(key, 9000, 30).unwrap().unwrap(), "");
            }
            db.compact().unwrap();
        }
    }
}

/// Whatever ends the life of a blob, its file goes, and not before.
#[test]
fn the_file_of_a_blob_goes_with_what_sees_it() {
    type End = (&'static str, fn(&Db, &Setup));
    let ends: [End; 6] = [
        ("a put", |db, _| db.put("key", "short").unwrap()),
        ("another blob", |db, _| {
            db.default_keyspace().put_reader("key", &value(2, 900)[..]).unwrap();
            db.delete("key").unwrap();
        }),
        ("a delete", |db, _| db.delete("key").unwrap()),
        ("a delete of a range", |db, _| db.delete_range("a".."z").unwrap()),
        ("expiry", |db, setup| {
            assert!(db.default_keyspace().set_ttl("key", Duration::from_millis(5)).unwrap());
            setup.clock.advance(Duration::from_millis(10));
        }),
        ("a drop", |db, _| db.drop_keyspace("space").unwrap()),
    ];
    for setup in designs() {
        for (name, end) in ends {
            for flushed in [false, true] {
                let sim = Sim::new();
                let db = open(&sim, &setup.options);
                let space = db.keyspace("space").unwrap();
                let target = if name == "a drop" { &space } else { db.default_keyspace() };
                target.put_reader("key", &value(1, 3000)[..]).unwrap();
                db.put("other", "value").unwrap();
                if flushed {
                    db.flush().unwrap();
                    db.wait_idle().unwrap();
                }
                assert_eq!(blobs(&sim).len(), 1);
                let snapshot = db.snapshot();
                let mut reader = target.get_reader("key").unwrap().unwrap();
                end(&db, &setup);
                let settle = || {
                    db.flush().unwrap();
                    db.compact().unwrap();
                    db.wait_idle().unwrap();
                };
                settle();
                let what = format!("{setup}, {name}, flushed {flushed}");
                let seen = snapshot.keyspace(target).get("key");
                match name {
                    "a drop" => {}
                    _ => assert!(seen.unwrap().unwrap() == value(1, 3000), "{what}"),
                }
                drop(snapshot);
                settle();
                let mut found = Vec::new();
                reader.read_to_end(&mut found).unwrap();
                assert!(found == value(1, 3000), "{what}");
                drop(reader);
                db.put("other", "value").unwrap();
                settle();
                assert_eq!(blobs(&sim), [], "{what}");
                assert_eq!(db.verify().unwrap().problems.len(), 0, "{what}");
            }
        }
    }
}

/// Another expiry of a blob is another entry for the same file: no byte of it is read or written.
#[test]
fn a_blob_with_another_expiry_stays_where_it_is() {
    let ttl = Duration::from_secs(10);
    for setup in designs() {
        for flushed in [false, true] {
            let sim = Sim::new();
            let mut db = open(&sim, &setup.options);
            let blob = value(1, 20 * PIECE);
            db.default_keyspace().put_reader("key", &blob[..]).unwrap();
            if flushed {
                db.flush().unwrap();
            }
            let (files, before) = (blobs(&sim), db.metrics());
            let snapshot = db.snapshot();
            assert!(
                db.default_keyspace().set_ttl("key", ttl).unwrap()
                    && !db.default_keyspace().set_ttl("none", ttl).unwrap()
            );
            let written = db.metrics().log_written - before.log_written;
            let what = format!("{setup}, flushed {flushed}");
            assert!(written < PIECE as u64 && blobs(&sim) == files, "{what}: {written}");
            assert_eq!(db.metrics().blob_written, before.blob_written, "{what}");
            assert_eq!(snapshot.get_reader("key").unwrap().unwrap().expires(), None);
            drop(snapshot);
            for _ in 0..2 {
                let reader = db.default_keyspace().get_reader("key").unwrap().unwrap();
                assert!(reader.expires().is_some() && reader.len() == blob.len() as u64);
                drop(reader);
                assert!(
                    db.default_keyspace().get_range("key", 5, 9).unwrap().unwrap() == blob[5..14],
                    "{what}"
                );
                db.compact().unwrap();
                assert_eq!((blobs(&sim), db.verify().unwrap().problems.len()), (files.clone(), 0));
                db.close().unwrap();
                db = open(&sim, &setup.options);
            }
            // The entry that does not expire outlives the one that does.
            assert!(db.default_keyspace().set_expiry("key", None).unwrap());
            setup.clock.advance(2 * ttl);
            db.compact().unwrap();
            assert!(db.get("key").unwrap().unwrap() == blob, "{what}");
            assert!(db.default_keyspace().set_ttl("key", ttl).unwrap());
            setup.clock.advance(2 * ttl);
            assert!(
                db.get("key").unwrap().is_none()
                    && !db.default_keyspace().set_expiry("key", None).unwrap()
            );
            db.compact().unwrap();
            assert_eq!((blobs(&sim), db.verify().unwrap().problems.len()), (vec![], 0), "{what}");
            // A time that is over is a delete.
            db.default_keyspace().put_reader("key", &blob[..]).unwrap();
            assert!(db.default_keyspace().set_expiry("key", Some(std::time::UNIX_EPOCH)).unwrap());
            assert_eq!(db.get("key").unwrap(), None, "{what}");
            db.compact().unwrap();
            assert_eq!(blobs(&sim), [], "{what}");
        }
    }
}

/// Blobs that replace each other do not wait for a MemTable that small records would never fill.
#[test]
fn replaced_blobs_take_bounded_space() {
    for setup in designs() {
        let sim = Sim::new();
        let db = open(&sim, &setup.options);
        let memtable = setup.options.tuning.memtable_bytes.unwrap() as u64;
        let mut most = 0;
        for round in 0..200 {
            db.default_keyspace().put_reader("key", &value(round, 20_000)[..]).unwrap();
            db.wait_idle().unwrap();
            most = most.max(db.metrics().blob_file_bytes);
        }
        assert!(most < 12 * memtable, "{setup}: {most} bytes of blobs, of which 20,000 are needed");
    }
}

/// Blobs deep in an index that is hardly written go when they take more than is tolerated.
#[test]
fn hidden_blobs_of_a_quiet_database_give_their_space_back() {
    for setup in designs() {
        let sim = Sim::new();
        let db = open(&sim, &setup.options);
        let key = |at: u32| format!("key{at:04}");
        for at in 0..2000 {
            match at % 100 {
                0 => _ = db.default_keyspace().put_reader(key(at), &value(at, 30_000)[..]).unwrap(),
                _ => db.put(key(at), value(at, 60)).unwrap(),
            }
        }
        db.compact().unwrap();
        db.wait_idle().unwrap();
        assert_eq!(blobs(&sim).len(), 20, "{setup}");
        let snapshot = db.snapshot();
        (0..2000).step_by(100).for_each(|at| db.delete(key(at)).unwrap());
        db.flush().unwrap();
        db.wait_idle().unwrap();
        assert_eq!(blobs(&sim).len(), 20, "{setup}: a snapshot sees them");
        drop(snapshot);
        (0..2000).step_by(100).for_each(|at| db.delete(key(at)).unwrap());
        db.flush().unwrap();
        db.wait_idle().unwrap();
        let left = db.metrics().blob_file_bytes;
        let tolerated = db.options().tuning.space_floor.max(200_000);
        assert!(left < tolerated, "{setup}: {left} bytes of deleted blobs are left");
    }
}

/// A reader that fails after some bytes.
struct Broken(usize);

impl Read for Broken {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::other("the line is down"));
        }
        let len = buf.len().min(self.0);
        buf[..len].fill(7);
        self.0 -= len;
        Ok(len)
    }
}

#[test]
fn a_reader_that_fails_leaves_what_was_there_and_no_file() {
    for setup in designs() {
        let sim = Sim::new();
        let db = open(&sim, &setup.options);
        db.put("key", "before").unwrap();
        for len in [0, 100, 300, 3 * PIECE] {
            let error = db.default_keyspace().put_reader("key", Broken(len)).unwrap_err();
            assert!(error.to_string().contains("the line is down"), "{error}");
            assert_eq!(db.get("key").unwrap().unwrap(), "before");
        }
        db.wait_idle().unwrap();
        assert_eq!(blobs(&sim), [], "{setup}");
    }
}

/// Each call of the storage fails once: the blob is there whole or not at all, and a file that
/// belongs to nothing goes with the next session at the latest.
#[test]
fn a_call_that_fails_leaves_no_half_of_a_blob() {
    for setup in designs() {
        let (before, after) = (value(1, 700), value(2, 2 * PIECE));
        for fails in 0.. {
            let sim = Sim::new();
            let faulty = Arc::new(Faulty::over(&sim));
            let storage = faulty.clone();
            let db = Db::open_in(storage, setup.options.clone(), 7).unwrap();
            db.default_keyspace().put_reader("key", &before[..]).unwrap();
            let begin = faulty.calls();
            faulty.fail_call(begin + fails, Fault::Io);
            let stored = db.default_keyspace().put_reader_with("key", &after[..], Durability::Sync);
            let reached = faulty.calls() > begin + fails;
            faulty.heal();
            if let Ok(found) = db.get("key") {
                let found = found.unwrap();
                let is_one = found == before && stored.is_err() || found == after;
                assert!(is_one, "{setup}: call {fails} of a put failed");
            }
            drop(db);
            let db = open(&sim, &setup.options);
            let found = db.get("key").unwrap().unwrap();
            assert!(found == after || stored.is_err() && found == before, "{setup}: {fails}");
            db.put("other", "value").unwrap();
            db.flush().unwrap();
            db.compact().unwrap();
            db.wait_idle().unwrap();
            assert_eq!(blobs(&sim).len(), 1, "{setup}: call {fails} of a put failed");
            assert_eq!(db.verify().unwrap().problems.len(), 0, "{setup}: {fails}");
            if !reached {
                break;
            }
        }
    }
}

#[test]
fn a_damaged_piece_is_reported_and_others_are_read() {
    for setup in designs() {
        let sim = Sim::new();
        let db = open(&sim, &setup.options);
        let value = value(1, 4 * PIECE);
        db.default_keyspace().put_reader("key", &value[..]).unwrap();
        db.close().unwrap();
        let [name] = &blobs(&sim)[..] else { panic!("{setup}: one blob") };
        let mut image = sim.image();
        // A bit of the third piece.
        image.flip_bit(name, 8 * (76 + 2 * (PIECE as u64 + 24) + 1000));
        let db = open(&Sim::from_image(image), &setup.options);
        let whole = db.get("key").unwrap_err();
        assert_eq!(whole.kind(), ErrorKind::Corruption, "{setup}");
        assert!(whole.to_string().contains(&name.to_string()), "{whole}");
        let part = db.default_keyspace().get_range("key", PIECE as u64 + 5, 100).unwrap().unwrap();
        assert!(part == value[PIECE + 5..PIECE + 105]);
        let reader = db.default_keyspace().get_reader("key").unwrap().unwrap();
        assert!(io::copy(&mut { reader }, &mut io::sink()).is_err());
        assert!(!db.verify().unwrap().problems.is_empty(), "{setup}");
    }
}

/// Under a space limit a blob that does not fit is refused, and leaves its space.
#[test]
fn a_space_limit_holds_for_blobs() {
    for preset in Preset::ALL {
        let sim = Sim::new();
        let mut options = Setup::tiny(preset, true).with_blobs().options;
        options.space_limit = Some(24 << 20);
        let db = open(&sim, &options);
        let error =
            db.default_keyspace().put_reader("large", io::repeat(7).take(64 << 20)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{preset}: {error}");
        assert_eq!(db.get("large").unwrap(), None);
        db.wait_idle().unwrap();
        assert_eq!(blobs(&sim), [], "{preset}");
        db.default_keyspace().put_reader("small", io::repeat(7).take(1 << 20)).unwrap();
        assert_eq!(db.default_keyspace().get_reader("small").unwrap().unwrap().len(), 1 << 20);
    }
}

/// Readers of changes are told of a blob, which they read themselves; secondaries, copies and
/// backups have it.
#[test]
fn others_see_blobs() {
    for setup in designs() {
        let sim = Sim::new();
        let options = Options { change_retention_bytes: Some(1 << 20), ..setup.options.clone() };
        let db = open(&sim, &options);
        let value = value(3, 3 * PIECE);
        db.default_keyspace().put_reader("first", &value[..]).unwrap();
        db.flush().unwrap();
        db.default_keyspace().put_reader("second", &value[..]).unwrap();
        let told: Vec<_> =
            db.changes(0).unwrap().flat_map(|batch| batch.unwrap().changes).collect();
        let told: Vec<_> = told
            .iter()
            .filter_map(|change| match &change.kind {
                ChangeKind::PutBlob { key, len, expires: None } => Some((&key[..], *len)),
                _ => None,
            })
            .collect();
        let len = value.len() as u64;
        assert_eq!(told, [(&b"first"[..], len), (&b"second"[..], len)], "{setup}");
        let beside = session::open_secondary(&[Arc::new(sim.clone())], &setup).unwrap();
        let copy = Sim::new();
        db.checkpoint_in(Arc::new(copy.clone())).unwrap();
        let copied = open(&copy, &setup.options);
        for (name, db) in [("secondary", &beside), ("copy", &copied)] {
            for key in ["first", "second"] {
                assert!(db.get(key).unwrap().unwrap() == value, "{setup}: {name}");
                let part =
                    db.default_keyspace().get_range(key, 2 * PIECE as u64 + 3, 9).unwrap().unwrap();
                assert!(part == value[2 * PIECE + 3..2 * PIECE + 12], "{setup}: {name}");
            }
        }
        assert_eq!(copied.verify().unwrap().problems.len(), 0, "{setup}");
    }
}

/// After `collect_range` no byte of a blob that was replaced or deleted is in any file.
#[test]
fn a_collected_range_has_no_byte_of_a_deleted_blob() {
    let secret = b"the secret of the first blob";
    for setup in designs() {
        let sim = Sim::new();
        let db = open(&sim, &setup.options);
        let told = secret.iter().copied().cycle().take(3 * PIECE).collect::<Vec<u8>>();
        for key in ["a1", "a2", "b"] {
            db.default_keyspace().put_reader(key, &told[..]).unwrap();
        }
        db.flush().unwrap();
        db.put("a1", "short").unwrap();
        db.delete("a2").unwrap();
        db.default_keyspace().collect_range("a".."b").unwrap();
        assert_eq!(blobs(&sim).len(), 1, "{setup}");
        db.delete("b").unwrap();
        db.default_keyspace().collect_range(..).unwrap();
        let image = sim.image();
        for (name, _) in image.list() {
            let bytes = image.read(&name).unwrap_or_default();
            let found = bytes.windows(secret.len()).any(|window| window == secret);
            assert!(!found, "{setup}: {name} has a part of a deleted blob");
        }
    }
}

#[test]
fn blobs_lie_on_the_disk_that_is_meant_for_them() {
    let setup = Setup::tiny(Preset::KtStore, true).with_blobs();
    let setup = setup.on_two_disks([FileClass::Blobs]);
    let disks = Disks::new(&setup);
    let open = || session::open_all(&disks.storages(), &setup).unwrap();
    let db = open();
    db.default_keyspace().put_reader("key", &value(1, 5000)[..]).unwrap();
    let found = |disk: usize| {
        let files = disks.images()[disk].list().into_iter();
        files.filter(|(name, _)| name.kind() == FileKind::Blob).count()
    };
    assert_eq!((found(0), found(1)), (0, 1));
    db.close().unwrap();
    let db = open();
    assert!(db.get("key").unwrap().unwrap() == value(1, 5000));
    db.delete("key").unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    db.wait_idle().unwrap();
    assert_eq!((found(0), found(1)), (0, 0));
}

#[test]
fn a_reader_of_the_database_cannot_put_blobs() {
    for setup in designs() {
        let sim = Sim::new();
        open(&sim, &setup.options)
            .default_keyspace()
            .put_reader("key", &value(1, 900)[..])
            .unwrap();
        let volume = |_: &Path| Err(io::ErrorKind::NotFound.into());
        let storage = Arc::new(sim.clone());
        let db = Db::open_read_only_beside(storage, volume, setup.options.clone()).unwrap();
        let mut source = io::repeat(7).take(900);
        let error = db.default_keyspace().put_reader("key", &mut source).unwrap_err();
        assert_eq!((error.kind(), source.limit()), (ErrorKind::ReadOnly, 900), "{setup}");
        assert!(db.get("key").unwrap().unwrap() == value(1, 900));
        let tail = db.snapshot().get_range("key", 890, 90).unwrap().unwrap();
        assert!(tail == value(1, 900)[890..]);
    }
}

#[test]
fn a_keyspace_that_was_dropped_takes_no_blob() {
    for setup in designs() {
        let sim = Sim::new();
        let db = open(&sim, &setup.options);
        let space = db.keyspace("space").unwrap();
        struct Dropping<'d>(&'d Db, usize);
        impl Read for Dropping<'_> {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.1 += 1;
                if self.1 == 3 {
                    self.0.drop_keyspace("space").unwrap();
                }
                let len = if self.1 == 5 { 0 } else { buf.len().min(1000) };
                buf[..len].fill(3);
                Ok(len)
            }
        }
        let error = space.put_reader("key", Dropping(&db, 0)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoKeyspace, "{setup}");
        db.wait_idle().unwrap();
        assert_eq!(blobs(&sim), [], "{setup}");
    }
}

/// Until its flush a blob was counted as dead: a store of one film was said to be all garbage.
#[test]
fn a_blob_that_is_not_flushed_counts_as_data() {
    for setup in designs() {
        let db = open(&Sim::new(), &setup.options);
        let len =
            db.default_keyspace().put_reader("film", Halting::new(&value(7, 9 * PIECE))).unwrap();
        for flushed in [false, true] {
            if flushed {
                db.flush().unwrap();
            }
            let metrics = db.metrics();
            assert!(metrics.data_bytes() >= len, "{setup}, flushed: {flushed}");
            assert!(metrics.live_bytes >= len, "{setup}, flushed: {flushed}");
            let files = metrics.value_files.iter().filter(|file| file.name.ends_with(".blob"));
            assert!(files.map(|file| file.live).sum::<u64>() >= len, "{setup}");
        }
        db.delete("film").unwrap();
        db.flush().unwrap();
        db.compact().unwrap();
        assert!(db.metrics().live_bytes < len, "{setup}: it is dead");
    }
}
