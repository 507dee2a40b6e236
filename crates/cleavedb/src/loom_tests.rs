//! The order of commits under every schedule of a few threads: what is visible is a prefix, with
//! its records and entries; a snapshot and a job that lists snapshots agree.

mod read_states;

use std::sync::Arc;

use cleavedb_base::sync::Plain;
use cleavedb_base::sync::atomic::{AtomicU64, Ordering};
use cleavedb_base::sync::checker::model::Builder;
use cleavedb_base::sync::checker::thread;

use crate::control::publish::Publisher;
use crate::settings::time::{ManualTime, Time};
use crate::store::snapshot::{HeldBy, SnapshotList};

/// Preemptions in one execution: nearly every known race needs two.
const PREEMPTIONS: usize = 3;

/// Length of the record of a commit, in bytes of the log.
const LEN: u64 = 10;

fn explore(check: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(check);
}

/// Three commits, and what each of them writes before it is complete.
struct Commits {
    publisher: Publisher,
    written: [Plain; 3],
    filled: AtomicU64,
}

impl Commits {
    fn new() -> Arc<Self> {
        let (publisher, written) = (Publisher::new(0), Default::default());
        Arc::new(Self { publisher, written, filled: AtomicU64::new(0) })
    }

    /// Writes and completes the commit of a ticket, whose sequence number is one above it.
    fn commit(&self, ticket: u64) {
        self.written[ticket as usize].written();
        self.publisher.complete(ticket, ticket + 1, (ticket + 1) * LEN, |filled, _| {
            self.filled.store(filled, Ordering::Release);
        });
    }

    /// What a reader sees, with everything below it.
    fn read(&self) -> u64 {
        let visible = self.publisher.visible();
        self.written.iter().take(visible as usize).for_each(Plain::read);
        let filled = self.filled.load(Ordering::Acquire);
        assert!(filled >= visible * LEN, "an entry is visible before its record");
        self.written.iter().take((filled / LEN) as usize).for_each(Plain::read);
        visible
    }
}

/// Two commits complete in any order while a reader looks.
fn two_commits() {
    let commits = Commits::new();
    let threads = [0, 1].map(|ticket| {
        let commits = commits.clone();
        thread::spawn(move || {
            commits.commit(ticket);
            commits.publisher.wait(ticket);
            assert!(commits.read() > ticket, "a commit that was waited for is not visible");
        })
    });
    let first = commits.read();
    assert!(commits.read() >= first, "what is visible went back");
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(commits.read(), 2);
}

/// A third commit takes the place of the first in the log buffer of those in flight.
fn a_place_is_used_again() {
    let commits = Commits::new();
    let other = {
        let commits = commits.clone();
        thread::spawn(move || commits.commit(1))
    };
    commits.commit(0);
    commits.publisher.admit(2);
    commits.commit(2);
    other.join().unwrap();
    assert_eq!(commits.read(), 3);
}

/// Of a snapshot and a job that lists the snapshots, one is first: the job either knows the
/// snapshot, or read at a point that the snapshot is not behind.
fn a_snapshot_beside_a_job() {
    let commits = Commits::new();
    let list = Arc::new(SnapshotList::default());
    let writer = {
        let commits = commits.clone();
        thread::spawn(move || commits.commit(0))
    };
    let reader = {
        let (commits, list) = (commits.clone(), list.clone());
        let time = Time::new(Arc::new(ManualTime::default()));
        thread::spawn(move || list.take(HeldBy::Snapshot, || commits.publisher.visible(), &time))
    };
    let (known, read_point) = list.fix(|| commits.publisher.visible());
    let snapshot = reader.join().unwrap();
    let seq = snapshot.at.seq;
    assert!(
        known.contains(&seq) || seq >= read_point,
        "a job at {read_point} does not know the snapshot at {seq}"
    );
    writer.join().unwrap();
    drop(snapshot);
    assert_eq!(list.len(), 0);
}

#[test]
fn what_is_visible_is_a_prefix_with_its_records() {
    explore(two_commits);
}

#[test]
fn a_place_in_flight_is_used_again_in_order() {
    explore(a_place_is_used_again);
}

#[test]
fn a_job_knows_the_snapshots_behind_its_read_point() {
    explore(a_snapshot_beside_a_job);
}

#[cfg(feature = "test-planted-bugs")]
mod planted {
    use cleavedb_base::planted::{Bug, must_notice};

    use super::{a_snapshot_beside_a_job, explore, two_commits};

    #[test]
    fn a_commit_that_is_published_out_of_order() {
        must_notice(Bug::PublishedOutOfOrder, || explore(two_commits));
    }

    #[test]
    fn a_visible_mark_without_order() {
        must_notice(Bug::VisibleUnordered, || explore(two_commits));
    }

    #[test]
    fn a_snapshot_that_asks_outside_the_lock() {
        must_notice(Bug::SnapshotOutsideLock, || explore(a_snapshot_beside_a_job));
    }
}
