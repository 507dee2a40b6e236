//! Metrics: what Prometheus asks of their names, kinds and labels, and what counters are.

use std::collections::{BTreeMap, BTreeSet};

use crate::Server;

/// The figures of a text by their names and labels, each with its kind.
type Series<'a> = BTreeMap<&'a str, (&'a str, f64)>;

/// The labels between braces, by name; none if they are not in the form of Prometheus.
fn labels(text: &str) -> Option<BTreeMap<&str, String>> {
    let (mut found, mut rest) = (BTreeMap::new(), text);
    while !rest.is_empty() {
        let (name, behind) = rest.split_once("=\"")?;
        let (mut value, mut chars) = (String::new(), behind.chars());
        loop {
            match chars.next()? {
                '"' => break,
                '\\' => value.push(match chars.next()? {
                    'n' => '\n',
                    same @ ('\\' | '"') => same,
                    _ => return None,
                }),
                other => value.push(other),
            }
        }
        found.insert(name, value);
        rest = chars.as_str();
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    Some(found)
}

/// What a metric of a kind may be called.
fn is_name(name: &str, kind: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let units = ["millis", "micros", "nanos", "kib", "mib", "minutes"];
    name.chars().all(is_part)
        && name.starts_with("cleavedb_")
        && name.ends_with("_total") == (kind == "counter")
        && !name.split('_').any(|word| units.iter().any(|unit| word.starts_with(unit)))
}

/// The figures of a text, each below its help and its kind.
fn series(text: &str) -> Series<'_> {
    let (mut found, mut names, mut of) = (Series::new(), BTreeSet::new(), ("", ""));
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(names.insert(name) && help.ends_with('.'), "{line}");
            of = (name, "");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(name == of.0 && is_name(name, kind), "{line}");
            of = (name, kind);
        } else {
            let (place, value) = line.rsplit_once(' ').unwrap();
            let (name, all) = place.split_once('{').unwrap_or((place, "}"));
            let labels = labels(all.strip_suffix('}').unwrap()).expect(line);
            let ends = match of.1 {
                "summary" if !labels.contains_key("quantile") => &["_sum", "_count"][..],
                "histogram" if labels.contains_key("le") => &["_bucket"],
                "histogram" => &["_sum", "_count"],
                _ => &[""],
            };
            assert!(ends.contains(&name.strip_prefix(of.0).unwrap()), "{line}");
            assert!(of.1 == "summary" || !labels.contains_key("quantile"), "{line}");
            let value = value.parse().unwrap();
            assert!(found.insert(place, (of.1, value)).is_none(), "twice: {line}");
        }
    }
    found
}

#[test]
fn metrics_are_as_prometheus_wants_them_and_what_counts_never_falls() {
    let server = Server::start(|config| config.store = vec!["latency_sampling=1".to_owned()]);
    let script = r#"return redis.error_reply([[IT'S"a\é bad]])"#;
    let script = format!("*3\r\n$4\r\nEVAL\r\n${}\r\n{script}\r\n$1\r\n0\r\n", script.len());
    let calls = format!("{script}SET a 1\r\nGET a\r\nSCAN 0\r\nPING\r\nINCR b c\r\nSAVE");
    server.redis(&calls);
    let before = server.get("/metrics", &[]).body;
    let before = series(&before);
    let word = r#"cleavedb_server_errors_total{word="IT'S\"a\\é"}"#;
    assert_eq!(before.get(word), Some(&("counter", 1.0)), "{before:#?}");
    server.redis(&calls);
    let after = server.get("/metrics", &[]).body;
    let after = series(&after);
    let counts = before.iter().filter(|(name, (kind, _))| {
        *kind == "counter" || *kind != "gauge" && !name.contains("quantile=")
    });
    let (mut counted, mut grown) = (0, 0);
    for (name, (_, count)) in counts {
        let (_, later) = after.get(name).expect(name);
        assert!(later >= count, "{name}");
        (counted, grown) = (counted + 1, grown + u32::from(later > count));
    }
    assert!(counted > 100 && grown > 20, "{counted} {grown}");
    let calls = "cleavedb_server_call_seconds_count{group=\"writes\"}";
    assert_eq!((before[calls].1, after[calls].1), (1.0, 2.0));
}

/// The names of metrics in a text.
fn metric_names(text: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
    let words = text.split(|c| !is_part(c));
    words.filter(|word| word.starts_with("cleavedb_")).collect()
}

#[test]
fn the_dashboard_asks_for_metrics_that_are_there() {
    let server = Server::start(|_| {});
    server.redis("SET a 1\r\nGET a");
    let metrics = server.get("/metrics", &[]).body;
    let known = metric_names(&metrics);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/grafana.json");
    let dashboard = std::fs::read_to_string(path).unwrap();
    let asked = metric_names(&dashboard);
    assert!(asked.len() > 15, "{asked:?}");
    let missing: Vec<_> = asked.difference(&known).collect();
    assert!(missing.is_empty(), "{missing:?}");
    serde_json::from_str::<serde_json::Value>(&dashboard).unwrap();
}
