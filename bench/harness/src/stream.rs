//! The operations of one client thread: a function of workload, seed, phase and thread.
//!
//! A client runs the stream against an engine; the oracle runs it again afterwards to know what was
//! written. Only the numbers of inserted and expired records, and what readers see of them, depend
//! on the other threads; no workload mixes inserts with other writes.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::distribution::Chooser;
use crate::inserts::Inserts;
use crate::keys::Shuffle;
use crate::random::{below, generalized_pareto, unit};
use crate::workload::{Action, ScanLength, Workload};

/// The version of the value that an insert writes.
pub const INSERTED: u64 = 0;

/// Which thread of which phase of a run.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Seed of the run.
    pub seed: u64,
    /// Number of the phase within the run, from 0.
    pub phase: u32,
    /// Number of the thread, from 0.
    pub thread: u32,
    /// Threads of the run.
    pub threads: u32,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The command.
    pub action: Action,
    /// Number of the record, or of the record whose key a scan starts at.
    pub record: u64,
    /// Version of the value, if one is written.
    pub version: u64,
    /// Records to scan, if it is a scan.
    pub length: usize,
    /// Bytes of the value, if it is not the run that says how large values are.
    pub size: Option<usize>,
}

/// The version that the thread at `place` writes with its operation `sequence`: unique in a run,
/// never [`INSERTED`], and larger in a later phase and for a later operation of the same thread.
pub fn version(place: &Place, sequence: u64) -> u64 {
    debug_assert!(place.phase < 0x7FFE && place.thread < 256 && sequence < 1 << 40);
    (u64::from(place.phase) + 1) << 48 | u64::from(place.thread) << 40 | sequence
}

/// The phase, plus one, that wrote `version`; zero for an insert.
pub fn phase_of(version: u64) -> u64 {
    version >> 48
}

/// An endless sequence of operations.
pub struct Stream<'a> {
    workload: &'a Workload,
    place: Place,
    inserts: &'a Inserts,
    chooser: Chooser,
    random: Xoshiro256PlusPlus,
    sequence: u64,
    /// The order of a load, unless that is the order of the numbers.
    shuffle: Option<Shuffle>,
}

impl<'a> Stream<'a> {
    /// The operations of `place`. `inserts` says how many records there are to choose from, and
    /// `chooser` was made for the workload's distribution over them.
    pub fn new(
        workload: &'a Workload,
        place: Place,
        inserts: &'a Inserts,
        chooser: Chooser,
    ) -> Self {
        let lane = u64::from(place.phase) << 32 | u64::from(place.thread);
        let random = Xoshiro256PlusPlus::seed_from_u64(
            place.seed ^ lane.wrapping_mul(0x9E37_79B9_7F4A_7C15),
        );
        Self { workload, place, inserts, chooser, random, sequence: 0, shuffle: None }
    }

    /// The stream, with a load that inserts in the order of `shuffle`.
    pub fn shuffled(self, shuffle: Option<Shuffle>) -> Self {
        Self { shuffle, ..self }
    }

    /// Operations handed out so far.
    pub fn drawn(&self) -> u64 {
        self.sequence
    }

    /// The next operation.
    #[inline(always)]
    pub fn draw(&mut self) -> Operation {
        let (action, record) = self.target();
        let length = if action == Action::Scan { self.scan_length() } else { 0 };
        let version = match action {
            Action::Insert => INSERTED,
            _ => version(&self.place, self.sequence),
        };
        self.sequence += 1;
        Operation { action, record, version, length, size: None }
    }

    #[inline(always)]
    fn target(&mut self) -> (Action, u64) {
        match self.action() {
            Action::Insert if self.workload.is_load() => {
                let Place { thread, threads, .. } = self.place;
                let number = u64::from(thread) + self.sequence * u64::from(threads);
                (Action::Insert, self.shuffle.map_or(number, |shuffle| shuffle.of(number)))
            }
            Action::Insert => (Action::Insert, self.inserts.take()),
            // A queue of one record is not emptied: readers need something to choose.
            Action::Expire => match self.inserts.expire() {
                Some(oldest) => (Action::Expire, oldest),
                None => (Action::Insert, self.inserts.take()),
            },
            action => {
                let oldest = self.inserts.oldest();
                let records = self.inserts.existing() - oldest;
                (action, oldest + self.chooser.next(&mut self.random, records))
            }
        }
    }

