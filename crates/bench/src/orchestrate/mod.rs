//! A suite: many engines, each task in a process of its own.
//!
//! What happens to one engine (a crash, the memory limit, a hang, a wrong value) ends its task, the
//! result file says what happened, and the next task begins. Data is deleted whatever happens.

pub mod target;
pub mod plan;
pub mod guard;
pub mod child;
pub mod gather;
pub mod watch;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::error::Result;
use crate::orchestrate::child::{End, Job};
use crate::orchestrate::gather::Gathered;
use crate::orchestrate::plan::{Pace, plan};
use crate::orchestrate::target::Target;
use crate::orchestrate::watch::Watcher;
use crate::record::{Content, Ended, Entry, Header, ListHeader, Outcome, Task, line_of, tagged};
use crate::result::Line;
use crate::scratch::Scratch;
use crate::suite::{List, Suite};
use crate::system::DiskLimits;
use crate::system::machine::Machine;

/// What to run, and where.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The lists and their conditions.
    pub suite: Suite,
    /// The engines.
    pub targets: Vec<Target>,
    /// The engine to which others are compared.
    pub baseline: String,
    /// Memory with the page cache, in bytes; `None` for all that there is.
    pub memory_limit: Option<u64>,
    /// Directory for the data.
    pub dir: PathBuf,
    /// The file for the results.
    pub results: PathBuf,
    /// Whether to measure the limits of the disk first.
    pub disk: bool,
    /// Whether tasks that the file has are left out.
    pub resume: bool,
    /// The command that was typed, without a choice of lists.
    pub command: String,
}

/// How a suite went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finish {
    /// Tasks with wrong values.
    pub wrong: usize,
    /// Tasks that did not come to their end.
    pub failed: usize,
    /// Whether it was interrupted.
    pub interrupted: bool,
}

/// Runs the suite; `stop` is asked all the while whether to end.
pub fn run(settings: &Settings, watcher: &dyn Watcher, stop: &dyn Fn() -> bool) -> Result<Finish> {
    let scratch = Scratch::claim(&settings.dir)?;
    let finish = Gathered::open(&settings.results, settings.resume)
        .and_then(|mut gathered| tasks(settings, &scratch, &mut gathered, watcher, stop));
    scratch.delete()?;
    finish
}

fn tasks(
    settings: &Settings,
    scratch: &Scratch,
    gathered: &mut Gathered,
    watcher: &dyn Watcher,
    stop: &dyn Fn() -> bool,
) -> Result<Finish> {
    gathered.add(&line_of("suite", None, &settings.header()))?;
    if settings.disk {
        // By this process, outside any memory limit: no engine pays for it.
        let limits = DiskLimits::measure(&settings.dir)?;
        gathered.add(&line_of("disk", None, &limits))?;
        watcher.disk(&limits);
    }
    let engines: Vec<_> = settings.targets.iter().map(|target| target.engine.clone()).collect();
    let mut planned = plan(&settings.suite, &engines);
    let command_of = |task: &Task| settings.command_of(task);
    planned.retain(|task| !gathered.has(task, &command_of(task)));
    let (mut finish, mut pace) = (Finish::default(), Pace::default());
    for (at, task) in planned.iter().enumerate() {
        watcher.begins(task, at + 1, planned.len(), pace.estimate(&planned[at..]));
        let outcome = one(settings, scratch, gathered, task, watcher, stop)?;
        gathered.add(&line_of("outcome", Some(task), &outcome))?;
        watcher.ends(task, &outcome);
        pace.learn(task, Duration::from_secs_f64(outcome.seconds));
        match outcome.ended {
            Ended::Done => {}
            Ended::Wrong => finish.wrong += 1,
            Ended::Interrupted => return Ok(Finish { interrupted: true, ..finish }),
            _ => finish.failed += 1,
        }
    }
    Ok(finish)
}

/// Runs one task, and says how it ended.
fn one(
    settings: &Settings,
    scratch: &Scratch,
    gathered: &mut Gathered,
    task: &Task,
    watcher: &dyn Watcher,
    stop: &dyn Fn() -> bool,
) -> Result<Outcome> {
    let store = scratch.emptied("store")?;
    let files = store.with_file_name("child");
    let (results, notes) = (files.with_extension("jsonl"), files.with_extension("err"));
    let target = settings.target(task);
    let mut command = Command::new(&target.program);
    command.args(&target.arguments).args(settings.arguments(task)).arg("--quiet");
    command.arg("--dir").arg(&store).arg(target.results).arg(&results);
    let job = Job { command, results: &results, notes: &notes, timeout: settings.suite.timeout };
    let mut heard = Heard::default();
    let end = child::run(
        job,
        &mut |line| {
            if let Some(value) = heard.line(line, task, watcher) {
                gathered.add(&tagged(value, Some(task)))?;
            }
            Ok(())
        },
        stop,
    )?;
    Ok(heard.outcome(end, settings.command_of(task)))
}

