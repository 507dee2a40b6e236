//! The experiments of the papers, as data: what is run, what is varied, what the paper found.
//!
//! Every row of the tables of experiments of the pages in `docs/papers` belongs to one entry or
//! more; a test keeps the two in step. Sizes are scaled to 2 GiB of data and 1 GiB of memory; a
//! suite may divide them all, what varies included (`--miniature`). A parameter has a name and
//! values: a name that begins with `--` is an argument of every benchmark
//! ([`crate::cli::BenchArgs`]), any other an option of the engine ([`crate::Opener::configured`]),
//! which may refuse it as not there yet:
//!
//! | Option | What it sets |
//! | --- | --- |
//! | `threshold` | Smallest value that is separated, in bytes |
//! | `reserved-space` | Space beyond the live data, in percent of it |
//! | `space-goal` | The same without the reserve of log segments that groups share |
//! | `capacity` | Bytes of values that groups are made for |
//! | `cache` | Bytes of the cache of blocks |
//! | `memtable`, `table` | Bytes of a memtable (of the write cache), of a sorted table |
//! | `segment`, `log-segment` | Bytes of a (main) segment, of a log segment of a group |
//! | `tagging` | `on` or `off`: whether cold values are kept apart |
//! | `cold-log` | `counted` or `unlimited`: whether they count in the space goal |
//! | `victim-policy` | `greedy`, `cost-benefit`, `greedy-random[:D]` (of D groups) or `random` |
//! | `open-files` | Tables with their filter and index in memory |
//! | `hot-store`, `group` | Bytes of the hot store, of a group of cold values |
//! | `one-group` | `on` or `off`: whether cold values begin in one group, which splits |
//! | `heat-limit` | Accesses of a key from which on it is hot |
//! | `value-size-limit` | Largest cold value that stays in the tree, in bytes |
//! | `partitions` | Parts of level 0 |
//! | `variant` | A store of OHDB's evaluation on one of its machines, modelled: `c-high:10` |
//! | `place`, `device` | Classes of files on a second disk; the device that is modelled |
//! | `levels` | Bytes of a key that name its group: KT-Store's levels of the trie |

pub mod metric;
pub mod wisckey;
pub mod hashkv;
pub mod hashkv_proportions;
pub mod kt_store;
pub mod hoakv;
pub mod ohdb;

pub use metric::Metric;

/// A parameter and its values, one for each run.
pub type Sweep = (&'static str, &'static [&'static str]);

/// One experiment of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Name on the command line, unique among all papers.
    pub name: &'static str,
    /// The paper: `wisckey`, `hashkv`, `kt-store`, `hoakv` or `ohdb`.
    pub paper: &'static str,
    /// Place in the paper: first cells of the rows of its page in `docs/papers` that it stands for.
    pub rows: &'static [&'static str],
    /// What is measured, in a line.
    pub about: &'static str,
    /// What is varied; `None` for a single run.
    pub vary: Option<Sweep>,
    /// What changes along with it, value by value.
    pub coupled: Option<Sweep>,
    /// What all of it is run with once for each value, the one to look at first before the others.
    pub across: Option<Sweep>,
    /// Records and value size, a name of `--scale`; the settings may change them.
    pub scale: &'static str,
    /// Parameters that stay the same in all runs.
    pub settings: &'static [(&'static str, &'static str)],
    /// Workloads and bundles of every run, in order, on one store.
    pub workloads: &'static [&'static str],
    /// Workloads whose results matter; empty for all.
    pub shows: &'static [&'static str],
    /// What is compared, the most important first.
    pub metrics: &'static [Metric],
    /// The paper's figure, on its machine, as its page in `docs/papers` has it.
    pub paper_says: &'static str,
    /// Why it is not run, if it is not.
    pub skipped: Option<&'static str>,
}

/// One run of an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// What is special about it, such as `reserved-space=30%`; empty if nothing is varied.
    pub label: String,
    /// The part of it that is the value across; empty if there is none.
    pub column: String,
    /// Arguments of the benchmark.
    pub arguments: Vec<String>,
}

impl Experiment {
    /// The base of all entries.
    const BASE: Self = Self {
        name: "",
        paper: "",
        rows: &[],
        about: "",
        vary: None,
        coupled: None,
        across: None,
        scale: "standard",
        settings: &[],
        workloads: &[],
        shows: &[],
        metrics: &[],
        paper_says: "",
        skipped: None,
    };

    /// The runs of the experiment: one for each value of what is varied, and all of them for each
    /// value across; none if it is skipped.
    pub fn runs(&self) -> Vec<Run> {
        let places = |sweep: Option<Sweep>| sweep.map_or(1, |(_, values)| values.len());
        let columns = if self.skipped.is_some() { 0 } else { places(self.across) };
        let of_column = |column| (0..places(self.vary)).map(move |at| self.run(column, at));
        (0..columns).flat_map(of_column).collect()
    }

