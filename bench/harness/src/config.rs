//! The size of a run: how many records of which size, how many clients, how long, how fast.

use std::time::Duration;

use crate::distribution::{Chooser, Skew};
use crate::error::{BenchError, Result};
use crate::keys::{KeyOrder, KeySize, Shuffle};
use crate::pace::Rate;
use crate::sizes::ValueSizes;
use crate::trace::Replay;
use crate::warm::{PASS, TIME_MAX, WarmUp};
use crate::workload::{Begin, ScanLength, Workload};

/// How long a piece of a workload that ends by time lasts.
const SLICE: Duration = Duration::from_millis(250);
/// How many times as long as a workload that ends by time its warm-up may be.
const WARM_UP: u32 = 3;
/// In how many pieces what is written is written.
const WRITTEN_IN: u32 = 4;

/// Most client threads: a thread's number has eight bits in a value's version.
const MAX_THREADS: u32 = 256;

/// What all workloads of a run share.
#[derive(Clone, Debug)]
pub struct Config {
    /// Records of a load.
    pub records: u64,
    /// Sizes of values.
    pub value_sizes: ValueSizes,
    /// Which key a record has.
    pub key_order: KeyOrder,
    /// How many bytes it has.
    pub key_size: KeySize,
    /// Skew of the Zipfian distributions.
    pub skew: Skew,
    /// Records of every scan, in place of the workload's own number.
    pub scan_length: Option<usize>,
    /// Client threads.
    pub threads: u32,
    /// Seed of all that is random.
    pub seed: u64,
    /// Measured operations of every workload that starts on a filled store, in place of its own
    /// share of the records.
    pub operations: Option<u64>,
    /// Time after which such a workload ends, however many operations it did, unless it is a pass
    /// over the data ([`Workload::is_pass`]).
    pub duration: Option<Duration>,
    /// What runs before the measurement, in place of the workload's own share of the records.
    pub warm_up: Option<WarmUp>,
    /// When operations of such a workload begin, whether the ones before have ended or not; `None`
    /// if each begins when the one before it ends.
    pub rate: Option<Rate>,
    /// What the workload `trace` replays.
    pub replay: Option<Replay>,
    /// Whether workloads run in pieces, so that several engines can take turns: those that only
    /// read in slices until their time is over, those that write in four parts of their count, each
    /// with its background work done.
    pub in_pieces: bool,
    /// Whether each store is compared with what was written before the run empties it.
    pub verify: bool,
}

impl Config {
    /// One client, `records` records of `value_size` bytes, and defaults for all else.
    pub fn new(records: u64, value_size: usize) -> Self {
        Self {
            records,
            value_sizes: ValueSizes::Fixed(value_size),
            key_order: KeyOrder::default(),
            key_size: KeySize::default(),
            skew: Skew::default(),
            scan_length: None,
            threads: 1,
            seed: 42,
            operations: None,
            duration: None,
            warm_up: None,
            rate: None,
            replay: None,
            in_pieces: false,
            verify: true,
        }
    }

    /// Refuses what cannot be run, with the reason.
    pub fn validate(&self) -> Result<()> {
        let usage = |message: String| Err(BenchError::Usage(message));
        if self.records == 0 {
            return usage("a run needs at least one record".into());
        }
        self.value_sizes.validate().map_err(BenchError::Usage)?;
        if self.threads == 0 || self.threads > MAX_THREADS {
            return usage(format!("the number of client threads is 1 to {MAX_THREADS}"));
        }
        if !(self.skew.constant > 0.0 && self.skew.constant < 1.0) {
            return usage("the Zipfian constant lies between 0 and 1 (0.99)".into());
        }
        if self.skew.ranks == 0 {
            return usage("a Zipfian distribution has at least one rank".into());
        }
        if self.skew.moves_every == Some(0) {
            return usage("popular records stay for at least one operation".into());
        }
        if self.scan_length == Some(0) {
            return usage("a scan reads at least one record".into());
        }
        Ok(())
    }

