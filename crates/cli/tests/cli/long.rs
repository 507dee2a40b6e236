//! The commands that bring their own data: tour and bench.

use serde_json::json;

use crate::common::Home;

fn planted() -> Home {
    let home = Home::new();
    for number in 0..60 {
        let line = format!("file {number} holds {}\n", number * number);
        home.file(format!("tree/{}/{number}.txt", number % 7), line.repeat(200).as_bytes());
    }
    home.file("tree/empty", b"");
    home
}

#[test]
fn the_tour_shows_a_tree_that_stays_whole() {
    let home = planted();
    for preset in ["wisckey", "lsm", "hashkv", "ktstore"] {
        let text = home.run(&["tour", "tree", "--preset", preset]).text();
        for needed in
            ["put", "get", "scan", "update", "collect", "check", "amplification", "byte for byte"]
        {
            assert!(text.contains(needed), "{needed} is not in:\n{text}");
        }
        assert!(!home.path("cleave.db").exists());
    }
}

#[test]
fn the_tour_speaks_json_and_leaves_what_it_is_told_to_keep() {
    let home = planted();
    let steps = home.run(&["--json", "tour", "tree", "--keep", "kept", "--rounds", "2"]).json();
    let summary = steps.last().unwrap();
    assert_eq!((&summary["files"], &summary["differences"]), (&json!(61), &json!(0)));
    assert!(summary["write_amplification"].as_f64().unwrap() >= 1.0);
    let (before, after) =
        (&summary["space_amplification_before"], &summary["space_amplification_after"]);
    // What was dead went with its log files before; a collection has little left to win.
    assert!(after.as_f64().unwrap() < before.as_f64().unwrap() + 0.01, "{summary}");
    let value = home.run(&["--db", "kept", "get", "0/0.txt"]).text();
    assert!(value.ends_with("updated in round 2\n"), "{value}");
    home.run(&["--db", "kept", "check"]).ok();
    home.run(&["tour", "tree", "--keep", "kept"]).fails(2, "needs a new directory");
    home.run(&["tour", "gone"]).fails(4, "gone");
    std::fs::create_dir(home.path("bare")).unwrap();
    home.run(&["tour", "bare"]).fails(2, "no files");
}

#[test]
fn bench_runs_on_every_preset_and_cleans_up() {
    let home = Home::new();
    let small = ["--records", "3000", "--operations", "1000", "-w", "load,ycsb-a,ycsb-e"];
    for preset in ["wisckey", "lsm", "hashkv", "ktstore"] {
        let args = [&["--preset", preset, "bench"][..], &small].concat();
        let text = home.run(&args).text();
        assert!(text.contains("ycsb-e") && text.contains("verified"), "{text}");
        assert_eq!(std::fs::read_dir(home.path(".")).unwrap().count(), 0);
    }
    let args = [&["--json", "bench", "--durability", "buffered"][..], &small].concat();
    let lines = home.run(&args).json();
    assert_eq!(lines.len(), 5, "the run, three workloads and the verification");
    assert_eq!(lines[0]["kind"], json!("run"));
    assert_eq!(lines[1]["engine"], json!("cleave-ktstore"));
    assert_eq!(lines[4]["wrong"], json!(0));
    home.run(&[&args[..], &["--results", "kept"]].concat()).ok();
    let kept = std::fs::read_to_string(home.path("kept")).unwrap();
    assert_eq!(kept.lines().count(), 5, "they are kept as well: {kept}");
    let recorded = home.run(&[&args[..], &["--record", "asked"]].concat());
    let notes: Vec<_> = recorded.err.lines().filter(|line| line.contains("asked")).collect();
    assert!(!notes.is_empty() && notes.iter().all(|n| n.starts_with('{')), "{}", recorded.err);
    assert!(home.run(&["bench", "--list"]).text().contains("ycsb-f"));
    home.run(&["bench", "-w", "nonsense"]).fails(2, "no workload");
    home.run(&["bench", "--records", "1000", "-w", "load", "--keep", "--results", "r"]).ok();
    assert!(home.path("bench-data/cleave-ktstore").is_dir() && home.path("r").is_file());
}