    fn run(&self, column: usize, at: usize) -> Run {
        let across = self.across.map(|(name, values)| (name, values[column]));
        let sweeps = [self.vary, self.coupled].into_iter().flatten();
        let varied: Vec<_> = sweeps.map(|(name, values)| (name, values[at])).collect();
        // A value that comes back is told apart by what changes along with it.
        let values = self.vary.map_or(&[][..], |(_, values)| values);
        let repeats = values.iter().filter(|value| **value == values[at]).count() > 1;
        let named =
            |(name, value): &(&str, &str)| format!("{}={value}", name.trim_start_matches("--"));
        let told = varied.iter().take(if repeats { 2 } else { 1 });
        let label: Vec<_> = across.iter().chain(told).map(named).collect();
        Run {
            label: label.join(", "),
            column: across.as_ref().map_or(String::new(), named),
            arguments: self.arguments(&across.into_iter().chain(varied).collect::<Vec<_>>()),
        }
    }

    /// Whether its workloads find a warm store ([`crate::warm`]).
    pub fn is_warm(&self) -> bool {
        self.settings.contains(&("--warm-up", "still"))
    }

    /// The name of what is varied, as labels have it.
    pub fn varied(&self) -> Option<&'static str> {
        self.vary.map(|(name, _)| name.trim_start_matches("--"))
    }

    /// Whether results of `workload` matter.
    pub fn does_show(&self, workload: &str) -> bool {
        self.shows.is_empty() || self.shows.contains(&workload)
    }

    /// The arguments of the run with `varied` set. An argument cannot be given twice, so the last
    /// one of a name stands in the place of the first.
    fn arguments(&self, varied: &[(&str, &str)]) -> Vec<String> {
        let workloads = self.workloads.join(",");
        let mut parameters = vec![("-w", &*workloads), ("--scale", self.scale)];
        for &(name, value) in self.settings.iter().chain(varied) {
            match parameters.iter_mut().find(|(known, _)| *known == name) {
                Some(known) => known.1 = value,
                None => parameters.push((name, value)),
            }
        }
        let argument = |(name, value): (&str, &str)| match name.starts_with('-') {
            true => [name.to_owned(), value.to_owned()],
            false => ["--option".to_owned(), format!("{name}={value}")],
        };
        parameters.into_iter().flat_map(argument).collect()
    }
}