    /// Bytes of a value, on average.
    pub fn value_bytes(&self) -> u64 {
        self.value_sizes.table().mean().round() as u64
    }

    /// Bytes of a key and its value, on average.
    pub fn record_bytes(&self) -> u64 {
        self.key_size.bytes() as u64 + self.value_bytes()
    }

    /// `workload` as this run asks for it: its scans may be longer or shorter, and there are then
    /// fewer or more of them, so that they read as many records.
    pub fn adjusted(&self, workload: &Workload) -> Workload {
        let Some(length) = self.scan_length else { return workload.clone() };
        let usual = workload.scan.typical();
        let share = if workload.is_scanning() { usual / length as f64 } else { 1.0 };
        Workload {
            scan: ScanLength::Fixed(length),
            operations: workload.operations * share,
            warm_up: workload.warm_up * share,
            ..workload.clone()
        }
    }

    /// Draws records for one client of `workload` on a store of `records` records.
    pub fn chooser(&self, workload: &Workload, records: u64) -> Chooser {
        Chooser::new(workload.distribution, records.max(1), self.threads, self.skew)
    }

    /// The order in which `workload`, if it is a load, inserts; `None` for that of the numbers.
    pub fn shuffle_of(&self, workload: &Workload) -> Option<Shuffle> {
        let shuffled = workload.is_load() && self.key_order == KeyOrder::Shuffled;
        shuffled.then(|| Shuffle::new(self.records, self.seed))
    }

    /// Measured operations of `workload`, over all threads; the most there are if time ends it.
    pub fn operations_of(&self, workload: &Workload) -> u64 {
        let own = match &self.replay {
            Some(replay) if workload.replays => replay.trace.operations(),
            _ => self.share(workload.operations).max(1),
        };
        match (workload.begin, self.operations, self.duration_of(workload)) {
            (Begin::Empty, _, _) => own,
            (_, Some(operations), _) => operations,
            (_, None, Some(_)) => u64::MAX,
            (_, None, None) => own,
        }
    }

    /// Operations of `workload` before its measurement, over all threads.
    pub fn warm_up_of(&self, workload: &Workload) -> u64 {
        match self.warm_up {
            // A fill that had begun before its measurement would not be one.
            _ if workload.begin == Begin::Empty => 0,
            Some(WarmUp::Operations(operations)) => operations,
            Some(WarmUp::Still) => self.window_of(workload).map_or(0, |it| it * u64::from(PASS)),
            None => self.share(workload.warm_up),
        }
    }

    /// Operations of a window after which hot keys are counted, if `workload` is to find a warm
    /// store: a scan counts as many as it reads records.
    pub fn window_of(&self, workload: &Workload) -> Option<u64> {
        let warm = self.warm_up == Some(WarmUp::Still) && workload.begin == Begin::AsLeft;
        let scanned = if workload.is_scanning() { workload.scan.typical() } else { 1.0 };
        warm.then(|| self.share(1.0 / f64::from(PASS) / scanned).max(1))
    }

    /// Time after which a warm-up ends, if workloads end by time: a store that is larger than the
    /// memory is never warm.
    pub fn warm_up_time(&self) -> Option<Duration> {
        if self.warm_up == Some(WarmUp::Still) {
            return Some(TIME_MAX);
        }
        self.duration.map(|duration| duration * WARM_UP)
    }

    /// Time after which `workload` ends; `None` for a load, and for a pass over the data.
    pub fn duration_of(&self, workload: &Workload) -> Option<Duration> {
        let counted = workload.is_pass || (self.in_pieces && workload.writes());
        self.duration.filter(|_| workload.begin != Begin::Empty && !counted)
    }

    /// In how many pieces `workload` runs. One, if it has moments of its own at which operations
    /// begin.
    pub fn pieces_of(&self, workload: &Workload) -> u32 {
        if workload.replays || self.is_open(workload) || !self.in_pieces {
            return 1;
        }
        let slices = |duration: Duration| duration.div_duration_f64(SLICE).ceil().max(1.0) as u32;
        let counted = if workload.writes() { WRITTEN_IN } else { 1 };
        self.duration_of(workload).map_or(counted, slices)
    }

