//! A suite: lists of workloads with the conditions that they share, from the tables of lists
//! (`lists`) and of experiments.

use std::time::Duration;

use crate::error::{BenchError, Result};
use crate::experiments::{Experiment, Run, all};
use crate::features::{FEATURES, Feature};
pub use crate::lists::FIGURES;
use crate::lists::{Entry, LISTS, SUITES, SuiteEntry};

const MIB: u64 = 1 << 20;
/// Default number of parts into which the papers' experiments are divided: 256 MiB of data, and two
/// hours for the presets.
pub const MINIATURE: u64 = 8;

/// Least memory of a quick answer, in bytes, however slow the machine is.
const QUICK_MEMORY_MIN: u64 = 64 * MIB;

/// Workloads that one process runs, one after another, on one engine.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// Name on the command line and in reports.
    pub name: String,
    /// What it is, in a line.
    pub about: String,
    /// Arguments of the benchmark of one engine.
    pub arguments: Vec<String>,
    /// How many of the workloads end by time if a duration is given.
    pub timed: u32,
    /// Engines that do not run it unless they are named, for the reason that its words give.
    pub without: &'static [&'static str],
}

/// Lists with the conditions that they share.
#[derive(Clone, Debug, PartialEq)]
pub struct Suite {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// What is run.
    pub lists: Vec<List>,
    /// Whether it has more lists, which were not asked for.
    pub is_part: bool,
    /// How often each engine runs each list.
    pub repetitions: u32,
    /// Whether the order of the engines is drawn anew for each round.
    pub drawn: bool,
    /// Whether engines take turns, a piece of work each.
    pub in_pieces: bool,
    /// Memory with the page cache, in bytes.
    pub memory_limit: u64,
    /// After which a child is taken to hang.
    pub timeout: Duration,
    /// Time for all of it, if workloads are to end by time rather than by count.
    pub budget: Option<Duration>,
    /// Time for each of these workloads, in place of a share of the budget.
    pub each: Option<Duration>,
}

impl Suite {
    /// The suite called `name`.
    pub fn named(name: &str) -> Result<Self> {
        let known = SUITES.iter().find(|suite| suite.name == name);
        let Some(&SuiteEntry { name, about, lists, memory, seconds, drawn }) = known else {
            let names: Vec<_> = SUITES.iter().map(|suite| suite.name).collect();
            let names = names.join(", ");
            return Err(BenchError::Usage(format!(
                "no suite is called \"{name}\"; known: {names}"
            )));
        };
        let entries = lists.iter().filter_map(|list| LISTS.iter().find(|e| e.name == *list));
        Ok(Self {
            name,
            about,
            lists: entries.map(List::of).collect(),
            is_part: false,
            repetitions: 3,
            drawn,
            in_pieces: false,
            memory_limit: memory * MIB,
            timeout: Duration::from_secs(1200),
            budget: None,
            each: Some(Duration::from_secs(seconds)),
        })
    }

    /// The first answer: data of half as much again as the memory, engines in turns, four times
    /// from an empty store. A disk that others use, too, and compactions that begin now or a little
    /// later let one load differ by a quarter from the next. On a machine that is `parts` times
    /// as slow as the one that it was made for, all sizes are divided by `parts`.
    pub fn quick(parts: u64) -> Self {
        let operations = (165_000 / parts).to_string();
        let arguments = ["--scale", "quick", "--records", "430k", "--operations", &operations];
        let workloads = ["-w", "load,readrandom-cold,scan-100,update"];
        let (divided, part) = divided(parts);
        let arguments = arguments.into_iter().chain(workloads).map(str::to_owned);
        let list = List {
            name: "quick".to_owned(),
            about: "430,000 records of 1 KiB: load, cold reads and scans by time, updates"
                .to_owned()
                + &part,
            arguments: arguments.chain(divided).collect(),
            timed: 2,
            without: &[],
        };
        Self {
            name: "quick",
            about: "a first answer; small data, short phases",
            lists: vec![list],
            is_part: false,
            repetitions: 4,
            drawn: false,
            in_pieces: true,
            memory_limit: (320 * MIB / parts).max(QUICK_MEMORY_MIN),
            timeout: Duration::from_secs(120),
            budget: Some(Duration::from_secs(120)),
            each: None,
        }
    }

