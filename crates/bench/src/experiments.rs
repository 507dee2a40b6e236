//! The experiments of the papers, as a table: what is varied, what is measured, what the paper
//! found.

/// One experiment.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Name on the command line.
    pub name: &'static str,
    /// The paper.
    pub paper: &'static str,
    /// Where in it.
    pub section: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// The option that it varies, as on the command line without its dashes, and the values.
    pub vary: Option<(&'static str, &'static [&'static str])>,
    /// The scale of its data.
    pub scale: &'static str,
    /// Workloads; the last is the one that is measured.
    pub workloads: &'static [&'static str],
    /// What is measured: the name of a metric of the report.
    pub metric: &'static str,
    /// The paper's own figure.
    pub paper_says: &'static str,
}

/// Every experiment.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "wisckey-figure-9",
        paper: "wisckey",
        section: "Figure 9 (4.1.1)",
        about: "random load, by value size",
        vary: Some(("value-size", &["256B", "1KiB", "4KiB", "16KiB", "64KiB"])),
        scale: "quick",
        workloads: &["load"],
        metric: "settled",
        paper_says: "46x LevelDB at 1 KB, 111x at 4 KB",
    },
    Experiment {
        name: "hashkv-experiment-1",
        paper: "hashkv",
        section: "Experiment 1 (4.2)",
        about: "load, then three phases of as many Zipfian updates as records",
        vary: None,
        scale: "hashkv",
        workloads: &["hashkv"],
        metric: "settled",
        paper_says: "P3: 4.6x vLog, 3.7 to 4.6x LevelDB in updates",
    },
];
