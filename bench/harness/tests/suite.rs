//! Suites of fake engines: shell scripts that die, hang, lie and babble. Each spoils its own rows
//! only, and the report says what happened.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cleavedb_bench::PhaseResult;
use cleavedb_bench::experiments::{Experiment, Metric, all};
use cleavedb_bench::orchestrate::target::Target;
use cleavedb_bench::orchestrate::watch::Unwatched;
use cleavedb_bench::orchestrate::{Finish, Settings, run};
use cleavedb_bench::record::{Content, Ended, Entry, read};
use cleavedb_bench::report::{Results, collect, html, summary, text};
use cleavedb_bench::result::{Line, Sample, Speed, UserBytes, Verification};
use cleavedb_bench::suite::{List, Suite, list_name};

/// Finds the result file in the arguments, and `$n`, the number of this call.
const OPENING: &str = "\
    #!/bin/sh\n\
    while [ $# -gt 0 ]; do [ \"$1\" = --results ] && out=$2; shift; done\n\
    echo x >> $0.calls; n=$(wc -l < $0.calls)\n";

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// An engine whose process runs `script`; `$out` is its result file.
    fn engine(&self, name: &str, script: &str) -> Target {
        let program = self.path(name);
        fs::write(&program, format!("{OPENING}{script}\n")).unwrap();
        // By way of the shell: a file just written may still be open in a process that another test
        // has just forked, and then it cannot be executed.
        let arguments = vec![program.display().to_string()];
        Target { engine: name.to_owned(), program: "sh".into(), arguments, extra: false }
    }

    /// An engine that does `speeds` operations a second, a number for each repetition.
    fn right(&self, name: &str, speeds: &[u64]) -> Target {
        for (at, speed) in (1..).zip(speeds) {
            let lines = [phase(name, *speed, 0), verified(name)].join("\n");
            fs::write(self.path(&format!("{name}.{at}")), lines + "\n").unwrap();
        }
        self.engine(name, "cat $0.$n >> $out")
    }

    fn settings(&self, targets: Vec<Target>, repetitions: u32) -> Settings {
        let list = List {
            name: "list".to_owned(),
            about: "one workload".to_owned(),
            arguments: vec!["-w".to_owned(), "load".to_owned()],
            timed: 0,
            without: &[],
        };
        let timeout = Duration::from_millis(1500);
        Settings {
            suite: Suite {
                lists: vec![list],
                repetitions,
                timeout,
                budget: None,
                in_pieces: false,
                ..Suite::quick(1)
            },
            baseline: targets[0].engine.clone(),
            targets,
            memory_limit: None,
            dir: self.path("data"),
            results: self.path("results.jsonl"),
            disk: false,
            resume: false,
            command: "cleave bench <quick> & more".to_owned(),
        }
    }
}

fn phase(engine: &str, per_second: u64, wrong: u64) -> String {
    let mut result = PhaseResult {
        engine: engine.to_owned(),
        workload: "load".to_owned(),
        settings: vec![("cache".to_owned(), "<32 MiB>".to_owned())],
        ..PhaseResult::default()
    };
    result.speed = Speed {
        operations: per_second * 2,
        running_seconds: 2.0,
        settled_seconds: 4.0,
        ..Speed::default()
    };
    result.user = UserBytes { written: 1000, read: 0, live: Some(1000) };
    result.latency.p50_us = 1.5;
    result.latency.p99_us = 20.0;
    result.latency.max_us = 90_000.0;
    let sample = |at: u64| Sample {
        seconds: at as f64,
        operations: at * per_second,
        allocated: 900,
        live: None,
        budget: Some(1200),
        hot: None,
    };
    result.samples = (1..4).map(sample).collect();
    result.checks.wrong_values = wrong;
    result.checks.first_problem = (wrong > 0).then(|| "user1 holds the value of user2".to_owned());
    result.counters_growth.insert("flush_written".to_owned(), 1500.0);
    result.counters_growth.insert("stalls_level_0".to_owned(), 7.0);
    serde_json::to_string(&Line::Phase(Box::new(result))).unwrap()
}

fn verified(engine: &str) -> String {
    let line = Line::Verification { engine: engine.to_owned(), found: Verification::default() };
    serde_json::to_string(&line).unwrap()
}

fn go(settings: &Settings) -> Finish {
    run(settings, &Unwatched, &|| false).unwrap()
}

fn ends(path: &Path) -> Vec<(String, Ended, String)> {
    let (entries, unreadable) = read(path).unwrap();
    assert_eq!(unreadable, Vec::<String>::new());
    let end = |entry: Entry| match entry.content {
        Content::Outcome(outcome) => {
            Some((entry.task?.engine, outcome.ended, outcome.words.unwrap_or_default()))
        }
        _ => None,
    };
    entries.into_iter().filter_map(end).collect()
}