/// What a child's results said so far.
#[derive(Default)]
struct Heard {
    phases: usize,
    wrong: Option<String>,
    unreadable: Option<String>,
}

impl Heard {
    /// Takes in a line; returns it if it belongs into the file.
    fn line(&mut self, line: &str, task: &Task, watcher: &dyn Watcher) -> Option<Value> {
        let entry = match Entry::parse(line) {
            Ok(entry) => entry,
            Err(why) => {
                self.unreadable.get_or_insert(why);
                return None;
            }
        };
        if let Content::Line(line) = entry.content {
            match *line {
                Line::Phase(result) => {
                    self.phases += 1;
                    if result.problems() > 0 {
                        let first = result.checks.first_problem.clone().unwrap_or_default();
                        self.wrong.get_or_insert(format!("{}: {first}", result.workload));
                    }
                    watcher.phase(task, &result);
                }
                Line::Verification { found, .. } if !found.passed() => {
                    let first = found.first_problem.unwrap_or_default();
                    self.wrong.get_or_insert(format!("check of the whole store: {first}"));
                }
                _ => {}
            }
        }
        serde_json::from_str(line).ok()
    }

    fn outcome(self, end: End, command: String) -> Outcome {
        // A program that found wrong values says so by its exit code, too.
        let ran = matches!(end.ended, Ended::Done | Ended::Failed);
        let unreadable = self.unreadable.map(|why| format!("a line of results is broken: {why}"));
        let (ended, words) = match (end.ended, self.wrong) {
            (_, Some(wrong)) if ran => (Ended::Wrong, Some(wrong)),
            (Ended::Done, None) if unreadable.is_some() => (Ended::Failed, unreadable),
            (Ended::Done, None) if self.phases == 0 => {
                (Ended::Failed, Some("the program ended without a result".to_owned()))
            }
            (ended, _) => (ended, end.words),
        };
        Outcome { ended, words, seconds: end.took.as_secs_f64(), command }
    }
}

impl Settings {
    fn target(&self, task: &Task) -> &Target {
        let found = self.targets.iter().find(|target| target.engine == task.engine);
        found.expect("tasks are planned for these targets")
    }

    fn list(&self, task: &Task) -> &List {
        self.suite.list(&task.list).expect("tasks are planned for these lists")
    }

    /// Arguments of a child that say what is measured; not where.
    fn arguments(&self, task: &Task) -> Vec<String> {
        let mut arguments = self.list(task).arguments.clone();
        if let Some(limit) = self.memory_limit {
            arguments.extend(["--memory-limit".to_owned(), size_argument(limit)]);
        }
        if let Some(duration) = self.suite.duration(self.targets.len()) {
            let seconds = format!("{:.1}", duration.as_secs_f64());
            arguments.extend(["--duration".to_owned(), seconds]);
        }
        arguments
    }

    fn command_of(&self, task: &Task) -> String {
        self.target(task).command(&self.arguments(task))
    }

    fn header(&self) -> Header {
        let machine = Machine::here();
        let list = |list: &List| ListHeader {
            name: list.name.clone(),
            about: list.about.clone(),
            command: if self.suite.lists.len() > 1 {
                format!("{} --only '{}'", self.command, list.name)
            } else {
                self.command.clone()
            },
        };
        Header {
            name: self.suite.name.to_owned(),
            about: self.suite.about.to_owned(),
            command: self.command.clone(),
            lists: self.suite.lists.iter().map(list).collect(),
            engines: self.targets.iter().map(|target| target.engine.clone()).collect(),
            baseline: self.baseline.clone(),
            repetitions: self.suite.repetitions,
            memory_limit: self.memory_limit,
            warnings: machine.noise().into_iter().collect(),
            machine,
        }
    }
}

/// A size as it is typed: 448MiB.
fn size_argument(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    if bytes.is_multiple_of(MIB) { format!("{}MiB", bytes / MIB) } else { bytes.to_string() }
}
