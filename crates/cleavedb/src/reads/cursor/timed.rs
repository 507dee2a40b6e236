//! Movements of a cursor: none once it has failed or was ended, and measured if latencies are.

use cleavedb_base::{Error, Result};

use super::{Cursor, Place};
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

    /// Moves by `movement`, unless the cursor was ended before or meanwhile.
    #[inline]
    fn moved(&mut self, movement: impl FnOnce(&mut Self) -> Result<bool>) -> Result<bool> {
        if let Place::Failed(error) = &self.place {
            return Err(error.clone());
        }
        self.moment.engine.gate.check_held()?;
        let moved = movement(self);
        let moved = self.moment.engine.gate.check_held().and(moved);
        moved.map_err(|error| {
            let error = self.moment.engine.explained(error);
            self.fail(error.clone());
            error
        })
    }

    #[cold]
    fn fail(&mut self, error: Error) {
        (self.iter, self.place) = (None, Place::Failed(error));
        self.row.clear();
    }
}
