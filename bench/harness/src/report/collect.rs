//! From the lines of result files to rows: the runs of a workload on an engine, side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::Value;

use crate::distribution::{SCRAMBLED_RANKS, ZIPFIAN_CONSTANT};
use crate::error::Result;
use crate::keys::KeyOrder;
use crate::record::{Content, Ended, Entry, Header, Outcome, Task, read};
use crate::report::metric::{Metric, RUNNING, SETTLED};
use crate::report::stats::{Spread, ratio};
use crate::result::{Conditions, FeatureResult, Line, PhaseResult, Verification};
use crate::suite::is_of_experiment;
use crate::system::machine::Machine;
use crate::units::{bytes, thousands};

/// Everything that a report shows.
#[derive(Debug, Default)]
pub struct Results {
    /// Suites, in the order of the files.
    pub headers: Vec<Header>,
    /// Machines.
    pub machines: Vec<Machine>,
    /// Commands of runs that belong to no suite.
    pub commands: Vec<String>,
    /// What a reader has to know first.
    pub warnings: Vec<String>,
    /// The lists of workloads that were run.
    pub groups: Vec<Group>,
    /// Cases of features, in the order in which they were measured.
    pub features: Vec<FeatureResult>,
    /// Tasks that did not end well.
    pub failures: Vec<(Task, Outcome)>,
    /// Tasks that ask for what their engine does not have.
    pub absent: Vec<(Task, Outcome)>,
    /// Lines of kinds that have no place of their own, with their kind: limits of the disk.
    pub others: Vec<(String, Value)>,
    /// The engine to which others are compared.
    pub baseline: String,
}

/// A list of workloads on several engines, under the same conditions.
#[derive(Debug)]
pub struct Group {
    /// Name.
    pub name: String,
    /// What it is, in a line.
    pub about: String,
    /// The command that runs it again; of runs of their own, one in each line.
    pub command: String,
    /// Conditions of its first phase.
    pub conditions: Conditions,
    /// Whether it is a run of a paper's experiment, which has figures of its own.
    pub is_of_experiment: bool,
    /// Engines in their order.
    pub engines: Vec<String>,
    /// Rows: workloads in their order, and engines in theirs.
    pub rows: Vec<Row>,
    /// What was checked at the end of each task.
    pub checks: Vec<Check>,
}

/// The check of a task's stores.
#[derive(Debug)]
pub struct Check {
    /// Engine.
    pub engine: String,
    /// What was compared, or why nothing was.
    pub words: String,
    /// Records in the stores.
    pub records: u64,
}

/// A workload on an engine.
#[derive(Debug)]
pub struct Row {
    /// Workload; numbered if the list has it twice.
    pub workload: String,
    /// Engine.
    pub engine: String,
    /// The runs of the engine.
    pub runs: Vec<PhaseResult>,
    /// The round of each of them.
    pub rounds: Vec<u32>,
    /// What was wrong with values, or how the task ended, if not well.
    pub trouble: Option<String>,
    /// Whether values were wrong: such a row is compared with nothing.
    pub wrong: bool,
}

impl Row {
    /// A quantity of each run, with the run's round.
    pub fn of_rounds(&self, of: impl Fn(&PhaseResult) -> Option<f64>) -> Vec<(u32, f64)> {
        let runs = self.rounds.iter().zip(&self.runs);
        runs.filter_map(|(round, run)| Some((*round, of(run)?))).collect()
    }

    /// A quantity over the runs.
    pub fn spread(&self, metric: &Metric) -> Option<Spread> {
        Spread::of(self.runs.iter().filter_map(metric.of))
    }

    /// Whether it wrote in parts, and finished its background work after each: how fast it wrote
    /// meanwhile depends on where the parts end.
    pub fn writes_in_parts(&self) -> bool {
        self.runs.iter().any(|run| run.pieces.len() > 1 && run.user.written > 0)
    }

    /// The figure of speed that counts.
    pub fn judged_by(&self) -> &'static Metric {
        if self.writes_in_parts() { &SETTLED } else { &RUNNING }
    }

    /// The run whose throughput is the median, or next to it: the one to show in detail.
    pub fn typical(&self) -> &PhaseResult {
        let mut order: Vec<_> = self.runs.iter().collect();
        order.sort_by(|a, b| a.per_second().total_cmp(&b.per_second()));
        order[(order.len() - 1) / 2]
    }
}

