//! Crew: threads that do the background jobs of several databases, in turn.
//!
//! A database joins with the first write of a session, and leaves at its close, which waits for
//! its own jobs only. A ring for a database has a thread look at it; a look that finds a
//! job is followed by one at the next database, so that none starves. A panic is caught here,
//! after it has poisoned the database in whose job it happened.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cleavedb_base::sync::{Condvar, Mutex, thread};
use cleavedb_base::{Error, Result};

/// What a thread of a crew does. Jobs of different classes do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Flushes, which writers wait for.
    Flush,
    /// Removes files, with pauses.
    Remove,
    /// Compacts and collects.
    Work,
}

impl Class {
    const ALL: [Self; 3] = [Self::Flush, Self::Remove, Self::Work];

    /// Name of its threads.
    fn name(self) -> &'static str {
        match self {
            Self::Flush => "cleave-flush",
            Self::Remove => "cleave-remove",
            Self::Work => "cleave-work",
        }
    }
}

/// What a look for a job found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// A job, which was done.
    Done,
    /// Nothing that is due.
    Nothing,
    /// A job that failed.
    Failed,
}

/// How long a database is left alone after a look that found nothing, and at most: the rest
/// doubles each time, until someone asks for work. A reader that releases files or a snapshot does
/// not ask.
pub(crate) const REST: Duration = Duration::from_millis(100);
pub(crate) const REST_MAX: Duration = Duration::from_secs(60);

/// A database, as its crew sees it.
pub(crate) trait Member: Send + Sync {
    /// Prepares a thread that begins in a class.
    fn prepare(&self, class: Class);

    /// Called before a look if there was no ring for this time.
    fn rested(&self, rest: Duration);

    /// Does one job of a class, if one is due.
    fn look(&self, class: Class) -> Attempt;
}

/// When a class of jobs of a database is looked at next.
#[derive(Clone, Copy)]
struct Next {
    /// Threads that are to look because of a ring, each once.
    rung: usize,
    at: Instant,
    rest: Duration,
}

struct MemberSeat {
    id: u64,
    member: Arc<dyn Member>,
    next: [Next; Class::ALL.len()],
    /// Threads that are at it.
    active: usize,
    leaves: bool,
}

#[derive(Default)]
struct Members {
    seats: Vec<MemberSeat>,
    last_id: u64,
    /// The seat that was looked at last, by class.
    turns: [usize; Class::ALL.len()],
    started: [usize; Class::ALL.len()],
    ended: bool,
}

impl Members {
    /// The next seat after the last one that is due; or else when one will be.
    fn due(&mut self, class: Class, now: Instant) -> std::result::Result<usize, Option<Instant>> {
        let (count, turn) = (self.seats.len(), self.turns[class as usize]);
        let mut earliest = None;
        for place in (turn + 1..turn + 1 + count).map(|place| place % count) {
            let seat = &self.seats[place];
            let next = seat.next[class as usize];
            if seat.leaves {
                continue;
            }
            if next.rung > 0 || next.at <= now {
                self.turns[class as usize] = place;
                return Ok(place);
            }
            earliest = Some(earliest.map_or(next.at, |at: Instant| at.min(next.at)));
        }
        Err(earliest)
    }

    fn seat(&mut self, id: u64) -> Option<&mut MemberSeat> {
        self.seats.iter_mut().find(|seat| seat.id == id)
    }
}

#[derive(Default)]
struct CrewShared {
    state: Mutex<Members>,
    /// Signalled when a thread should look.
    work: Condvar,
    /// Signalled when a thread has left a database.
    left: Condvar,
}

/// Threads for several databases; they end when it is dropped.
pub(crate) struct Crew {
    shared: Arc<CrewShared>,
    /// Threads that compact and collect; as many flush, and one removes.
    workers: usize,
}

impl Drop for Crew {
    /// Does not wait: the drop may be by one of the threads.
    fn drop(&mut self) {
        self.shared.state.lock().ended = true;
        self.shared.work.notify_all();
    }
}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew").field("workers", &self.workers).finish()
    }
}

/// Rings for one database.
#[derive(Clone)]
pub(crate) struct Bell {
    shared: Arc<CrewShared>,
    id: u64,
    workers: usize,
}

impl Bell {
    /// Has threads look at the database soon.
    pub(crate) fn ring(&self) {
        if let Some(seat) = self.shared.state.lock().seat(self.id) {
            seat.next.iter_mut().for_each(|next| next.rung = self.workers);
        }
        self.shared.work.notify_all();
    }

    /// Takes the database out: returns when no thread is at it any more. The calling thread must
    /// not be one of them.
    pub(crate) fn leave(&self) {
        let mut state = self.shared.state.lock();
        while let Some(seat) = state.seat(self.id) {
            seat.leaves = true;
            if seat.active == 0 {
                state.seats.retain(|seat| seat.id != self.id);
                return;
            }
            self.shared.left.wait(&mut state);
        }
    }
}