    /// The experiments of `papers`, and of these those called `experiments`; all if none are named.
    /// They ask for 2 GiB of data and 1 GiB of memory; `miniature` divides these, and all sizes of
    /// the engines with them.
    pub fn papers(papers: &[String], experiments: &[String], miniature: u64) -> Result<Self> {
        let named = |name: &str, names: &[String]| {
            names.is_empty() || names.iter().any(|other| other == name)
        };
        // A preset is called as its paper, without the hyphen.
        let hyphened = |name: &String| name.replace("ktstore", "kt-store");
        let papers: Vec<_> = papers.iter().map(hyphened).collect();
        check(&papers, |experiment| experiment.paper, "paper")?;
        check(experiments, |experiment| experiment.name, "experiment")?;
        let chosen = |experiment: &&Experiment| {
            named(experiment.paper, &papers) && named(experiment.name, experiments)
        };
        let stray = experiments
            .iter()
            .find(|name| all().any(|own| own.name == **name && !named(own.paper, &papers)));
        if let Some(stray) = stray {
            let papers = papers.join(", ");
            let message = format!("the experiment {stray} is not one of {papers}");
            return Err(BenchError::Usage(message));
        }
        Ok(Self {
            name: "papers",
            about: "the experiments of the papers, scaled to this machine",
            lists: all()
                .filter(chosen)
                .flat_map(|experiment| lists_of(experiment, miniature))
                .collect(),
            is_part: false,
            repetitions: 1,
            drawn: false,
            in_pieces: false,
            memory_limit: 1024 * MIB / miniature.max(1),
            timeout: Duration::from_secs(3600),
            budget: None,
            each: None,
        })
    }

    /// The benchmarks of the features called `names`, all if none are named; `part` divides their
    /// records and times. Memory is limited by the workloads alone that measure with less of it.
    pub fn features(names: &[String], part: u64) -> Result<Self> {
        let list = |feature: &Feature| List {
            name: feature.name.to_owned(),
            about: feature.about.to_owned(),
            arguments: vec!["--feature".to_owned(), format!("{}/{part}", feature.name)],
            timed: 0,
            without: &[],
        };
        let named = names.iter().map(|name| Feature::named(name).map(list));
        let lists = match names {
            [] => FEATURES.iter().map(list).collect(),
            _ => named.collect::<Result<_>>()?,
        };
        Ok(Self {
            name: "features",
            about: "what single features cost",
            lists,
            is_part: !names.is_empty(),
            repetitions: 3,
            drawn: true,
            in_pieces: false,
            memory_limit: u64::MAX,
            timeout: Duration::from_secs(300),
            budget: None,
            each: None,
        })
    }

    /// Keeps the lists called `names`, if there are any names.
    pub fn keep(&mut self, names: &[String]) -> Result<()> {
        if let Some(unknown) = names.iter().find(|name| self.list(name).is_none()) {
            let known: Vec<_> = self.lists.iter().map(|list| list.name.as_str()).collect();
            let (suite, known) = (self.name, known.join(", "));
            return Err(BenchError::Usage(format!(
                "the suite {suite} has no list \"{unknown}\"; it has: {known}"
            )));
        }
        let whole = self.lists.len();
        self.lists.retain(|list| names.is_empty() || names.contains(&list.name));
        self.is_part |= self.lists.len() < whole;
        Ok(())
    }

    /// Lets every engine run every list, because the command line names the engines.
    pub fn leave_none_out(&mut self) {
        self.lists.iter_mut().for_each(|list| list.without = &[]);
    }

    /// The list called `name`.
    pub fn list(&self, name: &str) -> Option<&List> {
        self.lists.iter().find(|list| list.name == name)
    }

    /// How long a workload that ends by time runs, so that all `engines` fit the budget.
    pub fn duration(&self, engines: usize) -> Option<Duration> {
        // Of a child: start, load, updates, settling, the check of every record; and its share of
        // the disk's own measurement. As three engines took it.
        const FIXED: f64 = 7.5;
        const LEAST: f64 = 1.0;
        const MOST: f64 = 5.0;
        if self.each.is_some() {
            return self.each;
        }
        let timed: u32 = self.lists.iter().map(|list| list.timed).sum();
        let children = engines as f64 * f64::from(self.repetitions) * self.lists.len() as f64;
        let each = self.budget?.as_secs_f64() / children.max(1.0) - FIXED;
        let share = each * self.lists.len() as f64 / f64::from(timed.max(1));
        Some(Duration::from_secs_f64(share.clamp(LEAST, MOST)))
    }
}

