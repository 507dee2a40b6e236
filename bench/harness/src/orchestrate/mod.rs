//! A suite: many engines, each task in a process of its own.
//!
//! A suite in pieces has all engines of a round alive at once: one works, the others wait.
//!
//! What happens to one engine (a crash, the memory limit, a hang, a wrong value) ends its task, the
//! result file says what happened, and the next task begins. Data is deleted whatever happens.

pub mod target;
pub mod plan;
pub mod guard;
pub mod child;
pub mod gather;
pub mod watch;
pub mod trial;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::engine::NOT_THERE;
use crate::error::Result;
use crate::orchestrate::child::{End, Job, Running, Stand};
use crate::orchestrate::gather::Gathered;
use crate::orchestrate::plan::{Pace, plan};
use crate::orchestrate::target::Target;
use crate::orchestrate::watch::Watcher;
use crate::record::{Content, Ended, Entry, Header, ListHeader, Outcome, Task, line_of, tagged};
use crate::result::Line;
use crate::scratch::Scratch;
use crate::suite::{List, Suite};
use crate::system::machine::Machine;
use crate::system::{DiskLimits, available_memory};

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

/// Repetitions that are run however long they take: fewer have no spread to tell.
const REPETITIONS_MIN: u32 = 2;

/// Engines that fit the time of a suite that has one.
const BUDGETED_MAX: usize = 3;

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
    let engines: Vec<_> = settings.targets.iter().map(|target| target.engine.clone()).collect();
    let mut planned = plan(&settings.suite, &engines);
    planned.retain(|task| !gathered.has(task, &settings.command_of(task)));
    gathered.add(&line_of("suite", None, &settings.header()))?;
    if settings.disk {
        // By this process, outside any memory limit: no engine pays for it.
        let limits = DiskLimits::measure(&settings.dir)?;
        gathered.add(&line_of("disk", None, &limits))?;
        watcher.disk(&limits);
    }
    let together = settings.together();
    let round = |one: &Task, next: &Task| {
        together && (&one.list, one.repetition) == (&next.list, next.repetition)
    };
    let (finish, pace) = (Finish::default(), Pace::new(&settings.suite, engines.len()));
    watcher.plans(planned.len(), pace.estimate(&planned));
    // A suite that was made to fit a time leaves repetitions out rather than take longer.
    let budget = settings.suite.budget.filter(|_| engines.len() <= BUDGETED_MAX);
    let begin = Instant::now();
    let left = &planned[..];
    let mut course = Course { settings, scratch, gathered, watcher, stop, finish, pace, left };
    for round in planned.chunk_by(round) {
        let over = |budget| begin.elapsed() + course.pace.estimate(round) > budget;
        let told = round.iter().any(|task| task.repetition > REPETITIONS_MIN);
        if told && budget.is_some_and(over) {
            watcher.leaves_out(course.left.len());
            break;
        }
        course.round(round, planned.len())?;
        if course.finish.interrupted {
            break;
        }
        course.left = &course.left[round.len()..];
    }
    Ok(course.finish)
}

/// A running suite.
struct Course<'a> {
    settings: &'a Settings,
    scratch: &'a Scratch,
    gathered: &'a mut Gathered,
    watcher: &'a dyn Watcher,
    stop: &'a dyn Fn() -> bool,
    finish: Finish,
    pace: Pace<'a>,
    /// The tasks of this round and of those to come.
    left: &'a [Task],
}

/// A task whose child is alive.
struct Member<'a> {
    task: &'a Task,
    running: Running,
    heard: Heard,
    /// The step of the turn that the child awaits.
    step: u32,
    /// Whether it has not worked yet.
    new: bool,
}

impl Course<'_> {
    /// Runs `tasks`, of `all`, to their end; they take turns if there are several.
    fn round(&mut self, tasks: &[Task], all: usize) -> Result<()> {
        let mut waiting = VecDeque::new();
        for task in tasks {
            waiting.extend(self.start(task, tasks.len() > 1)?);
        }
        // The child with the lowest step comes first; of several the one that waits for longest.
        while let Some(mut member) = lowest(&mut waiting) {
            let left = self.pace.estimate(self.left);
            let number = all - self.left.len() + tasks.len() - waiting.len();
            self.watcher.begins(member.task, number, all, left);
            match self.turn(&mut member)? {
                Stand::Waits(step) => {
                    waiting.push_back(Member { step, new: false, ..member });
                }
                Stand::Ended(end) => {
                    let outcome = member.heard.outcome(end, self.settings.command_of(member.task));
                    self.ends(member.task, &outcome)?;
                }
            }
            if self.finish.interrupted {
                break;
            }
        }
        Ok(())
    }

    /// Starts the child of `task`; `None` if it could not be run.
    fn start<'t>(&mut self, task: &'t Task, in_turns: bool) -> Result<Option<Member<'t>>> {
        let (target, name) = (self.settings.target(task), self.settings.store(task));
        let turns = in_turns.then(|| "--turns".to_owned());
        let arguments = self.settings.arguments(task).into_iter().chain(turns);
        let timeout = self.settings.suite.timeout;
        let job = Job::of(target, arguments, (self.scratch, &name), timeout)?;
        match Running::start(job, in_turns)? {
            Ok(running) => {
                let heard = Heard::default();
                Ok(Some(Member { task, running, heard, step: 0, new: true }))
            }
            Err(end) => {
                let outcome = Heard::default().outcome(end, self.settings.command_of(task));
                self.ends(task, &outcome)?;
                Ok(None)
            }
        }
    }

    fn turn(&mut self, member: &mut Member<'_>) -> Result<Stand> {
        let Member { task, running, heard, new, .. } = member;
        let (gathered, watcher) = (&mut *self.gathered, self.watcher);
        let mut line = |line: &str| match heard.line(line, task, watcher) {
            Some(value) => gathered.add(&tagged(value, Some(task))),
            None => Ok(()),
        };
        running.turn(*new, &mut line, self.stop)
    }

    /// `task` has ended; its data goes.
    fn ends(&mut self, task: &Task, outcome: &Outcome) -> Result<()> {
        self.scratch.emptied(&self.settings.store(task))?;
        self.gathered.add(&line_of("outcome", Some(task), outcome))?;
        self.watcher.ends(task, outcome);
        self.pace.learn(task, Duration::from_secs_f64(outcome.seconds));
        match outcome.ended {
            Ended::Done | Ended::NotThere => {}
            Ended::Wrong => self.finish.wrong += 1,
            Ended::Interrupted => self.finish.interrupted = true,
            _ => self.finish.failed += 1,
        }
        Ok(())
    }
}