    /// When operations of `workload` begin.
    pub fn rate_of(&self, workload: &Workload) -> Option<Rate> {
        self.rate.filter(|_| workload.begin != Begin::Empty && !workload.replays)
    }

    /// Whether operations of `workload` begin at moments that do not depend on the engine.
    pub fn is_open(&self, workload: &Workload) -> bool {
        let timed = self.replay.as_ref().is_some_and(|replay| replay.timed);
        self.rate_of(workload).is_some() || (workload.replays && timed)
    }

    fn share(&self, share: f64) -> u64 {
        (self.records as f64 * share).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Config;
    use crate::distribution::Skew;
    use crate::warm::WarmUp;
    use crate::workload::{ScanLength, select};

    #[test]
    fn longer_scans_are_fewer() {
        let config = Config { scan_length: Some(1000), ..Config::new(1_000_000, 100) };
        let scans = select(&["scan-100"]).unwrap().pop().unwrap();
        let longer = config.adjusted(&scans);
        assert_eq!(longer.scan, ScanLength::Fixed(1000));
        assert_eq!(config.operations_of(&scans), 10_000);
        assert_eq!(config.operations_of(&longer), 1000);
        let reads = select(&["readrandom"]).unwrap().pop().unwrap();
        assert_eq!(config.operations_of(&config.adjusted(&reads)), 500_000);
    }

    #[test]
    fn a_warm_up_never_fills_a_store() {
        let config = Config { warm_up: Some(WarmUp::Operations(10)), ..Config::new(1000, 100) };
        let load = select(&["load"]).unwrap().pop().unwrap();
        let reads = select(&["readrandom"]).unwrap().pop().unwrap();
        assert_eq!((config.warm_up_of(&load), config.warm_up_of(&reads)), (0, 10));
        let config = Config { warm_up: Some(WarmUp::Still), ..config };
        let workloads = select(&["load", "ycsb-c", "scan-100", "readrandom-cold"]).unwrap();
        let windows: Vec<_> = workloads.iter().map(|it| config.window_of(it)).collect();
        assert_eq!(windows, [None, Some(250), Some(3), None], "what is cold stays cold");
    }

    #[test]
    fn no_time_ends_a_pass_over_the_data() {
        let duration = Some(Duration::from_secs(5));
        let config = Config { duration, ..Config::new(1_000_000, 100) };
        for phase in select(&["hashkv"]).unwrap() {
            assert_eq!(config.duration_of(&phase), None, "{}", phase.name);
            assert_eq!(config.operations_of(&phase), 1_000_000, "{}", phase.name);
        }
        let passes = ["update", "update-zipfian", "update-moving", "churn", "queue"];
        for pass in select(&passes).unwrap().iter().filter(|it| it.writes() && !it.is_load()) {
            assert_eq!(config.duration_of(pass), None, "{}", pass.name);
        }
        let mixed = select(&["ycsb-a"]).unwrap().pop().unwrap();
        assert_eq!(config.duration_of(&mixed), duration);
        let fewer = Config { operations: Some(10), ..config };
        let phase = select(&["hashkv"]).unwrap().pop().unwrap();
        assert_eq!(fewer.operations_of(&phase), 10, "a number that is asked for counts");
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        let good = Config::new(10, 100);
        assert!(good.validate().is_ok());
        for bad in [
            Config { records: 0, ..good.clone() },
            Config { threads: 257, ..good.clone() },
            Config { skew: Skew { constant: 1.0, ..Skew::default() }, ..good.clone() },
            Config { skew: Skew { ranks: 0, ..Skew::default() }, ..good.clone() },
            Config { skew: Skew { moves_every: Some(0), ..Skew::default() }, ..good.clone() },
            Config { scan_length: Some(0), ..good.clone() },
            Config::new(10, 7),
        ] {
            assert!(bad.validate().is_err(), "{bad:?}");
        }
    }
}
