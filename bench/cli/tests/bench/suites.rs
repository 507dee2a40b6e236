//! `bench` on many engines, and what is made of their results.

use serde_json::json;

use crate::common::Home;

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
    // The phases of the suite take longer than this, whatever the machine.
    let hurried = ["--no-peers", "--no-memory-limit", "--timeout", "1", "--repetitions", "2"];
    let hurried = [&hurried[..], &["--results", "r.jsonl", "--miniature", "1"]].concat();
    let ran = home.run(&[&["bench", "quick"][..], &hurried].concat());
    let text = String::from_utf8(ran.out).unwrap();
    assert_eq!(ran.code, Some(4), "{}", ran.err);
    for engine in ["cleave-lsm", "cleave"] {
        let ends = text.lines().filter(|line| line.contains("killed at its time limit"));
        let names = |line: &&str| line.split([' ', '|']).any(|word| word == engine);
        assert!(ends.filter(names).count() >= 2, "{text}");
    }
    assert!(!home.path("bench-data").exists());
    home.run(&[&["bench", "quick"][..], &hurried].concat()).fails(2, "--resume");
}

/// Needs root, or a control group of one's own: without, it proves nothing. At 16 MiB the process
/// was sometimes not killed but read its code from the disk again and again.
#[test]
fn the_memory_limit_ends_a_task_and_the_row_says_so() {
    let home = Home::new();
    let limited = ["bench", "quick", "--no-peers", "--engines", "wisckey", "--repetitions", "1"];
    let ran = home.run(
        &[&limited[..], &["--memory-limit", "8MiB", "--duration", "1", "--miniature", "1"]]
            .concat(),
    );
    let text = String::from_utf8(ran.out).unwrap();
    if text.contains("MEMORY IS NOT LIMITED") {
        return;
    }
    assert_eq!(ran.code, Some(4), "{}", ran.err);
    assert!(text.contains("killed at the memory limit"), "{text}");
    assert!(text.contains("KILLED BY THE MEMORY LIMIT of 8.00 MiB"), "{text}");
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

#[test]
fn what_is_of_one_preset_is_refused() {
    let home = Home::new();
    for (option, value) in
        [("place", "levels=new"), ("space-limit", "4GiB"), ("with", "level0=whole")]
    {
        let ran = home.run(&[&format!("--{option}"), value, "bench", "quick"]);
        ran.fails(2, &format!("--{option} is for one preset at a time"));
    }
}

/// One run fills `docs/figures.md` and draws its chart.
#[test]
fn a_document_has_its_tables_and_its_chart_from_a_run() {
    let home = Home::new();
    let small = ["--records", "3000", "-w", "load,update", "--results", "r.jsonl"];
    for preset in ["cleave", "hoakv", "lsm"] {
        home.run(&[&["--preset", preset, "bench"][..], &small].concat()).ok();
    }
    let files = ["--brief", "b.md", "--chart", "c.svg", "--baseline", "cleave-lsm"];
    home.run(&[&["bench", "report", "r.jsonl"][..], &files].concat()).ok();
    let read = |name: &str| std::fs::read_to_string(home.path(name)).unwrap();
    let header = read("b.md").lines().find(|line| line.starts_with("| list")).unwrap().to_owned();
    let cells: Vec<_> = header.trim_matches('|').split('|').map(str::trim).collect();
    assert_eq!(cells, ["list", "workload", "`cleave`", "`hoakv`", "best preset"]);
    assert!(read("c.svg").starts_with("<svg") && read("c.svg").contains("update"));
    let lists = home.run(&["bench", "suite", "--list"]).text();
    assert!(lists.contains("figures") && lists.contains("plain-1KiB"), "{lists}");
}