impl Group {
    /// Names of the workloads, in their order.
    pub fn workloads(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !names.contains(&row.workload.as_str()) {
                names.push(&row.workload);
            }
        }
        names
    }

    /// The rows of `workload`.
    pub fn of<'a>(&'a self, workload: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.workload == workload)
    }

    /// `row` as a multiple of `baseline` on the same workload; `None` for the baseline itself, and
    /// where values were wrong.
    pub fn ratio(&self, row: &Row, baseline: &str, metric: &Metric) -> Option<f64> {
        let base = self.of(&row.workload).find(|other| other.engine == baseline)?;
        if base.engine == row.engine || base.wrong || row.wrong {
            return None;
        }
        ratio(&row.of_rounds(metric.of), &base.of_rounds(metric.of))
    }
}

/// The lines of one process.
#[derive(Default)]
struct Attempt {
    task: Option<Task>,
    command: String,
    phases: Vec<PhaseResult>,
    found: Option<Verification>,
    outcome: Option<Outcome>,
}

/// Reads result files.
pub fn collect(paths: &[PathBuf], baseline: Option<&str>) -> Result<Results> {
    let mut results = Results::default();
    let mut attempts = Vec::new();
    let mut warnings = BTreeSet::new();
    for path in paths {
        let (entries, unreadable) = read(path)?;
        let broken = unreadable.len();
        if let Some(first) = unreadable.into_iter().next() {
            warnings.insert(format!("{broken} line(s) could not be read; the first: {first}"));
        }
        attempts.extend(sort(entries, &mut results, &mut warnings));
    }
    for attempt in attempts {
        results.take(attempt);
    }
    results.order();
    results.baseline = results.choose_baseline(baseline, &mut warnings);
    results.judge(&mut warnings);
    results.warnings = warnings.into_iter().collect();
    Ok(results)
}

/// Sorts the lines of a file by the process that they come from; the rest goes to `results`.
fn sort(
    entries: Vec<Entry>,
    results: &mut Results,
    warnings: &mut BTreeSet<String>,
) -> Vec<Attempt> {
    let mut attempts: Vec<Attempt> = Vec::new();
    for Entry { task, content } in entries {
        let begins = matches!(&content, Content::Line(line) if matches!(**line, Line::Run { .. }));
        let belongs = !matches!(content, Content::Suite(_) | Content::Other(_));
        // Tasks that took turns have their lines mixed; a run of its own is one stretch of lines.
        let of_task = |attempt: &Attempt| attempt.task == task;
        let at = match &task {
            Some(_) => attempts.iter().rposition(of_task),
            None => attempts.len().checked_sub(1).filter(|at| of_task(&attempts[*at]) && !begins),
        };
        let at = at.unwrap_or(attempts.len());
        if belongs && at == attempts.len() {
            attempts.push(Attempt { task: task.clone(), ..Attempt::default() });
        }
        match content {
            Content::Suite(header) => {
                let noise = header.machine.noise();
                let said = header.warnings.iter().filter(|said| Some(*said) != noise.as_ref());
                warnings.extend(said.cloned());
                results.suite(*header);
            }
            Content::Other(value) => {
                let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
                results.others.push((kind.to_owned(), value.clone()));
            }
            Content::Outcome(outcome) => {
                attempts[at].outcome = Some(outcome);
            }
            Content::Line(line) => {
                attempts[at].line(*line, results, warnings);
            }
        }
    }
    attempts
}

impl Attempt {
    fn line(&mut self, line: Line, results: &mut Results, warnings: &mut BTreeSet<String>) {
        match line {
            Line::Run { machine, command, warnings: said } => {
                results.machine(&machine);
                // Within a suite the load is that of the child before; the suite has its own.
                let noise = machine.noise().filter(|_| self.task.is_some());
                warnings.extend(said.into_iter().filter(|said| Some(said) != noise.as_ref()));
                self.command = command;
            }
            Line::Phase(result) => self.phases.push(*result),
            Line::Verification { found, .. } => self.found = Some(found),
            Line::Feature(result) => results.features.push(result),
            Line::Disk(_) => {}
        }
    }

    /// What the check of the whole store found to be wrong.
    fn wrong(&self) -> Option<String> {
        let first = self.found.as_ref().filter(|found| !found.passed())?.first_problem.as_deref();
        Some(format!("check of the whole store: {}", first.unwrap_or_default()))
    }

    /// How it ended, if not well.
    fn bad(&self) -> Option<&Outcome> {
        self.outcome.as_ref().filter(|outcome| outcome.ended != Ended::Done)
    }

    /// What was checked in the stores of `engine`.
    fn check(&self, engine: String) -> Check {
        let words = match (&self.found, self.bad()) {
            (Some(found), _) if found.passed() => found.extent(),
            (Some(_), _) => "found to be wrong".to_owned(),
            (None, Some(bad)) => format!("not verified ({})", bad.ended.words()),
            (None, None) => "not verified".to_owned(),
        };
        Check { engine, words, records: self.found.as_ref().map_or(0, |found| found.records) }
    }