/// One engine of each kind of trouble, between two right ones.
fn troubled(home: &Home) -> Settings {
    let wrong = home.path("wrong.json");
    fs::write(&wrong, phase("wrong", 100, 3) + "\n").unwrap();
    let half = home.path("half.json");
    fs::write(&half, phase("half", 100, 0) + "\n").unwrap();
    let targets = vec![
        home.right("first", &[100, 300]),
        home.engine("dies", "echo 'no space left' >&2; exit 4"),
        home.engine("killed", "kill -9 $$"),
        home.engine("hangs", "sleep 1000"),
        home.engine("wrong", &format!("cat {} >> $out; exit 1", wrong.display())),
        home.engine("babbles", "echo '{\"kind\":' >> $out"),
        home.engine("silent", "true"),
        home.engine("half", &format!("cat {} >> $out; kill -SEGV $$", half.display())),
        home.right("last", &[600, 200]),
    ];
    home.settings(targets, 2)
}

#[test]
fn trouble_ends_its_own_task_only() {
    let home = Home::new();
    let settings = troubled(&home);
    let finish = go(&settings);
    assert_eq!(finish, Finish { wrong: 2, failed: 12, interrupted: false });
    let ends = ends(&settings.results);
    let first: Vec<_> =
        ends[..9].iter().map(|(engine, ended, _)| (engine.as_str(), *ended)).collect();
    let expected = [
        ("first", Ended::Done),
        ("dies", Ended::Failed),
        ("killed", Ended::Killed),
        ("hangs", Ended::TimedOut),
        ("wrong", Ended::Wrong),
        ("babbles", Ended::Failed),
        ("silent", Ended::Failed),
        ("half", Ended::Killed),
        ("last", Ended::Done),
    ];
    assert_eq!(first, expected);
    assert!(ends[9..].iter().map(|end| &end.0).eq(ends[..9].iter().map(|end| &end.0)), "in turn");
    let words = |at: usize| ends[at].2.as_str();
    assert!(words(1).contains("exit code 4") && words(1).contains("no space left"));
    assert!(words(4).contains("user1 holds"), "{}", words(4));
    assert!(words(5).contains("broken") && words(6).contains("without a result"));
    assert!(!settings.dir.exists(), "data is deleted");
}

fn results(settings: &Settings) -> Results {
    collect(std::slice::from_ref(&settings.results), None).unwrap()
}

/// A suite that is to take two minutes took as long as its four repetitions did.
#[test]
fn repetitions_that_come_too_late_are_left_out() {
    let home = Home::new();
    home.right("slow", &[100; 3]);
    let slow = home.engine("slow", "sleep 1.5; cat $0.$n >> $out");
    let mut settings = home.settings(vec![slow], 3);
    settings.suite.timeout = Duration::from_secs(60);
    settings.suite.budget = Some(Duration::from_millis(4200));
    assert_eq!(go(&settings), Finish::default());
    assert_eq!(ends(&settings.results).len(), 2, "two have a spread to tell");
}

#[test]
fn rows_have_medians_and_ratios_and_wrong_ones_have_none() {
    let home = Home::new();
    let settings = troubled(&home);
    go(&settings);
    let results = results(&settings);
    let rows = summary::rows(&results);
    let row = |engine: &str| rows.iter().find(|row| row.engine == engine).unwrap();
    let running = &row("last").metrics["running"];
    assert_eq!((running.spread.median, running.spread.least), (400.0, 200.0));
    // Of its rounds: 600 to 100, and 200 to 300.
    assert_eq!((running.spread.count, running.ratio), (2, Some((6.0 + 2.0 / 3.0) / 2.0)));
    assert_eq!(row("first").metrics["settled"].spread.median, 100.0);
    assert!(row("wrong").wrong && row("wrong").metrics["running"].ratio.is_none());
    assert_eq!(row("half").trouble, Some("killed by a signal"));
    assert_eq!(results.failures.len(), 14);
    let text = text::summary(&results);
    for needed in ["first", "last", "WRONG VALUES", "killed at its time limit", "3.33x"] {
        assert!(text.contains(needed), "{needed} is not in:\n{text}");
    }
}

