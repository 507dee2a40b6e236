//! Events of jobs, as a subscriber of `tracing` sees them. In a process of its own: what `tracing`
//! remembers of a place without a subscriber is for the whole process, in which other tests have
//! none.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use cleavedb::{Background, Db, Durability, Options, Preset};
use cleavedb_testkit::child::in_a_child;
use tracing_subscriber::fmt::MakeWriter;

/// Collects what a subscriber writes.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// The events of a database that was written to, compacted and collected.
fn events(preset: Preset) -> String {
    let dir = tempfile::tempdir().unwrap();
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt().with_writer(lines.clone()).with_ansi(false).finish();
    // Without threads all jobs run in this one, where the subscriber is.
    let mut options = Options { background: Background::Manual, ..Options::preset(preset) };
    if options.layout().has_hot_store() {
        // So that values are collected, and not all keys hot.
        options.tuning.groups.heat_limit = Some(15);
    }
    tracing::subscriber::with_default(subscriber, || {
        let db = Db::open(dir.path().join("db"), options).unwrap();
        for round in 0..3u8 {
            for key in 0..100u8 {
                db.put_with([key], [round; 1000], Durability::Os).unwrap();
            }
            db.flush().unwrap();
        }
        db.compact().unwrap();
        db.collect().unwrap();
        db.close().unwrap();
    });
    let bytes = lines.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn each_job_is_told_with_its_reason() {
    in_a_child(|| {
        for preset in Preset::ALL {
            let told = events(preset);
            let of = |job: &str| {
                told.lines().filter(|line| line.contains(&format!("job=\"{job}\""))).count()
            };
            assert_eq!(of("flush"), 3, "{preset}: {told}");
            assert!(of("compaction") > 0, "{preset}: {told}");
            let collects = !matches!(preset, Preset::Lsm | Preset::Ohdb);
            assert_eq!(of("collection") > 0, collects, "{preset}: {told}");
            assert!(told.contains("opened") && told.contains("closed"), "{preset}: {told}");
            for line in told.lines().filter(|line| line.contains("job=")) {
                assert!(
                    ["why=", "bytes=", "ms="].iter().all(|field| line.contains(field)),
                    "{line}"
                );
            }
        }
    });
}
