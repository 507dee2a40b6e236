//! The text of `INFO`: sections and names as Redis has them, where there is a true value.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use cleavedb::metrics::StallCause;
use cleavedb_named::decisions;

use super::ServerFigures;
use super::advice::advice;
use super::stalls::StallSum;
use super::times::CallSums;
use crate::command::table::COMMANDS;
use crate::config::AppendFsync;

/// The version of Redis whose commands these are, for clients that ask.
pub const REDIS_VERSION: &str = "7.0.15";

/// About how many keys a database has.
#[derive(Clone, Copy, Debug)]
pub struct DatabaseKeys {
    /// The number of the database.
    pub database: usize,
    /// Number of keys.
    pub keys: u64,
    /// Whether they were not counted one by one.
    pub is_estimate: bool,
}

type Lines = Vec<(String, String)>;

/// A section: its name, whether it is shown without being asked for, and its lines.
struct InfoSection<'a> {
    name: &'static str,
    is_default: bool,
    lines: &'a dyn Fn() -> Lines,
}

/// The sections that were asked for; without words, those that Redis shows by default.
pub fn text(figures: &ServerFigures<'_>, keys: &[DatabaseKeys], asked: &[&[u8]]) -> String {
    let says = |word: &str| asked.iter().any(|asked| asked.eq_ignore_ascii_case(word.as_bytes()));
    let (everything, default) =
        (says("all") || says("everything"), asked.is_empty() || says("default"));
    let section = |name, lines| InfoSection { name, is_default: true, lines };
    let on_request = |name, lines| InfoSection { name, is_default: false, lines };
    let rows = || figures.observer.rows();
    let mut text = String::new();
    for InfoSection { name, is_default, lines } in [
        section("Server", &|| server(figures)),
        section("Clients", &|| clients(figures)),
        section("Memory", &|| memory(figures)),
        section("Persistence", &|| persistence(figures)),
        section("Stats", &|| stats(figures)),
        section("Replication", &|| named([("role", "master"), ("connected_slaves", "0")])),
        section("CPU", &|| cpu(figures)),
        on_request("Commandstats", &|| command_stats(&rows())),
        section("Errorstats", &|| error_stats(figures)),
        on_request("Latencystats", &|| latency_stats(&rows())),
        section("Cluster", &|| named([("cluster_enabled", "0")])),
        section("Keyspace", &|| keyspace(keys)),
        section("CleaveDB", &|| own(figures)),
    ] {
        if everything || default && is_default || says(name) {
            let between = if text.is_empty() { "" } else { "\r\n" };
            // Writing to a string does not fail.
            let _ = write!(text, "{between}# {name}\r\n");
            lines().iter().for_each(|(name, value)| _ = write!(text, "{name}:{value}\r\n"));
        }
    }
    text
}

