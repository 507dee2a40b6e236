//! The size of a run: how many records of which size, how many clients, how long.

use std::time::Duration;

use crate::error::{BenchError, Result};
use crate::keys::KEY_LEN;
use crate::values::MIN_VALUE_LEN;
use crate::workload::{Begin, Workload};

/// Most client threads: a thread's number has eight bits in a value's version.
const MAX_THREADS: u32 = 256;

/// What all workloads of a run share.
#[derive(Clone, Debug)]
pub struct Config {
    /// Records of a load.
    pub records: u64,
    /// Bytes of every value.
    pub value_size: usize,
    /// Client threads.
    pub threads: u32,
    /// Seed of all that is random.
    pub seed: u64,
    /// Measured operations of every workload that starts on a filled store, in place of its own
    /// share of the records.
    pub operations: Option<u64>,
    /// Time after which such a workload ends, however many operations it did.
    pub duration: Option<Duration>,
    /// Whether workloads warm up.
    pub warm_up: bool,
}

impl Config {
    /// Refuses what cannot be run, with the reason.
    pub fn validate(&self) -> Result<()> {
        let usage = |message: String| Err(BenchError::Usage(message));
        if self.records == 0 {
            return usage("a run needs at least one record".into());
        }
        if self.value_size < MIN_VALUE_LEN {
            return usage(format!(
                "values have at least {MIN_VALUE_LEN} bytes (they carry a version)"
            ));
        }
        if self.threads == 0 || self.threads > MAX_THREADS {
            return usage(format!("the number of client threads is 1 to {MAX_THREADS}"));
        }
        Ok(())
    }

    /// Bytes of a key and its value.
    pub fn record_bytes(&self) -> u64 {
        (KEY_LEN + self.value_size) as u64
    }

    /// Measured operations of `workload`, over all threads; the most there are if time ends it.
    pub fn operations_of(&self, workload: &Workload) -> u64 {
        let own = self.share(workload.operations).max(1);
        match (workload.begin, self.operations, self.duration) {
            (Begin::Empty, _, _) => own,
            (_, Some(operations), _) => operations,
            (_, None, Some(_)) => u64::MAX,
            (_, None, None) => own,
        }
    }

    /// Operations of `workload` before its measurement, over all threads.
    pub fn warm_up_of(&self, workload: &Workload) -> u64 {
        if self.warm_up { self.share(workload.warm_up) } else { 0 }
    }

    /// Time after which `workload` ends.
    pub fn duration_of(&self, workload: &Workload) -> Option<Duration> {
        self.duration.filter(|_| workload.begin != Begin::Empty)
    }

    fn share(&self, share: f64) -> u64 {
        (self.records as f64 * share).round() as u64
    }
}
