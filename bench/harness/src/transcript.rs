//! The trace of what workloads would ask for, without an engine to ask.

use std::path::Path;

use crate::config::Config;
use crate::error::{BenchError, Result};
use crate::inserts::Inserts;
use crate::pace::Pace;
use crate::sizes::SizeTable;
use crate::stream::{Operation, Place, Stream};
use crate::trace::Writer;
use crate::workload::{Action, Begin, Workload};

/// Writes the operations of `workloads`, one after another, to the trace `path`; returns how many.
/// Clients take turns. Times are those of the rate that is asked for; without one, all operations
/// are to begin at once.
pub fn transcribe(config: &Config, workloads: &[Workload], path: &Path) -> Result<u64> {
    if config.duration.is_some() || workloads.iter().any(|workload| workload.replays) {
        return Err(BenchError::Usage(
            "a trace is drawn from workloads and numbers of operations, not from another trace or \
             a duration"
                .into(),
        ));
    }
    let mut transcript = Transcript {
        config,
        sizes: config.value_sizes.table(),
        inserts: Inserts::new(0),
        writer: Writer::create(path)?,
        now: 0,
    };
    for (phase, workload) in (0..).zip(workloads) {
        transcript.add(phase, &config.adjusted(workload))?;
    }
    transcript.writer.finish()
}

struct Transcript<'a> {
    config: &'a Config,
    sizes: SizeTable,
    inserts: Inserts,
    writer: Writer,
    /// Microseconds since the beginning.
    now: u64,
}

impl Transcript<'_> {
    fn add(&mut self, phase: u32, workload: &Workload) -> Result<()> {
        let Config { seed, threads, records, .. } = *self.config;
        if workload.begin == Begin::Empty {
            self.inserts = Inserts::new(if workload.is_load() { 0 } else { records });
        }
        let chooser = self.config.chooser(workload, self.inserts.count());
        let shuffle = self.config.shuffle_of(workload);
        let mut clients: Vec<_> = (0..threads)
            .map(|thread| {
                let place = Place { seed, phase, thread, threads };
                let stream = Stream::new(workload, place, &self.inserts, chooser.clone());
                let pace = self.config.rate_of(workload);
                (stream.shuffled(shuffle), pace.map(|rate| Pace::new(rate, thread, threads)))
            })
            .collect();
        let (begin, turns) = (self.now, 0..self.config.operations_of(workload));
        for turn in turns {
            let (stream, pace) = &mut clients[(turn % u64::from(threads)) as usize];
            let start = pace.as_mut().map_or(0, |pace| pace.next_start().as_micros() as u64);
            self.now = begin + start;
            let Operation { action, record, version, length, .. } = stream.draw();
            let hash = self.config.key_order.hash(record);
            let size = match action {
                Action::Scan => length,
                _ => self.sizes.size(hash, version),
            };
            self.writer.add(self.now, action, &self.config.key_size.key(hash), size as u64)?;
            if action == Action::Insert && !workload.is_load() {
                self.inserts.acknowledge(record);
            }
        }
        if workload.is_load() {
            self.inserts = Inserts::new(records);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::transcribe;
    use crate::config::Config;
    use crate::trace::Summary;
    use crate::workload::select;

    #[test]
    fn a_transcript_is_what_the_workloads_ask_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        let config =
            Config { threads: 3, rate: Some("1000".parse().unwrap()), ..Config::new(1000, 100) };
        let workloads = select(&["load", "ycsb-d", "queue"]).unwrap();
        let written = transcribe(&config, &workloads, &path).unwrap();
        let summary = Summary::of(&path).unwrap();
        assert_eq!((written, summary.operations), (1000 + 500 + 2000, written));
        assert!(summary.keys > 2000, "{} keys", summary.keys);
        assert_eq!((summary.value_bytes.least, summary.value_bytes.most), (100, 100));
        // The load has no rate; 500 and 2000 operations follow at 1000 a second.
        assert!((summary.seconds - 2.498).abs() < 0.01, "{}", summary.seconds);
        let timed = Config { duration: Some(std::time::Duration::from_secs(1)), ..config };
        assert!(transcribe(&timed, &workloads, &path).is_err());
    }
}