#[test]
fn the_page_has_every_row_escapes_names_and_needs_no_network() {
    let home = Home::new();
    let mut settings = troubled(&home);
    settings.targets[8].engine = "<b>last</b>".to_owned();
    go(&settings);
    let results = results(&settings);
    let page = html::page(&results);
    for engine in ["first", "wrong", "half", "dies", "killed", "hangs", "&lt;b&gt;last&lt;/b&gt;"] {
        assert!(page.contains(&format!("<td class=\"\">{engine}</td>")), "{engine}");
    }
    assert!(!page.contains("<b>last") && page.contains("&lt;32 MiB&gt;"));
    assert!(page.contains("&lt;quick&gt; &amp; more"), "the command is there");
    for section in ["throughput", "space", "latency", "stalls", "disk", "failed", "settings"] {
        assert!(page.contains(&format!("id=\"{section}\"")), "{section}");
    }
    assert!(page.contains("<polyline") && page.contains("level 0") && page.contains(": budget"));
    // A name space is only a name: no browser fetches it.
    let outside = page.replace("xmlns=\"http:", "");
    for link in ["http:", "https:", "src=", "@import", "url(", "<script"] {
        assert!(!outside.contains(link), "{link}");
    }
    let markdown = text::markdown(&results);
    assert!(markdown.contains("no space left") && markdown.contains("Settings of first"));
}

#[test]
fn a_run_goes_on_where_it_was_stopped() {
    let home = Home::new();
    let targets = vec![
        home.right("a", &[100, 200]),
        home.engine("b", "[ $n = 1 ] && exit 1; cat $0.2 >> $out"),
    ];
    fs::write(home.path("b.2"), phase("b", 50, 0) + "\n").unwrap();
    let mut settings = home.settings(targets, 1);
    assert_eq!(go(&settings).failed, 1);
    let refused = run(&settings, &Unwatched, &|| false).unwrap_err().to_string();
    assert!(refused.contains("--resume"), "{refused}");
    // What a killed run may leave: half a line.
    let torn = fs::read_to_string(&settings.results).unwrap() + "{\"kind\":\"pha";
    fs::write(&settings.results, torn).unwrap();
    settings.resume = true;
    // What failed stays in the file as long as it does not run again.
    let alone = Settings { targets: vec![settings.targets[0].clone()], ..settings.clone() };
    assert_eq!(go(&alone), Finish::default());
    let failed = ends(&settings.results).into_iter().filter(|(_, e, _)| *e == Ended::Failed);
    assert_eq!(failed.count(), 1);
    assert_eq!(go(&settings), Finish::default());
    let calls = |name: &str| fs::read_to_string(home.path(name)).unwrap().lines().count();
    assert_eq!((calls("a.calls"), calls("b.calls")), (1, 2));
    let done: Vec<_> = ends(&settings.results).into_iter().map(|(_, ended, _)| ended).collect();
    assert_eq!(done, [Ended::Done, Ended::Done]);
}

#[test]
fn an_interrupt_keeps_what_is_done_and_deletes_the_data() {
    let home = Home::new();
    let second = home.engine("second", "touch $0.began; sleep 1000");
    let began = home.path("second.began");
    let mut settings = home.settings(vec![home.right("first", &[100]), second], 1);
    settings.suite.timeout = Duration::from_secs(60);
    let finish = run(&settings, &Unwatched, &|| began.exists()).unwrap();
    assert!(finish.interrupted);
    let ends = ends(&settings.results);
    assert_eq!((ends[0].1, ends[1].1), (Ended::Done, Ended::Interrupted));
    assert!(!settings.dir.exists());
    assert_eq!(summary::rows(&results(&settings)).len(), 1);
}

#[test]
fn a_single_run_is_reported_too() {
    let home = Home::new();
    let (one, two) = (home.path("one.jsonl"), home.path("two.jsonl"));
    fs::write(&one, phase("a", 100, 0) + "\n" + &phase("a", 150, 0) + "\nnonsense\n").unwrap();
    fs::write(&two, phase("b", 300, 0) + "\n").unwrap();
    let results = collect(&[one, two], Some("b")).unwrap();
    let rows = summary::rows(&results);
    let names: Vec<_> = rows.iter().map(|row| (row.workload, row.engine)).collect();
    assert_eq!(names, [("load", "a"), ("load", "b"), ("load (2)", "a")]);
    assert!((rows[0].metrics["running"].ratio.unwrap() - 1.0 / 3.0).abs() < 1e-9);
    assert!(results.warnings.iter().any(|warning| warning.contains("one.jsonl:3")));
    let absent = collect(&[home.path("absent")], None).unwrap_err().to_string();
    assert!(absent.contains("absent"), "{absent}");
}