    /// The name of the list: the task's, or the conditions of a run of its own. Its first phase may
    /// be a load, which has no rate.
    fn list(&self) -> Option<String> {
        let conditions = self.phases.first()?.conditions.clone();
        let target_rate = self.phases.iter().find_map(|phase| phase.conditions.target_rate);
        let of_run = || label(&Conditions { target_rate, ..conditions });
        Some(self.task.as_ref().map_or_else(of_run, |task| task.list.clone()))
    }
}

/// Conditions in a line; those that are as usual are left out.
pub fn label(conditions: &Conditions) -> String {
    let limit = conditions.memory_limit.map_or("no memory limit".to_owned(), |limit| {
        format!("memory limited to {}", bytes(limit))
    });
    let mut words = format!(
        "{} records of {}, {} client(s), {limit}",
        thousands(conditions.records as f64),
        bytes(conditions.value_bytes),
        conditions.threads,
    );
    if conditions.value_sizes.contains(|sign: char| !sign.is_ascii_digit()) {
        words += &format!(", sizes {}", conditions.value_sizes);
    }
    if !["", KeyOrder::Hashed.name()].contains(&conditions.key_order.as_str()) {
        words += &format!(", keys {}", conditions.key_order);
    }
    if ![0.0, ZIPFIAN_CONSTANT].contains(&conditions.zipfian) {
        words += &format!(", Zipfian constant {}", conditions.zipfian);
    }
    if ![0, SCRAMBLED_RANKS].contains(&conditions.zipfian_ranks) {
        words += &format!(", Zipfian ranks {}", thousands(conditions.zipfian_ranks as f64));
    }
    if let Some(every) = conditions.moves_every {
        words += &format!(", moving every {} operations", thousands(every as f64));
    }
    if let Some(length) = conditions.scan_length {
        words += &format!(", scans of {length}");
    }
    if let Some(rate) = conditions.target_rate {
        words += &format!(", {} op/s asked for", thousands(rate));
    }
    words
}

impl Results {
    /// All engines, in the order of their first group.
    pub fn engines(&self) -> Vec<String> {
        let mut engines: Vec<String> = Vec::new();
        for engine in self.groups.iter().flat_map(|group| &group.engines) {
            if !engines.contains(engine) {
                engines.push(engine.clone());
            }
        }
        engines
    }

    fn machine(&mut self, machine: &Machine) {
        let same = |known: &Machine| Machine { load: machine.load, ..known.clone() } == *machine;
        if !self.machines.iter().any(same) {
            self.machines.push(machine.clone());
        }
    }

    /// A suite begins, or goes on where it was stopped.
    fn suite(&mut self, header: Header) {
        self.machine(&header.machine);
        let same = |known: &&mut Header| {
            (&known.name, known.memory_limit) == (&header.name, header.memory_limit)
        };
        let Some(known) = self.headers.iter_mut().find(same) else {
            return self.headers.push(header);
        };
        let mut engines = header.engines;
        // A part, with some engines or lists only, does not speak for the whole.
        let whole = engines.len() >= known.engines.len() && header.lists.len() >= known.lists.len();
        if whole {
            (known.about, known.command) = (header.about, header.command);
            std::mem::swap(&mut known.engines, &mut engines);
        }
        engines.retain(|engine| !known.engines.contains(engine));
        known.engines.extend(engines);
        for list in header.lists {
            match known.lists.iter_mut().find(|known| known.name == list.name) {
                Some(known) => *known = list,
                None => known.lists.push(list),
            }
        }
        known.repetitions = known.repetitions.max(header.repetitions);
        known.machine.load = known.machine.load.max(header.machine.load);
    }

