//! Measures the movements of a cursor, if latencies are measured.

use cleavedb_base::Result;

use super::Cursor;
use crate::control::latency::{Latencies, Operation};

impl Cursor {
    /// Moves by `movement`, measured as `operation`.
    #[inline]
    pub(super) fn timed(
        &mut self,
        operation: Operation,
        movement: impl FnOnce(&mut Self) -> Result<bool>,
    ) -> Result<bool> {
        let start = Latencies::started(&self.moment.engine.latencies);
        let moved = self.moved(movement);
        Latencies::ended(&self.moment.engine.latencies, operation, start);
        moved
    }
}