/// Lines with these names and values.
fn named<V: ToString>(lines: impl IntoIterator<Item = (&'static str, V)>) -> Lines {
    lines.into_iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect()
}

/// A size, and the same for people, as Redis writes it.
fn size(name: &str, bytes: u64) -> [(String, String); 2] {
    let mut number = bytes as f64;
    let units = ["B", "K", "M", "G", "T"];
    let at = units.iter().take_while(|_| {
        let is_large = number >= 1024.0;
        number /= if is_large { 1024.0 } else { 1.0 };
        is_large
    });
    let unit = units[at.count().min(units.len() - 1)];
    let human = if unit == "B" { format!("{bytes}B") } else { format!("{number:.2}{unit}") };
    [(name.to_owned(), bytes.to_string()), (format!("{name}_human"), human)]
}

fn server(figures: &ServerFigures<'_>) -> Lines {
    let port = figures.config.listen.first().map_or(0, |address| address.port());
    let uptime = figures.observer.uptime().as_secs();
    named([
        ("redis_version", REDIS_VERSION.to_owned()),
        ("cleavedb_version", env!("CARGO_PKG_VERSION").to_owned()),
        ("redis_mode", "standalone".to_owned()),
        ("os", std::env::consts::OS.to_owned()),
        ("arch_bits", usize::BITS.to_string()),
        ("process_id", std::process::id().to_string()),
        ("tcp_port", port.to_string()),
        ("uptime_in_seconds", uptime.to_string()),
        ("uptime_in_days", (uptime / 86_400).to_string()),
    ])
}

fn clients(figures: &ServerFigures<'_>) -> Lines {
    named([
        ("connected_clients", figures.clients.len()),
        ("maxclients", figures.config.max_clients as usize),
        ("blocked_clients", figures.blocked),
    ])
}

fn memory(figures: &ServerFigures<'_>) -> Lines {
    let mut lines = Lines::from(size("used_memory", figures.store_memory()));
    if let Some(process) = figures.process {
        lines.extend(size("used_memory_rss", process.resident));
        lines.extend(size("used_memory_rss_peak", process.resident_peak));
        lines.extend(size("total_system_memory", process.machine_memory));
    }
    lines.extend(size("maxmemory", figures.metrics.memory_limit));
    lines.extend(named([("maxmemory_policy", "noeviction"), ("mem_allocator", "mimalloc")]));
    let (libraries, functions) = figures.libraries;
    lines.extend(named([
        ("number_of_cached_scripts", figures.scripts),
        ("number_of_functions", functions),
        ("number_of_libraries", libraries),
    ]));
    lines
}

fn persistence(figures: &ServerFigures<'_>) -> Lines {
    let status = |is_well| if is_well { "ok" } else { "err" };
    let yes = |is_so: bool| if is_so { "1" } else { "0" };
    let saves = figures.saves;
    let started = figures.observer.started.as_secs();
    let last_save = saves.last().map_or(started, |millis| millis / 1000).to_string();
    named([
        ("loading", "0"),
        ("rdb_bgsave_in_progress", yes(saves.is_saving())),
        ("rdb_last_save_time", &*last_save),
        ("rdb_last_bgsave_status", status(!saves.has_failed())),
        ("aof_rewrite_in_progress", yes(saves.is_collecting())),
        ("aof_enabled", "1"),
        ("aof_last_write_status", status(figures.metrics.poisoned.is_none())),
        (
            "cleavedb_synced",
            match figures.config.appendfsync {
                AppendFsync::Always => "always",
                AppendFsync::Everysec => "everysec",
                AppendFsync::No => "no",
            },
        ),
    ])
}

fn stats(figures: &ServerFigures<'_>) -> Lines {
    let observer = figures.observer;
    let number = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let second = |history: &super::history::CallHistory| {
        history.seconds().next_back().map_or(0, |groups| groups.iter().sum())
    };
    named([
        ("total_connections_received", number(&observer.connections)),
        ("total_commands_processed", number(&observer.commands)),
        ("instantaneous_ops_per_sec", observer.history(second)),
        ("total_net_input_bytes", number(&observer.received)),
        ("total_net_output_bytes", number(&observer.sent)),
        ("rejected_connections", number(&observer.refused)),
        ("evicted_keys", 0),
        ("total_error_replies", observer.errors().values().sum()),
        ("cleavedb_commands_in_pool", number(&observer.in_pool)),
    ])
}

fn cpu(figures: &ServerFigures<'_>) -> Lines {
    let lines = figures.process.map(|process| {
        [("used_cpu_sys", process.system), ("used_cpu_user", process.user)]
            .map(|(name, time)| (name, format!("{:.6}", time.as_secs_f64())))
    });
    named(lines.into_iter().flatten())
}

/// The commands that were called, with what was counted of each.
fn called(rows: &[CallSums]) -> impl Iterator<Item = (&'static str, &CallSums, u64)> {
    let rows = COMMANDS.iter().zip(rows).map(|(command, sums)| (command.name, sums, sums.calls()));
    rows.filter(|(_, sums, calls)| *calls > 0 || sums.rejected > 0)
}

fn command_stats(rows: &[CallSums]) -> Lines {
    let line = |(name, sums, calls): (&str, &CallSums, u64)| {
        let micros = sums.time.as_micros();
        let each = if calls == 0 { 0.0 } else { sums.time.as_secs_f64() * 1e6 / calls as f64 };
        let (rejected, failed) = (sums.rejected, sums.failed);
        let value = format!(
            "calls={calls},usec={micros},usec_per_call={each:.2},rejected_calls={rejected},\
             failed_calls={failed}"
        );
        (format!("cmdstat_{name}"), value)
    };
    called(rows).map(line).collect()
}

fn latency_stats(rows: &[CallSums]) -> Lines {
    let line = |(name, sums, _): (&str, &CallSums, u64)| {
        let micros = |part| Some(sums.quantile(part)?.as_secs_f64() * 1e6);
        let (p50, p99, p999) = (micros(0.5)?, micros(0.99)?, micros(0.999)?);
        let value = format!("p50={p50:.3},p99={p99:.3},p99.9={p999:.3}");
        Some((format!("latency_percentiles_usec_{name}"), value))
    };
    called(rows).filter_map(line).collect()
}

fn error_stats(figures: &ServerFigures<'_>) -> Lines {
    let errors = figures.observer.errors().into_iter();
    errors.map(|(word, count)| (format!("errorstat_{word}"), format!("count={count}"))).collect()
}

fn keyspace(keys: &[DatabaseKeys]) -> Lines {
    let line = |of: &DatabaseKeys| {
        let about = if of.is_estimate { ",cleavedb_is_estimate=1" } else { "" };
        (format!("db{}", of.database), format!("keys={}{about}", of.keys))
    };
    keys.iter().filter(|of| of.keys > 0).map(line).collect()
}

fn own(figures: &ServerFigures<'_>) -> Lines {
    let metrics = &figures.metrics;
    let mut lines = named([
        ("preset", figures.options.chosen_preset().name().to_owned()),
        ("write_amplification", format!("{:.2}", metrics.totals.write_amplification())),
        ("read_amplification_runs", figures.runs().to_string()),
        ("space_amplification", format!("{:.2}", metrics.space_amplification())),
        ("space_amplification_goal", format!("{:.2}", figures.options.space_amplification)),
        ("data_bytes", metrics.data_bytes().to_string()),
        ("index_bytes", metrics.index_bytes.to_string()),
        ("value_bytes", metrics.value_bytes.to_string()),
        ("dead_bytes", figures.dead_bytes().to_string()),
        ("disk_free_bytes", figures.directories.first().map_or(0, |of| of.free).to_string()),
        ("block_cache_hits", metrics.cache_hits.to_string()),
        ("block_cache_misses", metrics.cache_misses.to_string()),
        ("record_cache_hits", metrics.record_cache_hits.to_string()),
        ("record_cache_misses", metrics.record_cache_misses.to_string()),
        ("decided", decisions::text(&metrics.decisions)),
    ]);
    for cause in StallCause::ALL {
        let StallSum { count, time } = StallSum::of(&metrics.stalls, cause);
        let time = time.as_secs_f64();
        let value = format!("count={count},seconds={time:.3}");
        lines.push((format!("stalls_{}", cause.name()), value));
    }
    let advice = advice(figures).into_iter().enumerate();
    lines.extend(advice.map(|(at, advice)| {
        let text = format!("{} {}", advice.cause, advice.remedy).replace(['\r', '\n'], " ");
        (format!("advice_{at}"), text)
    }));
    lines
}
