//! What an experiment compares, and where a result holds it.

use crate::result::PhaseResult;

/// A figure of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Operations a second with left-over background work counted.
    Settled,
    /// Bytes written to the device for each byte that clients wrote.
    WriteAmplification,
}

impl Metric {
    /// Its name and unit, as a column is headed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Settled => "op/s settled",
            Self::WriteAmplification => "write amplification",
        }
    }

    /// Its value in `result`; `None` if it was not measured there.
    pub fn of(self, result: &PhaseResult) -> Option<f64> {
        match self {
            Self::Settled => Some(result.settled_per_second()),
            Self::WriteAmplification => result.device_write_amplification(),
        }
    }
}
