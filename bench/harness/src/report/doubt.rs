//! What makes the rows of a report doubtful: noise, caches, repetitions that lie apart, and the
//! harness itself.

use std::collections::BTreeSet;

use crate::report::collect::{Group, Results, Row};
use crate::report::metric::HARNESS;
use crate::result::{HARNESS_MAX, PhaseResult};

/// Others at work on the machine for more than this share of it make a measurement doubtful.
const OTHERS_MAX: f64 = 0.25;
/// Runs of one row that lie apart by more than this share of their median are worth a warning.
const SPREAD_MAX: f64 = 0.3;

impl Results {
    /// Warns of what makes rows doubtful.
    pub fn judge(&self, warnings: &mut BTreeSet<String>) {
        self.warn_of_harness(warnings);
        warnings.extend(self.headers.iter().filter_map(|header| header.machine.noise()));
        let rows =
            || self.groups.iter().flat_map(|group| group.rows.iter().map(move |r| (group, r)));
        let runs = || rows().flat_map(|(_, row)| &row.runs);
        let all = runs().count();
        let mut count = |what: usize, words: &str| {
            if what > 0 {
                warnings.insert(format!("{what} of {all} measurements {words}"));
            }
        };
        let unlimited = |run: &&PhaseResult| run.conditions.memory_limit.is_none();
        count(
            runs().filter(unlimited).count(),
            "were made WITHOUT A MEMORY LIMIT: their data may fit the page cache",
        );
        let cached = |run: &&PhaseResult| run.conditions.caches_dropped == Some(false);
        count(
            runs().filter(cached).count(),
            "of cold stores found their caches WARM: only root can drop them",
        );
        let noisy = |run: &&PhaseResult| run.others_share().is_some_and(|share| share > OTHERS_MAX);
        let words = format!(
            "had other work on more than {:.0}% of the processors meanwhile (kernel threads that \
             write back count as others)",
            OTHERS_MAX * 100.0
        );
        count(runs().filter(noisy).count(), &words);
        let apart = |(group, row): (&Group, &Row)| {
            let apart =
                row.spread(row.judged_by())?.relative().filter(|apart| *apart > SPREAD_MAX)?;
            Some((apart, format!("{}, {}, {}", group.name, row.workload, row.engine)))
        };
        let mut far: Vec<_> = rows().filter_map(apart).collect();
        far.sort_by(|a, b| b.0.total_cmp(&a.0));
        if let Some((apart, row)) = far.first() {
            warnings.insert(format!(
                "{} of {} rows have repetitions more than {:.0}% of their median apart; the \
                 farthest: {row}, {:.0}%",
                far.len(),
                rows().count(),
                SPREAD_MAX * 100.0,
                apart * 100.0
            ));
        }
    }

    /// Where the harness takes much of the fastest engine's time.
    fn warn_of_harness(&self, warnings: &mut BTreeSet<String>) {
        for group in &self.groups {
            for workload in group.workloads() {
                let share = |row: &Row| Some(row.spread(&HARNESS)?.median);
                let shares = group.of(workload).filter_map(|row| Some((share(row)?, &row.engine)));
                let most = shares.max_by(|one, other| one.0.total_cmp(&other.0));
                if let Some((share, engine)) = most.filter(|(share, _)| *share > HARNESS_MAX) {
                    warnings.insert(format!(
                        "the harness itself takes {:.0}% of the clients' time in {}, {workload}, \
                         {engine}: engines lie farther apart than shown",
                        share * 100.0,
                        group.name
                    ));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::report::collect;
    use crate::result::{Line, PhaseResult};

    /// A run of `engine` whose operations take 1 us, of which the harness takes `harness_ns`.
    fn run(engine: &str, harness_ns: f64) -> String {
        let mut phase = PhaseResult { engine: engine.into(), ..PhaseResult::default() };
        phase.workload = "ycsb-c".into();
        phase.conditions.threads = 1;
        phase.speed.operations = 1_000_000;
        (phase.speed.running_seconds, phase.speed.harness_ns) = (1.0, harness_ns);
        serde_json::to_string(&Line::Phase(Box::new(phase))).unwrap() + "\n"
    }

    #[test]
    fn a_harness_that_takes_much_of_the_fastest_engine_s_time_is_told() {
        let home = tempfile::tempdir().unwrap();
        let paths = [("fast", 150.0), ("slow", 120.0), ("slower", 90.0)].map(|(engine, ns)| {
            let path = home.path().join(engine);
            fs::write(&path, run(engine, ns)).unwrap();
            path
        });
        let told = |paths: &[_]| {
            let warnings = collect(paths, None).unwrap().warnings;
            warnings.into_iter().filter(|words| words.contains("harness")).collect::<Vec<_>>()
        };
        let words = told(&paths);
        assert_eq!(words.len(), 1, "{words:?}");
        assert!(words[0].contains("15%") && words[0].contains("ycsb-c, fast"), "{words:?}");
        assert_eq!(told(&paths[2..]).len(), 0);
    }
}