#[test]
fn a_paper_s_figure_stands_beside_ours() {
    let home = Home::new();
    let shows = |e: &&Experiment| e.does_show("load") && e.metrics.contains(&Metric::Settled);
    let experiment = all().filter(shows).find(|e| !e.runs().is_empty()).unwrap();
    let speeds: Vec<_> = experiment.runs().iter().map(|_| 5000).collect();
    let mut settings = home.settings(vec![home.right("ours", &speeds)], 1);
    settings.suite.lists = Suite::papers(&[], &[experiment.name.to_owned()], 1).unwrap().lists;
    assert_eq!(go(&settings), Finish::default());
    let text = text::summary(&results(&settings));
    let settled = Metric::Settled.name();
    let shown = |line: &&str| line.contains(experiment.paper_says) && line.contains(settled);
    let rows: Vec<_> = text.lines().filter(shown).collect();
    assert_eq!(rows.len(), speeds.len(), "{text}");
    assert!(rows[0].contains("2,500") && rows[0].contains(&experiment.runs()[0].label), "{text}");
}

#[test]
fn a_part_is_repeated_as_that_part_and_as_often_as_last_asked() {
    let home = Home::new();
    let mut settings = home.settings(vec![home.right("a", &[100, 200])], 1);
    let other = List { name: "other".to_owned(), ..settings.suite.lists[0].clone() };
    settings.suite.lists.push(other);
    settings.suite.keep(&["list".to_owned()]).unwrap();
    settings.command = "cleave bench suite".to_owned();
    go(&settings);
    settings.suite.repetitions = 2;
    settings.command = "cleave bench suite --repetitions 2".to_owned();
    settings.resume = true;
    go(&settings);
    let results = results(&settings);
    let typed = "cleave bench suite --repetitions 2 --only 'list'";
    assert_eq!((&*results.headers[0].command, &*results.groups[0].command), (typed, typed));
    assert_eq!((results.headers[0].lists.len(), results.groups[0].rows[0].runs.len()), (1, 2));
}

#[test]
fn trouble_among_engines_that_take_turns_ends_its_own_task_only() {
    let home = Home::new();
    let turn = "echo 'turn 1'; read go; ";
    let in_turns = |name: &str, script: &str| home.engine(name, &format!("{turn}{script}"));
    for (name, wrong) in [("right", 0), ("wrong", 1)] {
        fs::write(home.path(&format!("{name}.1")), phase(name, 100, wrong) + "\n").unwrap();
    }
    let targets = vec![
        in_turns("dies", "exit 4"),
        in_turns("right", "cat $0.1 >> $out"),
        in_turns("hangs", "sleep 1000"),
        in_turns("wrong", &format!("cat $0.1 >> $out; {turn} exit 1")),
        home.engine("dies at once", "kill -9 $$"),
    ];
    let mut settings = home.settings(targets, 1);
    settings.suite.in_pieces = true;
    let finish = go(&settings);
    assert_eq!(finish, Finish { wrong: 1, failed: 3, interrupted: false });
    let ends = ends(&settings.results);
    let ended = |name: &str| ends.iter().find(|(engine, ..)| engine == name).map(|end| end.1);
    assert_eq!(ended("right"), Some(Ended::Done));
    assert_eq!(ended("wrong"), Some(Ended::Wrong));
    assert_eq!(ended("hangs"), Some(Ended::TimedOut));
    assert_eq!(ended("dies"), Some(Ended::Failed));
    assert_eq!(ended("dies at once"), Some(Ended::Killed));
    assert!(!settings.dir.exists(), "data is deleted");
}

#[test]
fn an_experiment_is_a_chart_over_what_it_varies() {
    let home = Home::new();
    let mut settings = home.settings(vec![home.right("cleave-hashkv", &[100, 300])], 1);
    let experiment = all().find(|experiment| experiment.name == "hashkv-2").unwrap();
    let runs = experiment.runs();
    let list = |at: usize| List {
        name: list_name(experiment, &runs[at].label),
        ..settings.suite.lists[0].clone()
    };
    settings.suite.lists = vec![list(0), list(2)];
    go(&settings);
    let shown = experiment.shows.first().copied().unwrap_or("hashkv-p3");
    let text = fs::read_to_string(&settings.results).unwrap();
    let text = text.replace("\"workload\":\"load\"", &format!("\"workload\":\"{shown}\""));
    fs::write(&settings.results, text).unwrap();
    let page = html::page(&results(&settings));
    let title = format!("{shown}: cleave-hashkv most, ");
    assert!(page.contains("id=\"papers\"") && page.contains(&title), "{page}");
    assert!(page.contains("at 30%") && page.contains(experiment.paper_says));
    // The fake engine counts neither bytes at a device nor steps of background work.
    let measured = |m: &&Metric| !matches!(m, Metric::BytesWritten | Metric::Step(_));
    let charts = page.matches("<figure>").count();
    assert_eq!(charts, experiment.metrics.iter().filter(measured).count(), "none for each run");
}
