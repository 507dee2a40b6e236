//! What an experiment compares, and where a result holds it.

use crate::counters::{HOT_ACCESSES, HOT_HITS, step_seconds};
use crate::result::PhaseResult;

/// A figure of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Operations a second while clients ran.
    Throughput,
    /// Operations a second with left-over background work counted.
    Settled,
    /// Bytes of keys and values that clients wrote and read a second, in MB.
    Bandwidth,
    /// Bytes written to the device for each byte that clients wrote.
    WriteAmplification,
    /// Bytes read from storage for each byte that clients read.
    ReadAmplification,
    /// Bytes written to the device, in MiB.
    BytesWritten,
    /// Blocks that the store takes at the end, in MiB.
    SpaceEnd,
    /// The most blocks that the store took meanwhile, in MiB.
    SpacePeak,
    /// Blocks that the store takes at the end for each live byte.
    SpaceAmplification,
    /// Mean time of an operation, in microseconds.
    MeanLatency,
    /// Time that 95% of the reads do not exceed, in microseconds.
    ReadP95,
    /// Processor time of an operation, in microseconds.
    CpuPerOperation,
    /// Compactions that rewrote data.
    Compactions,
    /// Reads and writes of keys that lie in the hot store, in hundredths.
    HotShare,
    /// Time that background threads spent on a step of their work, in microseconds an operation.
    Step(&'static str),
}

impl Metric {
    /// The name and the unit of the metric, as a column is headed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Throughput => "op/s",
            Self::Settled => "op/s settled",
            Self::Bandwidth => "user MB/s",
            Self::WriteAmplification => "write amplification",
            Self::ReadAmplification => "read amplification",
            Self::BytesWritten => "MiB written at the device",
            Self::SpaceEnd => "MiB on disk",
            Self::SpacePeak => "MiB on disk at most",
            Self::SpaceAmplification => "space amplification",
            Self::MeanLatency => "mean us",
            Self::ReadP95 => "reads p95 us",
            Self::CpuPerOperation => "CPU us/op",
            Self::Compactions => "compactions",
            Self::HotShare => "% of hot keys",
            Self::Step(step) => step,
        }
    }

    /// Whether more of it is better.
    pub fn more_is_better(self) -> bool {
        matches!(self, Self::Throughput | Self::Settled | Self::Bandwidth | Self::HotShare)
    }

    /// The value of the metric in `result`; `None` if it was not measured there.
    pub fn of(self, result: &PhaseResult) -> Option<f64> {
        const MIB: f64 = 1_048_576.0;
        match self {
            Self::Throughput => Some(result.per_second()),
            Self::Settled => Some(result.settled_per_second()),
            Self::Bandwidth => {
                let moved = result.user.written + result.user.read;
                Some(moved as f64 / 1e6 / result.speed.running_seconds)
            }
            Self::WriteAmplification => result.device_write_amplification(),
            Self::ReadAmplification => result.process_read_amplification(),
            Self::BytesWritten => Some(result.cost.device?.written as f64 / MIB),
            Self::SpaceEnd => Some(result.space.end.allocated as f64 / MIB),
            Self::SpacePeak => Some(result.space.peak_allocated as f64 / MIB),
            Self::SpaceAmplification => result.space_amplification(),
            Self::MeanLatency => Some(result.latency.mean_us),
            Self::ReadP95 => Some(result.latency_by_action.get("read")?.p95_us),
            Self::CpuPerOperation => Some(result.cpu_us_per_operation()),
            Self::Compactions => result.counters_growth.get("compactions").copied(),
            Self::HotShare => {
                let count = |name| result.counters_growth.get(name).copied();
                Some(100.0 * count(HOT_HITS)? / count(HOT_ACCESSES)?.max(1.0))
            }
            Self::Step(step) => {
                let seconds = result.counters_growth.get(&step_seconds(step))?;
                Some(seconds * 1e6 / result.speed.operations as f64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Metric;
    use crate::result::PhaseResult;

    #[test]
    fn a_metric_finds_its_figure_or_says_that_there_is_none() {
        let mut result = PhaseResult::default();
        result.speed.operations = 100;
        result.speed.running_seconds = 2.0;
        result.speed.settled_seconds = 4.0;
        result.user.written = 8_000_000;
        result.counters_growth.insert("compactions".into(), 7.0);
        let found = [Metric::Throughput, Metric::Settled, Metric::Bandwidth, Metric::Compactions]
            .map(|metric| metric.of(&result));
        assert_eq!(found, [Some(50.0), Some(25.0), Some(4.0), Some(7.0)]);
        assert_eq!(Metric::ReadP95.of(&result), None);
        assert_eq!(Metric::WriteAmplification.of(&result), None);
        assert!(Metric::Settled.more_is_better() && !Metric::Compactions.more_is_better());
    }
}