/// Takes out the first of those that await the lowest step.
fn lowest<'a>(waiting: &mut VecDeque<Member<'a>>) -> Option<Member<'a>> {
    let step = waiting.iter().map(|member| (!member.new, member.step)).min()?;
    let first = waiting.iter().position(|member| (!member.new, member.step) == step)?;
    waiting.remove(first)
}

/// What a child's results said so far.
#[derive(Default)]
struct Heard {
    /// Phases and cases of features.
    results: usize,
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
                    self.results += 1;
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
                Line::Feature(_) => self.results += 1,
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
            (Ended::Done, None) if self.results == 0 => {
                (Ended::Failed, Some("the program ended without a result".to_owned()))
            }
            // A program that refuses an option says so by its last words.
            (Ended::Failed, None) if end.words.as_ref().is_some_and(|w| w.ends_with(NOT_THERE)) => {
                (Ended::NotThere, end.words.map(reason))
            }
            (ended, _) => (ended, end.words),
        };
        Outcome { ended, words, seconds: end.took.as_secs_f64(), command }
    }
}

/// What a program said behind its exit code, without the word by which it begins an error.
fn reason(words: String) -> String {
    let said = words.split_once(": ").map_or(words.as_str(), |(_, said)| said);
    said.trim_start_matches("error: ").trim_start_matches("cleave-bench: ").to_owned()
}

impl Settings {
    /// Whether the engines of a round are alive at once and take turns: if the suite is one of
    /// pieces, and if memory is there for all of them.
    fn together(&self) -> bool {
        if !self.suite.in_pieces {
            return false;
        }
        let limit = self.memory_limit.unwrap_or(self.suite.memory_limit);
        let needed = limit * self.targets.len() as u64;
        available_memory().is_some_and(|there| needed < there / 4 * 3)
    }

    fn target(&self, task: &Task) -> &Target {
        let found = self.targets.iter().find(|target| target.engine == task.engine);
        found.expect("tasks are planned for these targets")
    }

    /// Directory of the store of the task's engine: names of engines may hold anything.
    fn store(&self, task: &Task) -> String {
        let at = self.targets.iter().position(|target| target.engine == task.engine);
        format!("store-{}", at.unwrap_or_default())
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
        arguments.extend(self.suite.in_pieces.then(|| "--pieces".to_owned()));
        if let Some(duration) = self.suite.duration(self.targets.len()) {
            let seconds = format!("{:.1}", duration.as_secs_f64());
            arguments.extend(["--duration".to_owned(), seconds]);
        }
        arguments
    }

    fn command_of(&self, task: &Task) -> String {
        self.target(task).command(&self.arguments(task))
    }

    /// The command that was typed, for these of the lists.
    fn command_for(&self, lists: &[List]) -> String {
        if !self.suite.is_part && lists.len() == self.suite.lists.len() {
            return self.command.clone();
        }
        let only = lists.iter().map(|list| format!(" --only '{}'", list.name));
        self.command.clone() + &only.collect::<String>()
    }

    fn header(&self) -> Header {
        let machine = Machine::here();
        let list = |list: &List| ListHeader {
            name: list.name.clone(),
            about: list.words(),
            command: self.command_for(std::slice::from_ref(list)),
        };
        let mut warnings: Vec<_> = machine.noise().into_iter().collect();
        if self.suite.in_pieces && !self.together() {
            warnings.push(format!(
                "there is no memory for {} engines at once: each ran alone, and its pieces do not \
                 alternate with those of the others",
                self.targets.len()
            ));
        }
        Header {
            name: self.suite.name.to_owned(),
            about: self.suite.about.to_owned(),
            command: self.command_for(&self.suite.lists),
            lists: self.suite.lists.iter().map(list).collect(),
            engines: self.targets.iter().map(|target| target.engine.clone()).collect(),
            baseline: self.baseline.clone(),
            repetitions: self.suite.repetitions,
            memory_limit: self.memory_limit,
            warnings,
            machine,
        }
    }
}

/// A size as it is typed: 448MiB.
fn size_argument(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    if bytes.is_multiple_of(MIB) { format!("{}MiB", bytes / MIB) } else { bytes.to_string() }
}