    fn take(&mut self, attempt: Attempt) {
        let list = attempt.list();
        let (wrong, bad) = (attempt.wrong(), attempt.bad());
        let trouble = bad.map(|outcome| outcome.ended.words().to_owned());
        if let (Some(task), Some(outcome)) = (&attempt.task, bad) {
            let there = outcome.ended != Ended::NotThere;
            let list = if there { &mut self.failures } else { &mut self.absent };
            list.push((task.clone(), outcome.clone()));
        }
        let Some(list) = list else { return };
        if attempt.task.is_none() && !self.commands.contains(&attempt.command) {
            self.commands.push(attempt.command.clone());
        }
        let failed = wrong.is_some() || bad.is_some_and(|outcome| outcome.ended == Ended::Wrong);
        let at = self.group(&list, &attempt);
        let group = &mut self.groups[at];
        let task = attempt.task.as_ref();
        if task.is_none() && !group.command.lines().any(|line| line == attempt.command) {
            group.command += &format!("\n{}", attempt.command);
        }
        let named = group.named(&attempt.phases[0]);
        let engine = task.map_or(&named, |task| &task.engine);
        group.checks.push(attempt.check(engine.clone()));
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        for phase in attempt.phases {
            let number = seen.entry(phase.workload.clone()).or_default();
            *number += 1;
            let workload = match *number {
                1 => phase.workload.clone(),
                number => format!("{} ({number})", phase.workload),
            };
            let own = phase.checks.first_problem.clone().filter(|_| phase.problems() > 0);
            let trouble = own.or_else(|| wrong.clone()).or_else(|| trouble.clone());
            let wrong = failed || phase.problems() > 0;
            group.add(Row {
                workload,
                engine: engine.clone(),
                runs: vec![phase],
                rounds: vec![task.map_or(1, |task| task.repetition)],
                trouble,
                wrong,
            });
        }
    }

    /// The place of the group called `list`, made if it is not there.
    fn group(&mut self, list: &str, attempt: &Attempt) -> usize {
        let found = self.groups.iter().position(|group| group.name == list);
        found.unwrap_or_else(|| {
            let mut lists = self.headers.iter().rev().flat_map(|header| &header.lists);
            let known = lists.find(|known| known.name == list);
            self.groups.push(Group {
                name: list.to_owned(),
                about: known.map_or(String::new(), |known| known.about.clone()),
                command: known.map_or(attempt.command.clone(), |known| known.command.clone()),
                conditions: attempt.phases[0].conditions.clone(),
                is_of_experiment: is_of_experiment(list),
                engines: Vec::new(),
                rows: Vec::new(),
                checks: Vec::new(),
            });
            self.groups.len() - 1
        })
    }

    /// Engines in the order of the suite, and rows in the order of workloads and engines.
    fn order(&mut self) {
        let order: Vec<_> = self.headers.iter().flat_map(|header| &header.engines).collect();
        let place = |engine: &String| order.iter().position(|known| *known == engine);
        for group in &mut self.groups {
            let workloads: Vec<_> = group.workloads().into_iter().map(str::to_owned).collect();
            for row in &group.rows {
                if !group.engines.contains(&row.engine) {
                    group.engines.push(row.engine.clone());
                }
            }
            group.engines.sort_by_key(|engine| place(engine).unwrap_or(usize::MAX));
            let engines = &group.engines;
            group.rows.sort_by_key(|row| {
                let workload = workloads.iter().position(|name| *name == row.workload);
                (workload, engines.iter().position(|name| *name == row.engine))
            });
        }
    }

    /// The engine that was asked for, or that of the suite, or the first: if it has results.
    fn choose_baseline(&self, asked: Option<&str>, warnings: &mut BTreeSet<String>) -> String {
        let of_suite = self.headers.last().map(|header| header.baseline.as_str());
        let wanted = asked.or(of_suite).unwrap_or_default();
        let mut engines = self.groups.iter().flat_map(|group| &group.engines);
        let first = engines.next().cloned().unwrap_or_default();
        if wanted == first || engines.any(|engine| engine == wanted) {
            return wanted.to_owned();
        }
        if !wanted.is_empty() && !first.is_empty() {
            warnings.insert(format!("{wanted} has no results: compared with {first} in its place"));
        }
        first
    }
}

impl Group {
    /// The engine of a run of its own, with the settings that set it apart from the first one here.
    fn named(&self, run: &PhaseResult) -> String {
        let engine = &run.engine;
        let mut first = self.rows.iter().map(|row| &row.runs[0]);
        let usual = first
            .find(|other| other.engine == *engine)
            .map_or(&run.settings, |other| &other.settings);
        let own = run.settings.iter().filter(|setting| !usual.contains(setting));
        let own: Vec<_> = own.map(|(name, value)| format!("{name}={value}")).collect();
        if own.is_empty() { engine.clone() } else { format!("{engine} ({})", own.join(", ")) }
    }

    /// Adds a run to its row.
    fn add(&mut self, row: Row) {
        let same = |own: &&mut Row| own.workload == row.workload && own.engine == row.engine;
        match self.rows.iter_mut().find(same) {
            Some(own) => {
                own.runs.extend(row.runs);
                own.rounds.extend(row.rounds);
                own.wrong |= row.wrong;
                own.trouble = own.trouble.take().or(row.trouble);
            }
            None => self.rows.push(row),
        }
    }
}

#[cfg(test)]
mod tests;
