//! The experiments of the papers, as data: what is run, what is varied, what the paper found.

pub mod metric;

pub use metric::Metric;

/// One experiment of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Name on the command line, unique among all papers.
    pub name: &'static str,
    /// The paper.
    pub paper: &'static str,
    /// Its place: first cells of the rows of `docs/papers.md` that it stands for.
    pub rows: &'static [&'static str],
    /// What is measured, in a line.
    pub about: &'static str,
    /// What is varied, and its values; `None` for a single run.
    pub vary: Option<(&'static str, &'static [&'static str])>,
    /// Records and value size, a name of `--scale`.
    pub scale: &'static str,
    /// Workloads and suites of every run, in order, on one store.
    pub workloads: &'static [&'static str],
    /// Those whose results matter; empty for all.
    pub shows: &'static [&'static str],
    /// What is compared, the most important first.
    pub metrics: &'static [Metric],
    /// The paper's figure, on its machine.
    pub paper_says: &'static str,
    /// Why it is not run, if it is not.
    pub skipped: Option<&'static str>,
}

/// One run of an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// What is special about it, such as `value-size=1KiB`; empty if nothing is varied.
    pub label: String,
    /// Arguments of the benchmark.
    pub arguments: Vec<String>,
}

impl Experiment {
    /// Its runs: one for each value of what is varied; none if it is skipped.
    pub fn runs(&self) -> Vec<Run> {
        let fixed = ["-w", &self.workloads.join(","), "--scale", self.scale].map(str::to_owned);
        match self.vary {
            _ if self.skipped.is_some() => Vec::new(),
            None => vec![Run { label: String::new(), arguments: fixed.into() }],
            Some((name, values)) => values
                .iter()
                .map(|value| Run {
                    label: format!("{}={value}", name.trim_start_matches("--")),
                    arguments: [&fixed[..], &[name.to_owned(), (*value).to_owned()]].concat(),
                })
                .collect(),
        }
    }

    /// Whether results of `workload` matter.
    pub fn does_show(&self, workload: &str) -> bool {
        self.shows.is_empty() || self.shows.contains(&workload)
    }
}

/// Every experiment, paper by paper.
pub fn all() -> impl Iterator<Item = &'static Experiment> {
    EXPERIMENTS.iter()
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "wisckey-random-load",
        paper: "wisckey",
        rows: &["Figure 9 (4.1.1)", "Figure 10 (4.1.1)"],
        about: "random load, by value size",
        vary: Some(("--value-size", &["256B", "1KiB", "4KiB"])),
        scale: "quick",
        workloads: &["load"],
        shows: &[],
        metrics: &[Metric::Settled, Metric::WriteAmplification],
        paper_says: "46x LevelDB at 1 KB, 111x at 4 KB",
        skipped: None,
    },
    Experiment {
        name: "hashkv-1",
        paper: "hashkv",
        rows: &["Experiment 1, Figure 6a"],
        about: "load and three phases of updates",
        vary: None,
        scale: "hashkv",
        workloads: &["hashkv"],
        shows: &["hashkv-p3"],
        metrics: &[Metric::Settled, Metric::WriteAmplification],
        paper_says: "3.7 to 4.6 times the others in the updates",
        skipped: None,
    },
];