#[test]
fn bench_takes_options_of_the_engine_and_refuses_others() {
    let home = Home::new();
    let load = ["bench", "--records", "500", "-w", "load", "--results", "r", "--disk"];
    let with = |option| [&load[..], &["--option", option]].concat();
    home.run(&with("threshold=2KiB")).ok();
    let results = std::fs::read_to_string(home.path("r")).unwrap();
    assert!(results.contains("values of at least 2048 B"), "{results}");
    assert!(results.contains(r#"{"kind":"disk","#), "{results}");
    assert!(results.contains("latency_buckets") && results.contains("space_budget"));
    home.run(&[&load[..], &["--miniature", "8"]].concat()).ok();
    let results = std::fs::read_to_string(home.path("r")).unwrap();
    assert!(results.contains(r#""records":62"#) && results.contains("8.00 MiB and 2 full"));
    home.run(&[&load[..], &["--miniature", "0"]].concat()).fails(2, "--miniature");
    home.run(&with("hot-store=1GiB")).fails(2, "no option hot-store");
    home.run(&with("threshold=much")).fails(2, "threshold");
    home.run(&with("hoakv.hot-store=1GiB")).ok();
    home.run(&with("ktstore.threshold=much")).fails(2, "threshold");
    home.run(&with("hokv.hot-store=1GiB")).fails(2, "no option hokv.hot-store");
    let lsm = [&["--preset", "lsm"][..], &with("threshold=2KiB")].concat();
    home.run(&lsm).fails(2, "no option threshold");
    let hashkv = |option| [&["--preset", "hashkv"][..], &with(option)].concat();
    for option in [
        "victim-policy=greedy-random:2",
        "log-segment=64KiB",
        "reserved-space=20%",
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
fn bench_runs_on_a_modelled_device() {
    let home = Home::new();
    let load = ["bench", "--records", "500", "-w", "load,readrandom", "--results", "r"];
    let with = |device| [&load[..], &["--device", device]].concat();
    home.run(&[&with("nvme:50")[..], &["--option", "page-cache=0"]].concat()).ok();
    let results = std::fs::read_to_string(home.path("r")).unwrap();
    assert!(results.contains("modelled nvme, 50 times as fast, page cache 0 B"), "{results}");
    assert!(results.contains("modelled_bytes_written"), "{results}");
    home.run(&with("floppy")).fails(2, "hdd, sata, nvme");
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
    std::fs::write(home.path("text"), "no trace").unwrap();
    home.run(&["trace", "show", "text"]).fails(2, "is no trace");
}

#[test]
fn results_become_a_report() {
    let home = Home::new();
    let small = ["--records", "3000", "-w", "load,update", "--results", "r.jsonl"];
    for preset in ["wisckey", "lsm"] {
        home.run(&[&["--preset", preset, "bench"][..], &small].concat()).ok();
    }
    let pages = ["--out", "r.html", "--markdown", "r.md", "--baseline", "cleave-lsm"];
    let text = home.run(&[&["bench", "report", "r.jsonl"][..], &pages].concat()).text();
    assert!(text.contains("x cleave-lsm") && text.contains("WITHOUT A MEMORY LIMIT"), "{text}");
    let read = |name: &str| std::fs::read_to_string(home.path(name)).unwrap();
    assert!(read("r.html").contains("<svg") && read("r.md").contains("Settings of cleave-wisckey"));
    let rows = home.run(&["--json", "bench", "report", "r.jsonl"]).json();
    let names: Vec<_> = rows.iter().map(|row| (&row["workload"], &row["engine"])).collect();
    assert_eq!(names[0], (&json!("load"), &json!("cleave-wisckey")));
    assert_eq!(rows.len(), 4);
    home.run(&["bench", "report", "gone.jsonl"]).fails(4, "gone.jsonl");
}

#[test]
fn a_suite_outlives_its_engines() {
    let home = Home::new();
    // Its phases take longer than this, whatever the machine.
    let hurried = ["--no-peers", "--no-memory-limit", "--timeout", "1", "--repetitions", "2"];
    let hurried = [&hurried[..], &["--results", "r.jsonl", "--miniature", "1"]].concat();
    let ran = home.run(&[&["bench", "quick"][..], &hurried].concat());
    let text = String::from_utf8(ran.out).unwrap();
    assert_eq!(ran.code, Some(4), "{}", ran.err);
    for engine in ["cleave-lsm", "cleave-ktstore"] {
        let ends = text.lines().filter(|line| line.contains("killed at its time limit"));
        assert!(ends.filter(|line| line.contains(engine)).count() >= 2, "{text}");
    }
    assert!(!home.path("bench-data").exists());
    home.run(&[&["bench", "quick"][..], &hurried].concat()).fails(2, "--resume");
}

/// Needs root, or a control group of one's own: without, it proves nothing.
#[test]
fn the_memory_limit_ends_a_task_and_the_row_says_so() {
    let home = Home::new();
    let limited = ["bench", "quick", "--no-peers", "--engines", "wisckey", "--repetitions", "1"];
    let ran = home.run(
        &[&limited[..], &["--memory-limit", "16MiB", "--duration", "1", "--miniature", "1"]]
            .concat(),
    );
    let text = String::from_utf8(ran.out).unwrap();
    if text.contains("MEMORY IS NOT LIMITED") {
        return;
    }
    assert_eq!(ran.code, Some(4), "{}", ran.err);
    assert!(text.contains("killed at the memory limit"), "{text}");
    assert!(text.contains("KILLED BY THE MEMORY LIMIT of 16.0 MiB"), "{text}");
    assert!(!home.path("bench-data").exists());
}

#[test]
fn what_a_suite_may_be_called_is_said() {
    let home = Home::new();
    let text = home.run(&["bench", "suite", "--list"]).text();
    assert!(text.contains("basic-1KiB") && text.contains("ycsb"), "{text}");
    home.run(&["bench", "suite", "--config", "nonsense"]).fails(2, "known: full");
    home.run(&["bench", "papers", "nonsense"]).fails(2, "wisckey");
    let papers = home.run(&["bench", "papers", "--list"]).text();
    assert!(papers.contains("kt-store:") && papers.contains("hashkv-2 "), "{papers}");
    let twice = ["bench", "quick", "--no-peers", "--engines", "lsm,cleave-lsm"];
    home.run(&twice).fails(2, "named twice");
    let engines = ["bench", "quick", "--no-peers", "--engines", "nonsense"];
    home.run(&engines).fails(2, "cleave-wisckey");
    home.run(&["bench", "quick", "--peers", "nonsense"]).fails(2, "nonsense");
    home.run(&["bench", "quick", "-w", "load"]).fails(2, "-w");
    home.run(&["bench", "quick", "--no-peers", "--resume"]).fails(2, "--miniature");
    // Quiet is understood behind the command, too, although `bench` has an argument of that name.
    assert_eq!(home.run(&["bench", "suite", "--list", "-q"]).text(), text);
    home.run(&["bench", "-w", "load", "quick"]).fails(2, "quick");
}