impl Crew {
    pub(crate) fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self { shared: Arc::default(), workers })
    }

    /// Takes a database in, whose jobs the threads do from now on; starts those that are missing.
    pub(crate) fn join(&self, member: Arc<dyn Member>) -> Result<Bell> {
        let mut state = self.shared.state.lock();
        for class in Class::ALL {
            let most = if class == Class::Remove { 1 } else { self.workers };
            while state.started[class as usize] < most {
                let (shared, first) = (self.shared.clone(), member.clone());
                let builder = thread::Builder::new().name(class.name().to_owned());
                let spawned = builder.spawn(move || {
                    first.prepare(class);
                    drop(first);
                    run(&shared, class);
                });
                spawned.map_err(|e| Error::io("start a background thread", e))?;
                state.started[class as usize] += 1;
            }
        }
        state.last_id += 1;
        let next = Next { rung: self.workers, at: Instant::now(), rest: REST };
        let (id, next) = (state.last_id, [next; Class::ALL.len()]);
        state.seats.push(MemberSeat { id, member, next, active: 0, leaves: false });
        drop(state);
        self.shared.work.notify_all();
        Ok(Bell { shared: self.shared.clone(), id, workers: self.workers })
    }
}

/// The life of a thread.
fn run(shared: &CrewShared, class: Class) {
    let mut state = shared.state.lock();
    while !state.ended {
        let place = match state.due(class, Instant::now()) {
            Ok(place) => place,
            Err(at) => {
                let rest = at.map_or(REST_MAX, |at| at.saturating_duration_since(Instant::now()));
                shared.work.wait_for(&mut state, rest);
                continue;
            }
        };
        let seat = &mut state.seats[place];
        let (id, member) = (seat.id, seat.member.clone());
        let next = &mut seat.next[class as usize];
        let rested = (next.rung == 0).then_some(next.rest);
        // The other threads look only because of a ring.
        next.rest = rested.map_or(REST, |rest| (rest * 2).min(REST_MAX));
        (next.rung, next.at) = (next.rung.saturating_sub(1), Instant::now() + next.rest);
        seat.active += 1;
        drop(state);
        let look = catch_unwind(AssertUnwindSafe(|| {
            if let Some(rest) = rested {
                member.rested(rest);
            }
            member.look(class)
        }));
        // The last handle on the database may be this one.
        drop(member);
        state = shared.state.lock();
        if let Some(seat) = state.seat(id) {
            seat.active -= 1;
            let next = &mut seat.next[class as usize];
            match look {
                Ok(Attempt::Done) => next.rung = next.rung.max(1),
                Ok(Attempt::Nothing) => next.at = Instant::now() + next.rest,
                Ok(Attempt::Failed) | Err(_) => {
                    (next.rest, next.at) = (REST, Instant::now() + REST);
                }
            }
            if seat.leaves {
                shared.left.notify_all();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use cleavedb_base::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Has work as long as there is something left of what all share.
    #[derive(Default)]
    struct Busy {
        left: Arc<AtomicU64>,
        done: AtomicU64,
        panics: bool,
    }

    impl Member for Busy {
        fn prepare(&self, _: Class) {}

        fn rested(&self, _: Duration) {}

        fn look(&self, class: Class) -> Attempt {
            let less = |left: u64| left.checked_sub(1);
            let is_work = class == Class::Work
                && self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok();
            if !is_work {
                return Attempt::Nothing;
            }
            self.done.fetch_add(1, Ordering::AcqRel);
            thread::sleep(Duration::from_micros(100));
            if self.panics {
                std::panic::resume_unwind(Box::new("a job"));
            }
            Attempt::Done
        }
    }

    #[test]
    fn databases_that_always_have_work_take_turns_and_a_panic_ends_no_thread() {
        let (crew, left) = (Crew::new(1), Arc::new(AtomicU64::new(0)));
        let member = |panics| {
            let done = AtomicU64::new(0);
            let member = Arc::new(Busy { left: left.clone(), done, panics });
            (crew.join(member.clone()).unwrap(), member)
        };
        let members = [member(false), member(true), member(false), member(false)];
        left.store(400, Ordering::Release);
        members.iter().for_each(|(bell, _)| bell.ring());
        while left.load(Ordering::Acquire) > 0 {
            thread::sleep(Duration::from_millis(1));
        }
        let done = members.each_ref().map(|(_, member)| member.done.load(Ordering::Acquire));
        // The one whose jobs panic is left alone for a while after each.
        assert!([0, 2, 3].iter().all(|at| done[*at] > 100) && done[1] > 0, "{done:?}");
        for (bell, member) in members {
            bell.leave();
            assert_eq!(Arc::strong_count(&member), 1, "no thread is at it any more");
        }
    }
}
