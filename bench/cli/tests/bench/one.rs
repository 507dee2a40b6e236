//! `bench` on one preset, and `trace`.

use std::fs;

use serde_json::json;

use crate::common::Home;

#[test]
fn help_of_a_command_shows_its_own_options_and_the_way_to_the_others() {
    let home = Home::new();
    let quick = home.run(&["bench", "quick", "-h"]).text();
    assert!(quick.contains("cleave-bench --help") && !quick.contains("--space-limit"), "{quick}");
    assert!(home.run(&["bench", "--help"]).text().contains("Examples:"));
    assert!(home.run(&["--help"]).text().contains("--space-limit"));
    assert!(home.run(&["completions", "bash"]).text().contains("cleave-bench"));
}

/// A run ended by an abort once the reader of standard error had gone away.
#[test]
fn every_command_ends_quietly_without_a_reader() {
    let home = Home::new();
    let small = "--records 2000 --operations 500";
    for command in [
        &format!("bench {small} -w load,ycsb-a --results kept"),
        &format!("--json bench {small} -w load"),
        &format!("bench {small} -w load --quiet"),
        &format!("trace record --out trace {small} -w ycsb-a"),
        "trace show trace",
        "bench report kept",
        "bench --list",
        "bench --self-check -w load",
        "bench suite --list",
        "bench papers --list",
        "bench features --list",
        "bench --help",
        "completions bash",
        "man",
    ] {
        let args: Vec<_> = command.split_whitespace().collect();
        assert_eq!(home.run_unheard(&args), Some(0), "{command}");
    }
}

#[test]
fn bench_runs_on_every_preset_and_cleans_up() {
    let home = Home::new();
    let small = ["--records", "3000", "--operations", "1000", "-w", "load,ycsb-a,ycsb-e"];
    for preset in ["wisckey", "lsm", "hashkv", "cleave"] {
        let args = [&["--preset", preset, "bench"][..], &small].concat();
        let text = home.run(&args).text();
        assert!(text.contains("ycsb-e") && text.contains("verified"), "{text}");
        assert_eq!(fs::read_dir(home.path(".")).unwrap().count(), 0);
    }
    let args = [&["--json", "bench", "--durability", "buffered"][..], &small].concat();
    let lines = home.run(&args).json();
    assert_eq!(lines.len(), 5, "the run, three workloads and the verification");
    assert_eq!(lines[0]["kind"], json!("run"));
    assert_eq!(lines[1]["engine"], json!("cleave"));
    assert_eq!(lines[4]["wrong"], json!(0));
    home.run(&[&args[..], &["--results", "kept"]].concat()).ok();
    let kept = fs::read_to_string(home.path("kept")).unwrap();
    assert_eq!(kept.lines().count(), 5, "they are kept as well: {kept}");
    let recorded = home.run(&[&args[..], &["--record", "asked"]].concat());
    let notes: Vec<_> = recorded.err.lines().filter(|line| line.contains("asked")).collect();
    assert!(!notes.is_empty() && notes.iter().all(|n| n.starts_with('{')), "{}", recorded.err);
    assert!(home.run(&["bench", "--list"]).text().contains("ycsb-f"));
    home.run(&["bench", "-w", "nonsense"]).fails(2, "no workload");
    home.run(&["bench", "--records", "1000", "-w", "load", "--keep", "--results", "r"]).ok();
    assert!(home.path("bench-data/cleave").is_dir() && home.path("r").is_file());
}