/// Every experiment, paper by paper.
pub fn all() -> impl Iterator<Item = &'static Experiment> {
    let hashkv = [hashkv::HASHKV, hashkv_proportions::HASHKV_PROPORTIONS];
    [wisckey::WISCKEY]
        .into_iter()
        .chain(hashkv)
        .chain([kt_store::KT_STORE, hoakv::HOAKV, ohdb::OHDB])
        .flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{Experiment, Run, all};
    use crate::workload::select;

    /// The papers, with their pages.
    const PAGES: [(&str, &str); 5] = [
        ("wisckey", include_str!("../../../../docs/papers/wisckey.md")),
        ("hashkv", include_str!("../../../../docs/papers/hashkv.md")),
        ("kt-store", include_str!("../../../../docs/papers/kt-store.md")),
        ("hoakv", include_str!("../../../../docs/papers/hoakv.md")),
        ("ohdb", include_str!("../../../../docs/papers/ohdb.md")),
    ];

    /// Papers, with the cells of the rows of the tables of their experiments.
    fn rows() -> Vec<(&'static str, Vec<&'static str>)> {
        let mut rows = Vec::new();
        for (paper, page) in PAGES {
            let mut within = false;
            for line in page.lines() {
                if line.starts_with('#') {
                    within = line == "## Experiments";
                }
                let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
                let heading = cells[0] == "Experiment" || cells[0].starts_with("---");
                if within && line.starts_with('|') && !heading {
                    rows.push((paper, cells));
                }
            }
        }
        rows
    }

    #[test]
    fn every_row_of_the_papers_has_an_experiment_and_names_it() {
        let rows = rows();
        assert!(rows.len() > 50, "{} rows", rows.len());
        for (paper, cells) in &rows {
            let (row, result) = (&cells[0], cells[cells.len() - 1]);
            let stands = |e: &&Experiment| e.paper == *paper && e.rows.contains(row);
            let stands: Vec<_> = all().filter(stands).collect();
            assert!(!stands.is_empty(), "no experiment stands for \"{row}\"");
            let named = |e: &&&Experiment| result.contains(&format!("`{}`", e.name));
            let missing = stands.iter().filter(|e| e.skipped.is_none()).find(|e| !named(e));
            assert!(missing.is_none(), "row \"{row}\" does not name {}", missing.unwrap().name);
        }
        let known: HashSet<_> = rows.iter().map(|(paper, cells)| (*paper, cells[0])).collect();
        let built = |e: &&Experiment| PAGES.iter().any(|(paper, _)| *paper == e.paper);
        for experiment in all().filter(built) {
            let here = |row: &&&str| known.contains(&(experiment.paper, **row));
            let lost = experiment.rows.iter().find(|row| !here(row));
            assert_eq!(lost, None, "{}: its page has no such row", experiment.name);
        }
    }

    #[test]
    fn every_row_of_the_papers_says_whether_ours_agrees() {
        for (paper, cells) in rows() {
            let [row, _, _, ours, direction, _] = cells[..] else {
                panic!("{paper}: a row of {} cells: {cells:?}", cells.len());
            };
            let says = direction == "-"
                || ["same", "**contradict"].iter().any(|word| direction.contains(word));
            assert!(says && !ours.is_empty(), "{paper}, {row}: direction \"{direction}\"");
        }
    }

    /// The figures of a cell or a line: 0.93x, 36x, 600,592, 27%; no number of one or two digits,
    /// which may be a name.
    fn figures(cell: &str) -> Vec<&str> {
        let words = cell.split(|c: char| c.is_whitespace() || "()/".contains(c));
        let words = words.map(|word| word.trim_matches(|c: char| ",;.:*".contains(c)));
        let figure = |word: &&str| {
            let digits = word.trim_end_matches(['x', '%']);
            digits.starts_with(|c: char| c.is_ascii_digit())
                && digits.chars().all(|c| c.is_ascii_digit() || ",.".contains(c))
                && (digits.len() > 2 || *word != digits)
        };
        words.filter(figure).collect()
    }

    /// A page quoted runs of which no file was kept.
    #[test]
    fn each_figure_of_an_experiment_comes_from_a_result_file() {
        let results = include_str!("../../../../data/results/papers-hoakv.md");
        let mut count = 0;
        for (_, cells) in rows().iter().filter(|(paper, _)| *paper == "hoakv") {
            let row = cells[0];
            let names: Vec<_> = all().filter(|e| e.rows.contains(&row)).map(|e| e.name).collect();
            let lines = || results.lines().filter(|line| names.iter().any(|it| line.contains(it)));
            for figure in figures(cells[3]) {
                let there = lines().any(|line| figures(line).contains(&figure));
                assert!(there, "{row}: {figure} is in no line of the results on {names:?}");
                count += 1;
            }
        }
        assert!(count > 30, "{count}");
    }

    #[test]
    fn every_entry_is_whole() {
        let names: HashSet<_> = all().map(|experiment| experiment.name).collect();
        assert_eq!(names.len(), all().count(), "names are unique");
        for experiment in all() {
            assert!(!experiment.about.is_empty() && !experiment.paper_says.is_empty());
            assert!(experiment.name.starts_with(experiment.paper), "{}", experiment.name);
            if experiment.skipped.is_some() {
                assert!(experiment.runs().is_empty());
                continue;
            }
            assert!(!experiment.metrics.is_empty(), "{}", experiment.name);
            let workloads = select(experiment.workloads).unwrap();
            for shown in experiment.shows {
                assert!(workloads.iter().any(|w| w.name == *shown), "{}", experiment.name);
            }
            if let (Some((_, values)), Some((_, coupled))) = (experiment.vary, experiment.coupled) {
                assert_eq!(values.len(), coupled.len(), "{}", experiment.name);
            }
        }
    }

    /// Stores began cold, and keys were YCSB's alone, of which 39% are spread evenly.
    #[test]
    fn experiments_of_hoakv_run_warm_and_under_the_plain_zipfian_distribution_first() {
        for experiment in all().filter(|experiment| experiment.paper == "hoakv") {
            let runs = experiment.runs();
            let columns = runs.chunk_by(|one, next| one.column == next.column);
            let columns: Vec<_> =
                columns.map(|runs| (runs.len(), runs[0].column.as_str())).collect();
            let each = runs.len() / 2;
            let wanted = [(each, "zipfian-ranks=records"), (each, "zipfian-ranks=10G")];
            assert_eq!(columns, wanted, "{}", experiment.name);
            for Run { label, column, arguments } in runs {
                let line = arguments.join(" ");
                assert!(line.contains(&format!("--{}", column.replace('=', " "))), "{line}");
                assert!(line.contains("--warm-up still"), "{line}");
                assert!(label.starts_with(&column), "{label}");
            }
        }
    }

    #[test]
    fn a_run_is_a_command_line() {
        let sweep = all().find(|experiment| experiment.name == "hashkv-2").unwrap();
        let runs = sweep.runs();
        assert_eq!((runs.len(), runs[2].label.as_str()), (9, "reserved-space=30%"));
        let line = runs[2].arguments.join(" ");
        assert_eq!(line, "-w hashkv --scale hashkv --option reserved-space=30%");
        let coupled = all().find(|experiment| experiment.name == "kt-store-range-size").unwrap();
        let line = coupled.runs()[1].arguments.join(" ");
        assert!(line.ends_with("--value-size 4KiB --scan-length 10000"), "{line}");
        let stores = all().find(|experiment| experiment.name == "ohdb-table-high").unwrap();
        let labels: Vec<_> = stores.runs().into_iter().map(|run| run.label).collect();
        assert_eq!(labels[15], "variant=c-high:10, table=4MiB");
        assert_eq!(labels.iter().collect::<HashSet<_>>().len(), 16);
        assert!(coupled.does_show("scan-100") && !coupled.does_show("load"));
    }
}
