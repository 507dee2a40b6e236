//! Up to when values have expired for every reader.

use cleavedb_base::Lasting;
use cleavedb_base::planted::{Bug, planted};

use crate::engine::Engine;
use crate::engine::read_points::ReadPoints;

impl Engine {
    /// The earliest time of a reader of now or later, with a snapshot or without one, in
    /// milliseconds since 1970: values that expired up to then are there for none.
    pub(crate) fn earliest_time(&self) -> u64 {
        match planted(Bug::ExpiredUnderSnapshot) {
            true => self.time.believed(),
            false => self.snapshots.earliest_time(|| self.time.believed()),
        }
    }

    /// Values that expired up to this time should have given their space back by `now`; both are in
    /// milliseconds since 1970.
    pub(crate) fn long_before(&self, now: u64) -> u64 {
        let within = u64::try_from(self.options.expired_within.as_millis()).unwrap_or(u64::MAX);
        now.saturating_sub(within)
    }
}

/// Whether a value that a record has is there for no reader.
pub(crate) fn is_past<T>(value: &Lasting<T>, points: &ReadPoints) -> bool {
    !value.is_there(|| points.earliest_time) && !planted(Bug::ExpiredRecordRevived)
}