impl List {
    /// What it is, and whom it leaves out.
    pub fn words(&self) -> String {
        let reason = "too slow with random inserts for data of this size";
        match self.without {
            [] => self.about.clone(),
            names => format!("{}; left out: {} ({reason})", self.about, names.join(", ")),
        }
    }

    fn of(entry: &Entry) -> Self {
        let Entry { records, value_size, workloads, more, without, .. } = *entry;
        let arguments = ["--records", records, "--value-size", value_size, "-w", workloads];
        let arguments = arguments.iter().chain(more);
        Self {
            name: entry.name.to_owned(),
            about: entry.about.to_owned(),
            arguments: arguments.map(|argument| (*argument).to_owned()).collect(),
            timed: 0,
            without,
        }
    }
}

/// One list for each run of the experiment.
fn lists_of(experiment: &Experiment, miniature: u64) -> Vec<List> {
    let (divided, part) = divided(miniature);
    let list = |run: Run| List {
        name: list_name(experiment, &run.label),
        about: format!("{}: {}{part}", experiment.rows.join("; "), experiment.about),
        arguments: [run.arguments, divided.clone()].concat(),
        timed: 0,
        without: &[],
    };
    experiment.runs().into_iter().map(list).collect()
}

/// The arguments that divide all sizes by `parts`, and the words about it in the report.
fn divided(parts: u64) -> (Vec<String>, String) {
    match parts {
        0 | 1 => (Vec::new(), String::new()),
        parts => {
            let arguments = vec!["--miniature".to_owned(), parts.to_string()];
            (arguments, format!("; all sizes divided by {parts}"))
        }
    }
}

/// The name of the list of a run of `experiment`.
pub fn list_name(experiment: &Experiment, label: &str) -> String {
    format!("{} {label}", experiment.name).trim_end().to_owned()
}

/// Whether a list of this name is a run of an experiment.
pub fn is_of_experiment(list: &str) -> bool {
    all().any(|own| own.runs().iter().any(|run| list_name(own, &run.label) == list))
}