    fn scan_length(&mut self) -> usize {
        const MOST: usize = 10_000;
        match self.workload.scan {
            ScanLength::Fixed(length) => length,
            ScanLength::UpTo(most) => 1 + below(&mut self.random, most as u64) as usize,
            ScanLength::Mixgraph => {
                let length = generalized_pareto(unit(&mut self.random), 2.517, 14.236);
                (length.ceil() as usize % MOST).max(1)
            }
        }
    }

    #[inline(always)]
    fn action(&mut self) -> Action {
        // Most workloads have one action: spare them the draw.
        if let [(only, _)] = self.workload.mix {
            return *only;
        }
        let mut point = ((self.random.next_u32() as u64 * 100) >> 32) as u8;
        for &(action, share) in self.workload.mix {
            if point < share {
                return action;
            }
            point -= share;
        }
        unreachable!("shares add up to 100")
    }
}

#[cfg(test)]
mod tests {
    use super::{INSERTED, Operation, Place, Stream, phase_of};
    use crate::distribution::{Chooser, Skew};
    use crate::inserts::Inserts;
    use crate::workload::{Action, Workload, select};

    fn workload(name: &str) -> Workload {
        select(&[name]).unwrap().pop().unwrap()
    }

    fn operations(name: &str, phase: u32, thread: u32, count: usize) -> Vec<Operation> {
        let workload = workload(name);
        let inserts = Inserts::new(1000);
        let place = Place { seed: 5, phase, thread, threads: 2 };
        let chooser = Chooser::new(workload.distribution, 1000, 2, Skew::default());
        let mut stream = Stream::new(&workload, place, &inserts, chooser);
        (0..count).map(|_| stream.draw()).collect()
    }

    #[test]
    fn a_stream_repeats_itself_and_nobody_else() {
        let first = operations("ycsb-a", 1, 0, 1000);
        assert_eq!(first, operations("ycsb-a", 1, 0, 1000));
        assert_ne!(first, operations("ycsb-a", 1, 1, 1000));
        assert_ne!(first, operations("ycsb-a", 2, 0, 1000));
        assert!(first.iter().all(|operation| phase_of(operation.version) == 2));
    }

    #[test]
    fn shares_are_those_of_the_table() {
        let mix = operations("ycsb-b", 1, 0, 100_000);
        let updates = mix.iter().filter(|operation| operation.action == Action::Update).count();
        assert!((4_500..5_500).contains(&updates), "{updates}");
        let scans = operations("ycsb-e", 1, 0, 10_000);
        let lengths = scans.iter().filter(|scan| scan.action == Action::Scan).map(|s| s.length);
        assert_eq!(lengths.clone().min(), Some(1));
        assert_eq!(lengths.max(), Some(100));
    }

    #[test]
    fn a_queue_inserts_at_one_end_and_removes_at_the_other() {
        let drawn = operations("queue", 1, 0, 4000);
        let of = |action| drawn.iter().filter(move |operation| operation.action == action);
        let numbers = |action| of(action).map(|operation| operation.record);
        assert!(numbers(Action::Insert).eq((1000..).take(of(Action::Insert).count())));
        assert!(numbers(Action::Expire).eq((0..).take(of(Action::Expire).count())));
    }

    #[test]
    fn scans_of_mixgraph_are_short_with_a_long_tail() {
        let drawn = operations("mixgraph", 1, 0, 100_000);
        let mut lengths: Vec<_> = drawn.iter().map(|o| o.length).filter(|&l| l > 0).collect();
        lengths.sort_unstable();
        assert!((2_700..3_300).contains(&lengths.len()));
        assert!((22..33).contains(&lengths[lengths.len() / 2]));
        assert!(lengths[0] == 1 && lengths[lengths.len() - 1] > 1000);
    }

    #[test]
    fn threads_share_a_load() {
        let mut records: Vec<_> = (0..2)
            .flat_map(|thread| operations("load", 0, thread, 500))
            .map(|operation| (operation.record, operation.version))
            .collect();
        records.sort_unstable();
        assert!(records.into_iter().eq((0..1000).map(|record| (record, INSERTED))));
    }
}
