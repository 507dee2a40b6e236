//! How much a run of the tests tries: little in `cargo test`, more for a change, most at night.
//!
//! A run is a function of `CLEAVEDB_BUDGET` and `CLEAVEDB_SEED`, which a failure prints; another
//! seed tries what this one leaves out.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::env::VarError;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::panic;
use std::sync::Once;
use std::thread;

use cleavedb_storage_sim::sim::Rng;

/// How much is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// What each `cargo test` does.
    Quick,
    /// What a change must pass, in `.ci/run`.
    Change,
    /// What `.ci/long` does.
    Night,
}

impl Budget {
    /// What `CLEAVEDB_BUDGET` names, `quick` if it is unset.
    ///
    /// # Panics
    /// If it names none.
    pub fn of_this_run() -> Self {
        tell_how_to_repeat();
        match env::var("CLEAVEDB_BUDGET").as_deref() {
            Err(VarError::NotPresent) | Ok("quick") => Self::Quick,
            Ok("change") => Self::Change,
            Ok("night") => Self::Night,
            other => panic!("CLEAVEDB_BUDGET is quick, change or night, and not {other:?}"),
        }
    }
}

/// The one of three amounts that the budget of this run has.
pub fn of<T>(quick: T, change: T, night: T) -> T {
    match Budget::of_this_run() {
        Budget::Quick => quick,
        Budget::Change => change,
        Budget::Night => night,
    }
}

/// The first seed of this run: `CLEAVEDB_SEED`, 0 if it is unset.
///
/// # Panics
/// If it is no number.
pub fn first_seed() -> u64 {
    tell_how_to_repeat();
    env::var("CLEAVEDB_SEED").map_or(0, |seed| seed.parse().expect("CLEAVEDB_SEED is a number"))
}

/// Seeds of this run, `count` of them.
pub fn seeds(count: u64) -> Range<u64> {
    first_seed()..first_seed() + count
}

/// The elements of `all` whose turn it is in the calling test: one of six neighbours, of two for a
/// change, and each at night. The first seed and the name of the test draw them.
pub fn in_turn<T>(all: Vec<T>) -> Vec<T> {
    let mut rng = drawn_by(thread::current().name());
    let (neighbours, len, mut chosen) = (of(6, 2, 1), all.len(), 0);
    let is_chosen = |(at, item): (usize, T)| {
        if at % neighbours == 0 {
            chosen = at + rng.index(neighbours.min(len - at));
        }
        (at == chosen).then_some(item)
    };
    all.into_iter().enumerate().filter_map(is_chosen).collect()
}

/// Whether the test of a planted bug runs: of those that `CLEAVEDB_BUGS` names, as `Bug::Name`, of
/// one in eight others, and of each at night.
pub fn tries_bug(bug: &str) -> bool {
    let named = env::var("CLEAVEDB_BUGS").unwrap_or_default();
    let is_named = named.split_whitespace().any(|name| name.strip_prefix("Bug::") == Some(bug));
    is_named || drawn_by(bug).below(of(8, 8, 1)) == 0
}

/// Choices of this run for `what`.
fn drawn_by(what: impl Hash) -> Rng {
    let mut hasher = DefaultHasher::new();
    (what, first_seed()).hash(&mut hasher);
    Rng::new(hasher.finish())
}

/// Makes each panic print the command that repeats its test.
fn tell_how_to_repeat() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            usual(panic);
            let given = |name| env::var(name).map(|value| format!("{name}={value} "));
            let variables: String =
                ["CLEAVEDB_BUDGET", "CLEAVEDB_SEED"].into_iter().flat_map(given).collect();
            let test = thread::current().name().unwrap_or_default().to_owned();
            // Cargo names it to the programs that it runs.
            let package = env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "cleavedb".to_owned());
            eprintln!("to repeat: {variables}cargo test -p {package} {test}");
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_few_neighbours_has_its_turn_and_none_is_left_out_for_ever() {
        let neighbours = of(6, 2, 1);
        let turns = |test: usize| {
            let run = move || in_turn((0..17).collect());
            thread::Builder::new().name(test.to_string()).spawn(run).unwrap().join().unwrap()
        };
        let mut seen = [0; 17];
        for chosen in (0..100).map(turns) {
            let chunks: Vec<usize> = chosen.iter().map(|at: &usize| at / neighbours).collect();
            assert_eq!(chunks, (0..17_usize.div_ceil(neighbours)).collect::<Vec<_>>());
            chosen.into_iter().for_each(|at| seen[at] += 1);
        }
        assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    }
}