fn check(names: &[String], of: fn(&Experiment) -> &str, what: &str) -> Result<()> {
    let known = |name: &&String| all().any(|experiment| of(experiment) == **name);
    let Some(unknown) = names.iter().find(|name| !known(name)) else { return Ok(()) };
    let mut names: Vec<_> = all().map(of).collect();
    names.dedup();
    let names = names.join(", ");
    Err(BenchError::Usage(format!("no {what} is called \"{unknown}\"; known: {names}")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::{LISTS, SUITES, Suite, all};
    use crate::cli::BenchArgs;
    use crate::config::Config;
    use crate::workload::select;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        bench: BenchArgs,
    }

    #[test]
    fn every_list_can_be_run() {
        let named = SUITES.iter().map(|suite| Suite::named(suite.name).unwrap());
        for suite in named.chain([Suite::quick(1), Suite::quick(3)]) {
            for list in &suite.lists {
                let words = ["bench".to_owned()].into_iter().chain(list.arguments.clone());
                let args = Arguments::try_parse_from(words).unwrap().bench;
                let workloads = select(&args.workload).unwrap();
                assert!(args.config().is_ok() && list.timed < workloads.len() as u32);
            }
        }
        let listed = |name| SUITES.iter().any(|suite| suite.lists.contains(&name));
        assert!(LISTS.iter().all(|list| listed(list.name)), "no list is forgotten");
    }

    /// Cut, each phase would find the garbage of a part of a pass, and a slow engine less of it.
    #[test]
    fn every_engine_runs_whole_phases_of_hashkv() {
        for suite in ["full", "updates"].map(|name| Suite::named(name).unwrap()) {
            let list = suite.list("hashkv").unwrap();
            let words = ["bench".to_owned()].into_iter().chain(list.arguments.clone());
            let bench = Arguments::try_parse_from(words).unwrap().bench;
            let config = Config { duration: suite.duration(5), ..bench.config().unwrap() };
            assert!(config.duration.is_some());
            for phase in select(&bench.workload).unwrap() {
                let planned = (config.duration_of(&phase), config.operations_of(&phase));
                assert_eq!(planned, (None, config.records), "{}", phase.name);
            }
        }
    }

    #[test]
    fn quick_measures_more_data_than_memory_and_fits_its_budget() {
        let quick = Suite::quick(1);
        let words = ["bench".to_owned()].into_iter().chain(quick.lists[0].arguments.clone());
        let config = Arguments::try_parse_from(words).unwrap().bench.config().unwrap();
        assert!(config.records * config.record_bytes() > quick.memory_limit * 4 / 3);
        let (few, many) = (quick.duration(3).unwrap(), quick.duration(10).unwrap());
        assert!(many < few && many >= Duration::from_secs(1), "{few:?} {many:?}");
        let third = Suite::quick(3);
        assert_eq!(third.memory_limit, quick.memory_limit / 3);
        assert!(third.lists[0].arguments.join(" ").ends_with("--miniature 3"));
        assert!(third.lists[0].about.ends_with("all sizes divided by 3"));
        assert!(Suite::quick(8).memory_limit >= 64 << 20, "programs need some memory of their own");
        assert_eq!(Suite::papers(&[], &[], 1).unwrap().duration(3), None);
    }

    #[test]
    fn an_experiment_is_a_list_for_each_run() {
        let every = Suite::papers(&[], &[], 1).unwrap();
        let runs: usize = all().map(|experiment| experiment.runs().len()).sum();
        assert_eq!(every.lists.len(), runs);
        let first = all().next().unwrap();
        let one = Suite::papers(&[first.paper.to_owned()], &[], 1).unwrap();
        assert!(one.lists.len() < every.lists.len() && !one.lists.is_empty());
        let [paper, experiment] = [["ktstore"], ["hashkv-2"]].map(|name| name.map(str::to_owned));
        assert_eq!(Suite::papers(&[], &experiment, 1).unwrap().lists.len(), 9);
        let stray = Suite::papers(&paper, &experiment, 1).unwrap_err().to_string();
        assert!(stray.contains("hashkv-2 is not one of kt-store"), "{stray}");
        let both = Suite::papers(&["hashkv".to_owned()], &experiment, 1).unwrap();
        assert_eq!(both.lists.len(), 9, "the experiment, not the paper");
    }

    #[test]
    fn papers_are_measured_in_miniature() {
        let small = Suite::papers(&[], &["hashkv-2".to_owned()], 16).unwrap();
        assert_eq!(small.memory_limit, 64 << 20);
        assert!(
            small.lists.iter().all(|list| list.arguments.join(" ").ends_with("--miniature 16"))
        );
        assert!(small.lists.iter().all(|list| list.about.ends_with("divided by 16")));
        let whole = Suite::papers(&[], &["hashkv-2".to_owned()], 1).unwrap();
        assert_eq!(whole.memory_limit, 1 << 30);
        let names = |suite: &Suite| suite.lists.iter().map(|l| l.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&small), names(&whole));
    }

    #[test]
    fn a_list_says_whom_it_leaves_out() {
        let full = Suite::named("full").unwrap();
        for list in full.lists.iter().filter(|list| !list.without.is_empty()) {
            assert!(
                list.without.iter().all(|engine| list.words().contains(engine)),
                "{}",
                list.about
            );
        }
        let mut asked = full.clone();
        asked.leave_none_out();
        assert!(asked.lists.iter().all(|list| list.words() == list.about));
    }

    #[test]
    fn names_that_are_not_there_are_refused_with_those_that_are() {
        let words = |result: crate::Result<Suite>| result.unwrap_err().to_string();
        assert!(words(Suite::named("nonsense")).contains("full"));
        let nonsense = ["nonsense".to_owned()];
        assert!(words(Suite::papers(&nonsense, &[], 1)).contains("hashkv"));
        assert!(words(Suite::papers(&[], &nonsense, 1)).contains(all().next().unwrap().name));
        let mut suite = Suite::named("basic").unwrap();
        assert!(suite.keep(&nonsense).unwrap_err().to_string().contains("basic-1KiB"));
        suite.keep(&[]).unwrap();
        assert!(!suite.is_part && suite.lists.len() == 3);
        suite.keep(&["basic-1KiB".to_owned()]).unwrap();
        assert!(suite.is_part && suite.lists.len() == 1);
    }
}
