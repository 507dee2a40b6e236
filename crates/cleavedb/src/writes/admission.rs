//! Admission: whether a write may go on, decided by what stands in its way and how things are.
//!
//! [`ask`] decides and does nothing. A write looks for what stands in its way, asks, does what the
//! answer says, and looks again.

use std::time::Duration;

use cleavedb_base::{Error, ErrorKind, Result};

use crate::control::metrics::StallCause;
use crate::store::limit::Need;

/// What stands in the way of a write.
#[derive(Debug)]
pub(crate) enum Obstacle {
    /// Background work is behind: a writer of as many bytes owes this pause.
    Slowed(StallCause, Duration),
    /// Background work is too far behind.
    Stopped(StallCause),
    /// Background work was too far behind, and the wait for it has ended.
    Waited(Result<()>),
    /// No room is set aside for a batch of this many bytes, longer than a log file.
    Long(u64),
    /// A bulk load is being published.
    Load,
    /// No other MemTable, or no other log file, may be begun now.
    NoRoom,
    /// Making room in the MemTable and the log has failed.
    Failed(Error),
}

impl From<Error> for Obstacle {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// How things are for a write that has met an obstacle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) need: Need,
    /// Whether there is a space limit.
    pub(crate) is_limited: bool,
    /// Whether the limit is reached for this need.
    pub(crate) is_limit_reached: bool,
    /// Whether writers are stopped for the limit, or because a job has no room below it.
    pub(crate) lacks_space: bool,
    pub(crate) is_disk_full: bool,
    /// Whether the database is neither closing nor poisoned.
    pub(crate) is_open: bool,
}

/// What a write has to do.
#[derive(Debug)]
pub(crate) enum Admission {
    Go,
    Pause(StallCause, Duration),
    Wait(Awaited),
    /// The write searches for space, or makes room on a full disk.
    Reclaim(Need),
    Refuse(Error),
}

/// What a write waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// The end of the stop that has this cause, or a lack of space.
    Work(StallCause),
    /// The flush of a MemTable.
    Flush,
    /// The end of a bulk load.
    Load,
}

