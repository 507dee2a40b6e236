//! What can be asked for by name, for people: suites, lists, experiments, features.

use crate::experiments::{Experiment, all};
use crate::features::{FEATURES, Feature};
use crate::lists::{LISTS, SUITES, SuiteEntry};

/// The suites, for people.
pub fn overview() -> String {
    let mut lines = vec!["suites (--config):".to_owned()];
    for SuiteEntry { name, about, lists, .. } in SUITES {
        lines.push(format!("  {name:12} {about}: {}", lists.join(", ")));
    }
    lines.push("lists (--only):".to_owned());
    lines.extend(LISTS.iter().map(|list| format!("  {:12} {}", list.name, list.about)));
    lines.join("\n")
}

/// The experiments of the papers, for people.
pub fn experiments() -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut paper = "";
    for experiment in all() {
        let Experiment { name, about, skipped, vary, .. } = experiment;
        if experiment.paper != paper {
            paper = experiment.paper;
            lines.push(format!("{paper}:"));
        }
        let varied = experiment.varied().zip(*vary).map_or(String::new(), |(name, (_, values))| {
            format!("; {name}: {}", values.join(", "))
        });
        let across = experiment.across.map_or(String::new(), |(name, values)| {
            format!("; {}: {}", name.trim_start_matches("--"), values.join(", "))
        });
        let warm = if experiment.is_warm() { "; warm" } else { "" };
        let left_out = skipped.map_or(String::new(), |why| format!(" (left out: {why})"));
        lines.push(format!("  {name:24} {about}{varied}{across}{warm}{left_out}"));
    }
    lines.join("\n")
}

/// The benchmarks of features, for people.
pub fn features() -> String {
    let line = |feature: &Feature| format!("  {:18} {}", feature.name, feature.about);
    let lines = FEATURES.iter().map(line);
    ["features:".to_owned()].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}
