//! What the workloads of features share: a store, loops that are timed, figures.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::capabilities::Needs;
use crate::engine::{Engine, Opener};
use crate::error::{BenchError, Result};
use crate::scratch::Scratch;

/// How long a loop runs that ends by time.
const LOOP: Duration = Duration::from_secs(1);
/// The shortest loop of a small part.
const LOOP_MIN: Duration = Duration::from_millis(20);
/// The least count of a small part.
const COUNT_MIN: u64 = 100;
/// Operations between two looks at the clock.
const STRETCH: u64 = 8;

/// A row of a feature's table.
pub struct Case {
    /// The name of the case; empty if the feature has one row.
    pub name: String,
    /// The figures of the case, by their names.
    pub figures: Vec<(&'static str, f64)>,
}

/// One feature of one engine that is being measured.
pub struct Bench<'a> {
    opener: &'a dyn Opener,
    scratch: &'a Scratch,
    part: u64,
    random: Xoshiro256PlusPlus,
}

impl<'a> Bench<'a> {
    /// Of stores of `opener`, with an Nth of the records and of the time, which is `part`.
    pub fn new(opener: &'a dyn Opener, scratch: &'a Scratch, part: u64, seed: u64) -> Self {
        Self { opener, scratch, part, random: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// An empty directory for a store; the one before is gone.
    pub fn directory(&self) -> Result<PathBuf> {
        self.scratch.emptied(self.opener.name())
    }

    /// Opens the store in `directory`; `None` if the engine lacks something that is needed.
    pub fn open(&self, directory: &Path, needs: Needs) -> Result<Option<Box<dyn Engine>>> {
        self.opener.open_for(directory, &needs)
    }

    /// A new store of the engine, opened as always.
    pub fn store(&self, needs: Needs) -> Result<Option<Box<dyn Engine>>> {
        self.open(&self.directory()?, needs)
    }

    /// The part of a count.
    pub fn count(&self, whole: u64) -> u64 {
        (whole / self.part).max(COUNT_MIN)
    }

    /// How long a loop runs.
    pub fn time(&self) -> Duration {
        (LOOP / self.part.try_into().unwrap_or(u32::MAX)).max(LOOP_MIN)
    }

    /// Runs both, in an order that is drawn.
    pub fn both<A, B>(
        &mut self,
        one: impl FnOnce() -> Result<A>,
        other: impl FnOnce() -> Result<B>,
    ) -> Result<(A, B)> {
        if self.random.next_u64() >> 63 == 0 {
            let first = one()?;
            Ok((first, other()?))
        } else {
            let first = other()?;
            Ok((one()?, first))
        }
    }

    /// What went wrong with a check of the results.
    pub fn wrong(&self, what: String) -> BenchError {
        wrong(self.opener.name(), what)
    }
}

/// What went wrong with a check of the results of `engine`.
pub fn wrong(engine: &str, what: String) -> BenchError {
    BenchError::engine(engine, "the check of the results", what)
}

/// What a loop did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Operations of all clients.
    pub operations: u64,
    /// Operations a second.
    pub per_second: f64,
}

impl Rate {
    /// Of `operations` since `start`.
    pub fn since(start: Instant, operations: u64) -> Self {
        Self { operations, per_second: operations as f64 / start.elapsed().as_secs_f64() }
    }
}

/// Runs `operation` for a while on several threads, each time with a number that no other has.
pub fn rate(
    clients: u64,
    time: Duration,
    operation: impl Fn(u64) -> Result<()> + Sync,
) -> Result<Rate> {
    let start = Instant::now();
    let run = |client: u64| {
        let mut done = 0;
        // Once at least: on a busy machine the time may be over before a thread runs.
        loop {
            (done..done + STRETCH).try_for_each(|i| operation(client << 40 | i))?;
            done += STRETCH;
            if start.elapsed() >= time {
                return Ok(done);
            }
        }
    };
    let operations = thread::scope(|scope| {
        let run = &run;
        let clients: Vec<_> = (0..clients).map(|client| scope.spawn(move || run(client))).collect();
        let panicked = || BenchError::Panicked("while a feature was measured".to_owned());
        let joined = clients.into_iter().map(|client| client.join().map_err(|_| panicked())?);
        joined.sum::<Result<u64>>()
    })?;
    Ok(Rate::since(start, operations))
}

/// Runs `operation` with each number below `count`, one after the other.
pub fn each(count: u64, mut operation: impl FnMut(u64) -> Result<()>) -> Result<Rate> {
    let start = Instant::now();
    (0..count).try_for_each(&mut operation)?;
    Ok(Rate::since(start, count))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;
    use std::time::Duration;

    use super::{STRETCH, rate};

    #[test]
    fn each_client_works_however_little_time_there_is_and_no_number_comes_twice() {
        let seen = Mutex::new(BTreeSet::new());
        let done = rate(3, Duration::ZERO, |i| {
            assert!(seen.lock().unwrap().insert(i));
            Ok(())
        });
        assert_eq!(done.unwrap().operations, 3 * STRETCH);
        assert_eq!(seen.into_inner().unwrap().len() as u64, 3 * STRETCH);
    }
}
