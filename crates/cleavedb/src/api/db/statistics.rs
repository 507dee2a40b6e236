//! What a database tells about itself, and the limit that can be set on what it does.

use cleavedb_base::Result;

use super::Db;
use crate::control::latency::OperationLatency;
use crate::control::metrics::{DirectoryMetrics, Metrics};
use crate::inspect::stats;
use crate::settings::options::Options;

impl Db {
    /// Content and counters of the database since it was opened, also after a close. In a fork of
    /// the process that has opened it, all of them are 0.
    pub fn metrics(&self) -> Metrics {
        if !self.engine().gate.is_own() {
            return Metrics::default();
        }
        stats::metrics(&self.engine_now())
    }

    /// The latencies of [`Metrics::latencies`], which begin anew.
    pub fn take_latencies(&self) -> Vec<OperationLatency> {
        let is_own = self.engine().gate.is_own();
        if is_own { stats::latencies(&self.engine_now().latencies, true) } else { Vec::new() }
    }

    /// Changes [`Options::background_bytes_per_second`], for jobs that run, too. Fails with
    /// [`ErrorKind::InvalidOptions`](crate::ErrorKind::InvalidOptions) if it is less than 64 KiB.
    pub fn set_background_bytes_per_second(&self, rate: Option<u64>) -> Result<()> {
        let engine = self.default.open_engine()?;
        let options = Options { background_bytes_per_second: rate, ..engine.options.clone() };
        options.validate()?;
        engine.pacer.set_rate(rate);
        Ok(())
    }

    /// The directories of the database, its own first, and their content.
    pub fn directories(&self) -> Result<Vec<DirectoryMetrics>> {
        let engine = self.engine_now();
        engine.gate.check_held()?;
        stats::directories(&engine.storage)
    }
}