/// A regression: `--with` made the process look at its memory before that was limited. Needs root,
/// or a control group of one's own: without, it proves nothing.
#[test]
fn a_store_has_a_third_of_the_memory_limit_whatever_else_is_set() {
    let home = Home::new();
    let limited = ["bench", "--memory-limit", "300MiB", "--records", "500", "-w", "load"];
    for with in [&[][..], &["--with", "filter_bits=12"]] {
        home.run(&[with, &limited, &["--results", "r"]].concat()).ok();
        let results = fs::read_to_string(home.path("r")).unwrap();
        let is_limited = !results.contains("MEMORY IS NOT LIMITED");
        assert!(!is_limited || results.contains(r#"["memory","100 MiB"]"#), "{results}");
        fs::remove_file(home.path("r")).unwrap();
    }
}

#[test]
fn bench_takes_options_of_the_engine_and_refuses_others() {
    let home = Home::new();
    let load = ["bench", "--records", "500", "-w", "load", "--results", "r", "--disk"];
    let with = |option| [&load[..], &["--option", option]].concat();
    home.run(&with("threshold=2KiB")).ok();
    let results = fs::read_to_string(home.path("r")).unwrap();
    assert!(results.contains("values of at least 2048 B"), "{results}");
    assert!(results.contains(r#"{"kind":"disk","#), "{results}");
    assert!(results.contains("latency_buckets") && results.contains("space_budget"));
    home.run(&[&load[..], &["--miniature", "8"]].concat()).ok();
    let results = fs::read_to_string(home.path("r")).unwrap();
    assert!(results.contains(r#""records":62"#) && results.contains("8.00 MiB and 2 full"));
    home.run(&[&load[..], &["--miniature", "0"]].concat()).fails(2, "--miniature");
    home.run(&with("hot-store=1GiB")).fails(2, "no option hot-store");
    home.run(&with("threshold=much")).fails(2, "threshold");
    home.run(&with("hoakv.hot-store=1GiB")).ok();
    home.run(&with("cleave.threshold=much")).fails(2, "threshold");
    home.run(&[&with("one-group=on")[..], &["--option", "open-files=20"]].concat()).ok();
    let results = fs::read_to_string(home.path("r")).unwrap();
    assert!(results.contains(r#"["open tables","20"]"#), "{results}");
    assert!(results.contains("one at first, of 64.0 MiB"), "{results}");
    home.run(&with("one-group=maybe")).fails(2, "there are on and off");
    home.run(&with("hokv.hot-store=1GiB")).fails(2, "no option hokv.hot-store");
    let lsm = [&["--preset", "lsm"][..], &with("threshold=2KiB")].concat();
    home.run(&lsm).fails(2, "no option threshold");
    let hashkv = |option| [&["--preset", "hashkv"][..], &with(option)].concat();
    for option in [
        "victim-policy=greedy-random:2",
        "log-segment=64KiB",
        "reserved-space=20%",
        "hashkv.space-goal=100%",
        "tagging=on",
        "cold-log=unlimited",
    ] {
        home.run(&hashkv(option)).ok();
    }
    home.run(&hashkv("tagging=yes")).fails(2, "on and off");
    home.run(&hashkv("cold-log=none")).fails(2, "counted and unlimited");
    home.run(&with("tagging=on")).fails(2, "no option tagging");
    home.run(&hashkv("victim-policy=oldest")).fails(2, "cost-benefit");
    home.run(&hashkv("victim-policy=greedy-random:0")).fails(2, "greedy-random[:D]");
    home.run(&with("log-segment=64KiB")).fails(2, "no option log-segment");
}

#[test]
fn a_trace_is_recorded_shown_and_replayed() {
    let home = Home::new();
    let small = ["-w", "load,ycsb-a", "--records", "1000"];
    let drawn = [&["trace", "record", "--out", "drawn"][..], &small].concat();
    assert!(home.run(&drawn).text().contains("1,500 operations"));
    let text = home.run(&["trace", "show", "drawn"]).text();
    assert!(text.contains("1,500 operations on 1,000 keys"), "{text}");
    let asked = [&["bench", "--record", "asked", "--no-verify"][..], &small].concat();
    home.run(&asked).ok();
    let summary = home.run(&["--json", "trace", "show", "asked"]).json();
    assert_eq!(summary[0]["operations"], json!(1500));
    assert_eq!(summary[0]["value_bytes"]["most"], json!(1024));
    for trace in ["drawn", "asked"] {
        let text = home.run(&["bench", "--trace", trace, "--threads", "2"]).text();
        assert!(text.contains("trace") && text.contains("verified: 1,000 records"), "{text}");
    }
    home.run(&["bench", "--trace", "gone"]).fails(4, "gone");
    home.run(&["bench", "-w", "trace"]).fails(2, "--trace");
    fs::write(home.path("text"), "no trace").unwrap();
    home.run(&["trace", "show", "text"]).fails(2, "is no trace");
}

#[test]
fn what_a_database_has_of_the_machine_is_shown_at_the_end() {
    let home = Home::new();
    let bench = ["bench", "-q", "-w", "load", "--records", "1k", "--dir", "data"];
    let text = home.run(&bench).text();
    assert!(text.contains("at the end: log window ") && text.contains("768 MiB of"), "{text}");
}

#[test]
fn a_benchmark_says_how_level_0_was_kept() {
    for (way, told) in [
        ("whole", "Whole, "),
        ("partitions", "Partitions(10), "),
        ("partitions:4", "Partitions(4), "),
        ("hyperleveldb", "HyperLevelDb, "),
    ] {
        let home = Home::new();
        let bench = ["bench", "--records", "500", "-w", "load,readrandom", "--results", "r"];
        let option = format!("level0={way}");
        home.run(&[&["--preset", "lsm"], &bench[..], &["--option", &option]].concat()).ok();
        let results = fs::read_to_string(home.path("r")).unwrap();
        assert!(results.contains(&format!(r#"["level 0","{told}"#)), "{way}: {results}");
    }
    let home = Home::new();
    let option = ["bench", "-w", "load", "--option", "level0=halves"];
    home.run(&option).fails(2, "--option level0=halves: there are whole");
}