/// Whether a write that has met `obstacle` may go on.
pub(crate) fn ask(obstacle: &Obstacle, facts: &Facts) -> Admission {
    // Deletes pass: they ask for their space when they begin a log file.
    let passes = facts.need == Need::Deletes && (facts.is_limited || facts.is_disk_full);
    let goes_on_after = |wait: &Error| match wait.kind() {
        ErrorKind::NoSpace => passes,
        // On a full disk no job may have room; the writer then gets the error when it reserves log
        // space. Below a space limit a search may still find space.
        ErrorKind::Stalled => facts.is_limited || facts.is_disk_full,
        _ => false,
    };
    match obstacle {
        Obstacle::Slowed(cause, pause) => Admission::Pause(*cause, *pause),
        Obstacle::Stopped(cause) if !facts.lacks_space => Admission::Wait(Awaited::Work(*cause)),
        Obstacle::Waited(Err(e)) if !goes_on_after(e) => Admission::Refuse(e.clone()),
        Obstacle::Stopped(_) | Obstacle::Waited(_) if facts.lacks_space && !passes => {
            Admission::Reclaim(Need::Write)
        }
        Obstacle::Stopped(_) | Obstacle::Waited(_) => Admission::Go,
        Obstacle::Long(len) => Admission::Reclaim(Need::Long(*len)),
        Obstacle::Load => Admission::Wait(Awaited::Load),
        Obstacle::NoRoom if facts.is_limit_reached => Admission::Reclaim(facts.need),
        Obstacle::NoRoom => Admission::Wait(Awaited::Flush),
        Obstacle::Failed(e)
            if e.kind() == ErrorKind::NoSpace && !facts.is_limited && facts.is_open =>
        {
            Admission::Reclaim(facts.need)
        }
        Obstacle::Failed(e) => Admission::Refuse(e.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: Facts = Facts {
        need: Need::Write,
        is_limited: false,
        is_limit_reached: false,
        lacks_space: false,
        is_disk_full: false,
        is_open: true,
    };
    const DELETES: Facts = Facts { need: Need::Deletes, ..WRITE };

    /// A write below a space limit that is reached, and deletes there.
    const LIMITED: Facts =
        Facts { is_limited: true, is_limit_reached: true, lacks_space: true, ..WRITE };
    const LIMITED_DELETES: Facts =
        Facts { need: Need::Deletes, is_limit_reached: false, ..LIMITED };

    const FULL: Facts = Facts { is_disk_full: true, ..WRITE };
    const FULL_DELETES: Facts = Facts { is_disk_full: true, ..DELETES };

    fn failed(kind: ErrorKind) -> Error {
        Error::new(kind, "of a test")
    }

    fn check(obstacle: Obstacle, rows: &[(Facts, &str)]) {
        for (facts, wanted) in rows {
            let answer = match ask(&obstacle, facts) {
                Admission::Refuse(e) => format!("Refuse({:?})", e.kind()),
                other => format!("{other:?}"),
            };
            assert_eq!(answer, *wanted, "{obstacle:?}, {facts:?}");
        }
    }

    #[test]
    fn background_work_that_is_behind_slows_and_stops() {
        let pause = Duration::from_millis(3);
        check(Obstacle::Slowed(StallCause::Space, pause), &[(WRITE, "Pause(Space, 3ms)")]);
        let waits = "Wait(Work(Compaction))";
        let rows = [
            (WRITE, waits),
            (DELETES, waits),
            (FULL, waits),
            (FULL_DELETES, waits),
            (Facts { lacks_space: false, ..LIMITED }, waits),
            (Facts { lacks_space: false, ..LIMITED_DELETES }, waits),
            (LIMITED, "Reclaim(Write)"),
            (LIMITED_DELETES, "Go"),
        ];
        check(Obstacle::Stopped(StallCause::Compaction), &rows);
    }

    #[test]
    fn a_wait_that_fails_does_not_stop_what_may_find_room() {
        let rows = [(WRITE, "Go"), (LIMITED, "Reclaim(Write)"), (LIMITED_DELETES, "Go")];
        check(Obstacle::Waited(Ok(())), &rows);
        let refused = "Refuse(NoSpace)";
        let rows = [
            (WRITE, refused),
            (DELETES, refused),
            (FULL, refused),
            (LIMITED, refused),
            (FULL_DELETES, "Go"),
            (LIMITED_DELETES, "Go"),
        ];
        check(Obstacle::Waited(Err(failed(ErrorKind::NoSpace))), &rows);
        let rows = [
            (WRITE, "Refuse(Stalled)"),
            (DELETES, "Refuse(Stalled)"),
            (FULL, "Go"),
            (LIMITED, "Reclaim(Write)"),
            (FULL_DELETES, "Go"),
            (LIMITED_DELETES, "Go"),
        ];
        check(Obstacle::Waited(Err(failed(ErrorKind::Stalled))), &rows);
        let rows = [WRITE, FULL_DELETES, LIMITED].map(|facts| (facts, "Refuse(Closed)"));
        check(Obstacle::Waited(Err(failed(ErrorKind::Closed))), &rows);
    }

    #[test]
    fn what_lacks_room_waits_or_searches() {
        check(Obstacle::Long(9), &[(LIMITED, "Reclaim(Long(9))")]);
        check(Obstacle::Load, &[(WRITE, "Wait(Load)"), (LIMITED, "Wait(Load)")]);
        let full = Facts { is_limit_reached: true, ..LIMITED_DELETES };
        let rows = [
            (WRITE, "Wait(Flush)"),
            (LIMITED_DELETES, "Wait(Flush)"),
            (LIMITED, "Reclaim(Write)"),
            (full, "Reclaim(Deletes)"),
        ];
        check(Obstacle::NoRoom, &rows);
    }

    #[test]
    fn only_a_full_disk_is_no_final_failure() {
        let rows = [
            (WRITE, "Reclaim(Write)"),
            (DELETES, "Reclaim(Deletes)"),
            (FULL_DELETES, "Reclaim(Deletes)"),
            (Facts { is_open: false, ..FULL_DELETES }, "Refuse(NoSpace)"),
            (LIMITED, "Refuse(NoSpace)"),
            (LIMITED_DELETES, "Refuse(NoSpace)"),
        ];
        check(Obstacle::Failed(failed(ErrorKind::NoSpace)), &rows);
        let rows = [WRITE, FULL_DELETES, LIMITED].map(|facts| (facts, "Refuse(Io)"));
        check(Obstacle::Failed(failed(ErrorKind::Io)), &rows);
    }
}
