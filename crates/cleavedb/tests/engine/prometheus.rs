//! The text for Prometheus, read by the rules of its format, strictly.

use std::collections::{BTreeMap, BTreeSet};

use cleavedb::{Db, Durability, Preset};
use cleavedb_testkit::{Churn, Disks, Setup, session};

/// A sample: its name, its labels, and its value.
type Sample<'t> = (&'t str, BTreeMap<String, String>, f64);

fn is_name(name: &str) -> bool {
    let rest = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(rest)
}

/// Reads the labels between braces.
fn labels(mut text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").expect("a label has a value in quotes");
        assert!(is_name(name) && !name.starts_with("__"), "{name}");
        let (mut value, mut chars) = (String::new(), rest.char_indices());
        let end = loop {
            match chars.next().expect("a value ends with a quote") {
                (at, '"') => break at,
                (_, '\\') => value.push(match chars.next() {
                    Some((_, 'n')) => '\n',
                    Some((_, c @ ('\\' | '"'))) => c,
                    other => panic!("{other:?} behind a backslash"),
                }),
                (_, c) => value.push(c),
            }
        };
        assert!(found.insert(name.to_owned(), value).is_none(), "{name} twice");
        text = &rest[end + 1..];
        text = text.strip_prefix(',').inspect(|next| assert!(!next.is_empty())).unwrap_or(text);
    }
    found
}

fn sample(line: &str) -> Sample<'_> {
    let (front, value) = line.rsplit_once(' ').unwrap();
    let (name, inside) = match front.split_once('{') {
        Some((name, rest)) => (name, rest.strip_suffix('}').expect("a brace closes")),
        None => (front, ""),
    };
    assert!(is_name(name), "{line}");
    (name, labels(inside), value.parse().unwrap_or_else(|_| panic!("{line}")))
}

/// Reads a text and checks the rules: each metric has one HELP, then one TYPE, then all its
/// samples; none twice; names fit kinds; histograms ascend and end with their count.
fn read(text: &str) -> Vec<Sample<'_>> {
    assert!(text.ends_with('\n') && !text.contains("\n\n"));
    let (mut seen, mut metrics, mut samples) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    let (mut help, mut current) = (None, ("", ""));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, words) = rest.split_once(' ').unwrap();
            assert!(is_name(name) && !words.is_empty() && metrics.insert(name), "{line}");
            help = Some(name);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(help.take(), Some(name), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            current = (name, kind);
        } else {
            let read = sample(line);
            let end = read.0.strip_prefix(current.0).unwrap_or_else(|| panic!("{line}"));
            let ends: &[&str] = match current.1 {
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            assert!(ends.contains(&end) && read.2 >= 0.0, "{line}");
            assert_eq!(end == "_bucket", read.1.contains_key("le"), "{line}");
            assert!(seen.insert((read.0, format!("{:?}", read.1))), "{line}");
            samples.push(read);
        }
    }
    assert!(samples.iter().all(|(name, ..)| name.starts_with("cleavedb_")));
    buckets_ascend(&samples);
    samples
}

fn buckets_ascend(samples: &[Sample<'_>]) {
    let mut last: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for (name, labels, value) in samples {
        let operation = labels.get("operation").cloned().unwrap_or_default();
        if name.ends_with("_bucket") {
            let bound: f64 = labels["le"].parse().unwrap();
            let before = last.insert(operation, (bound, *value));
            let (less, fewer) = before.unwrap_or((0.0, 0.0));
            assert!(bound > less && *value >= fewer, "{labels:?}");
        } else if name.ends_with("_seconds_count") {
            assert_eq!(last[&operation], (f64::INFINITY, *value));
        }
    }
}

fn value(samples: &[Sample<'_>], name: &str, label: &[(&str, &str)]) -> f64 {
    let has = |labels: &BTreeMap<String, String>| {
        label.iter().all(|(name, value)| labels.get(*name).is_some_and(|own| own == value))
    };
    let mut found = samples.iter().filter(|(own, labels, _)| *own == name && has(labels));
    let (_, _, value) = found.next().unwrap_or_else(|| panic!("no {name} {label:?}"));
    assert!(found.next().is_none(), "several {name} {label:?}");
    *value
}

fn worked(setup: &Setup) -> Db {
    let db = session::open_all(&Disks::new(setup).storages(), setup).unwrap();
    Churn::new(3).work(&db, 300);
    db
}

#[test]
fn the_text_follows_the_format_and_has_the_figures_under_every_design() {
    for mut setup in Setup::designs() {
        setup.options.latency_sampling = 1;
        let db = worked(&setup);
        db.put_with("key", "value", Durability::Sync).unwrap();
        let metrics = db.metrics();
        let text = metrics.to_prometheus(&[]);
        let samples = read(&text);
        let figure = |name, label: &[_]| value(&samples, name, label);
        assert_eq!(figure("cleavedb_writes_total", &[]), metrics.writes as f64, "{setup}");
        assert_eq!(figure("cleavedb_lifetime_sessions", &[]), 1.0, "{setup}");
        let flush = [("cause", "flush")];
        let written = figure("cleavedb_written_bytes_total", &flush);
        assert_eq!(written, metrics.flush_written as f64, "{setup}");
        let synced = [("operation", "synced_write")];
        assert!(figure("cleavedb_operation_seconds_count", &synced) >= 1.0, "{setup}");
        assert!(figure("cleavedb_operation_seconds_sum", &synced) > 0.0, "{setup}");
        let level = [("level", "1")];
        let tables = metrics.levels.iter().find(|level| level.level == 1).map(|l| l.tables);
        if let Some(tables) = tables {
            assert_eq!(figure("cleavedb_level_tables", &level), tables as f64, "{setup}");
        }
    }
}

#[test]
fn labels_are_written_so_that_they_can_be_read() {
    let db = worked(&Setup::tiny(Preset::Lsm, true));
    let odd = "a \"quoted\" \\ path\nof two lines, {é}=";
    let text = db.metrics().to_prometheus(&[("db", odd), ("9 é", "")]);
    for (name, labels, _) in read(&text) {
        assert_eq!((labels["db"].as_str(), labels["_9__"].as_str()), (odd, ""), "{name}");
    }
    assert!(!text.contains("operation_seconds"), "no latencies were measured");
}
