//! What needs a person: each trouble with its sign, and what to do.
//!
//! The page, `INFO` and the metrics tell of the rows of this one table. What each failure of the
//! store means is in `docs/operations.md`.

use std::time::Duration;

use cleavedb::metrics::StallCause;
use cleavedb::{Metrics, open_files};
use cleavedb_units::{bytes, counted};
use serde::Serialize;

use super::ServerFigures;

/// How bad a trouble is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something does not work.
    Alarm,
    /// Something will not work, or works slowly.
    Warning,
}

/// A trouble that there is.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// How bad it is.
    pub severity: Severity,
    /// The name of its row.
    pub name: &'static str,
    /// What is seen.
    pub cause: String,
    /// What to do.
    pub remedy: &'static str,
}

/// A trouble that there may be.
pub struct AdviceRow {
    /// The name in metrics.
    pub name: &'static str,
    severity: Severity,
    /// What is seen, if there is the trouble.
    sign: fn(&ServerFigures<'_>) -> Option<String>,
    remedy: &'static str,
}

const fn alarm(
    name: &'static str,
    sign: fn(&ServerFigures<'_>) -> Option<String>,
    remedy: &'static str,
) -> AdviceRow {
    AdviceRow { name, severity: Severity::Alarm, sign, remedy }
}

const fn warning(
    name: &'static str,
    sign: fn(&ServerFigures<'_>) -> Option<String>,
    remedy: &'static str,
) -> AdviceRow {
    AdviceRow { severity: Severity::Warning, ..alarm(name, sign, remedy) }
}

/// Free bytes of a disk below which it is full, and soon will be.
const FREE_LEAST: u64 = 64 << 20;
const FREE_LITTLE: u64 = 1 << 30;

/// Parts of a hundred from which a limit is near.
const NEAR_PERCENT: u64 = 90;

/// Time of waits in five minutes from which they are told.
const STALL_LEAST: Duration = Duration::from_secs(1);

/// The time within which 99 of 100 commands should end, and how many there have to be for that.
const COMMAND_MOST: Duration = Duration::from_millis(100);
const COMMANDS_LEAST: u64 = 1000;

/// Seconds from which a snapshot is old.
const OLD_SECONDS: u64 = 600;

/// All troubles, the worst first.
pub const TABLE: &[AdviceRow] = &[
    alarm(
        "poisoned",
        |figures| {
            let why = figures.metrics.poisoned.as_ref()?;
            Some(format!("Writes are refused, since one has failed: {why}"))
        },
        "Check the disk, then start the server again: acknowledged writes are replayed.",
    ),
    alarm(
        "damaged",
        |figures| match &*figures.metrics.damaged {
            [] => None,
            damaged => Some(format!("Damage was found in {}.", damaged.join(", "))),
        },
        "Stop the server; cleave check names each place. Restore a backup, or use cleave repair.",
    ),
    alarm(
        "damaged_records",
        |figures| {
            let count = figures.swept_over;
            let text = || format!("{} of collections cannot be read.", counted(count, "record"));
            (count > 0).then(text)
        },
        "CLEAVE.CHECK names the keys: delete them, or restore a backup.",
    ),
    alarm(
        "disk_full",
        |figures| free_below(figures, 0..FREE_LEAST),
        "Make room on the disk, or delete keys; reads and deletes go on meanwhile.",
    ),
    alarm(
        "failing_jobs",
        |figures| {
            let failure = figures.metrics.failures.first()?;
            let (job, error) = (failure.job, &failure.error);
            let tries = counted(failure.tries, "try").replace("trys", "tries");
            let seconds = failure.since.as_secs();
            Some(format!("The job {job} has failed for {seconds} s, {tries}: {error}"))
        },
        "The job is tried again by itself; the table of errors in docs/operations.md has each one.",
    ),
    warning(
        "stopping",
        |figures| figures.stops.then(|| "The server stops.".to_owned()),
        "Clients get the replies of what they have sent; start it again when it has ended.",
    ),
    warning(
        "disk_filling",
        |figures| free_below(figures, FREE_LEAST..FREE_LITTLE),
        "Make room on the disk before writes are refused.",
    ),
    warning(
        "space_limit",
        |figures| {
            let (limit, used) = (figures.metrics.space_limit?, figures.metrics.space_used?);
            let text =
                || format!("{} of the space limit of {} are used.", bytes(used), bytes(limit));
            is_near(used, limit).then(text)
        },
        "Delete keys, or raise space_limit.",
    ),
    warning(
        "stalls_flush",
        |figures| stalled(figures, StallCause::Flush),
        "The disk takes new data too slowly: write less, or give the store more memory_bytes.",
    ),
    warning(
        "stalls_compaction",
        |figures| stalled(figures, StallCause::Compaction),
        "Merges of the index are behind: write less, or raise background_bytes_per_second.",
    ),
    warning(
        "stalls_space",
        |figures| stalled(figures, StallCause::Space),
        "Collection is behind: write less, or raise space_limit, space_amplification, or \
         background_bytes_per_second.",
    ),
    warning(
        "slow_commands",
        |figures| {
            let recent = figures.recent_calls();
            let late = recent.quantile(0.99).filter(|late| *late >= COMMAND_MOST)?;
            let millis = late.as_millis();
            let most = figures.observer.slow_log.slowest();
            let most = most.map(|name| format!(": of the slow ones {name} took the most time"));
            let most = most.unwrap_or_default();
            let text = || format!("1 of 100 commands takes about {millis} ms or more{most}.");
            (recent.calls() >= COMMANDS_LEAST).then(text)
        },
        "Look at the slow commands: SCAN in place of KEYS, fewer elements at once. If all are \
         slow, the processor or the disk is, or data does not fit in memory.",
    ),
    warning(
        "dead_space",
        |figures| {
            let (goal, now) =
                (figures.options.space_amplification, figures.metrics.space_amplification());
            let is_behind =
                figures.dead_bytes() > 2 * figures.options.tuning.space_floor && now > goal * 1.25;
            is_behind.then(|| {
                let dead = bytes(figures.dead_bytes());
                format!(
                    "{now:.2} bytes on disk for a live one, the goal is {goal:.2}; {dead} are dead."
                )
            })
        },
        "Collection is behind, or a reader holds what is dead: see jobs and snapshots.",
    ),
    warning(
        "old_snapshot",
        |figures| {
            let age = figures.metrics.oldest_snapshot?.as_secs();
            (age > OLD_SECONDS).then(|| format!("A reader has held a snapshot for {age} s."))
        },
        "What died since stays on the disk: end the client or the job that reads so long.",
    ),
    warning(
        "clients",
        |figures| {
            let (clients, most) =
                (figures.clients.len() as u64, u64::from(figures.config.max_clients));
            is_near(clients, most)
                .then(|| format!("{clients} of at most {most} clients are there."))
        },
        "Look for clients that do not disconnect, or raise --max-clients.",
    ),
    warning(
        "descriptors",
        |figures| {
            let (open, most) = (figures.metrics.open_files as u64, open_files::max() as u64);
            is_near(open, most).then(|| format!("{open} of {most} files are open for reading."))
        },
        "Raise the limit of descriptors, ulimit -n or LimitNOFILE.",
    ),
    warning(
        "clock",
        |figures| {
            let jumps = figures.metrics.clock_jumps;
            let text =
                || format!("The clock has jumped by more than 10 s, {}.", counted(jumps, "time"));
            (jumps > 0).then(text)
        },
        "Keys expire by the clock: see why it jumps.",
    ),
    warning(
        "unprotected",
        |figures| {
            let addresses = figures.config.addresses();
            let open = addresses.iter().find(|address| !address.ip().is_loopback())?;
            let is_open = figures.is_open && !figures.config.protected_mode;
            is_open.then(|| format!("Other machines reach {open} without a password."))
        },
        "Set requirepass, or listen on the loopback address.",
    ),
];

/// What needs a person, the worst first.
pub fn advice(figures: &ServerFigures<'_>) -> Vec<Advice> {
    let seen = |row: &AdviceRow| {
        let AdviceRow { severity, name, remedy, .. } = *row;
        (row.sign)(figures).map(|cause| Advice { severity, name, cause, remedy })
    };
    TABLE.iter().filter_map(seen).collect()
}

fn is_near(used: u64, limit: u64) -> bool {
    u128::from(used) * 100 >= u128::from(limit) * u128::from(NEAR_PERCENT)
}

/// The first disk with so few free bytes; not where a space limit leaves about as few.
fn free_below(figures: &ServerFigures<'_>, range: std::ops::Range<u64>) -> Option<String> {
    let Metrics { space_limit, space_used, .. } = figures.metrics;
    let left = space_limit.map(|limit| limit.saturating_sub(space_used.unwrap_or_default()));
    let is_low = |free: u64| range.contains(&free) && left.is_none_or(|left| free < left / 2);
    let directory = figures.directories.iter().find(|directory| is_low(directory.free))?;
    Some(format!("{} are free on the disk of {}.", bytes(directory.free), directory.path))
}

fn stalled(figures: &ServerFigures<'_>, cause: StallCause) -> Option<String> {
    let stalls = figures.recent_stalls(cause);
    let seconds = stalls.time.as_secs_f64();
    (stalls.time >= STALL_LEAST).then(|| {
        let times = counted(stalls.count, "time");
        format!(
            "Writers waited for {} {times} in five minutes, {seconds:.1} s together.",
            cause.name()
        )
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cleavedb::{Db, Options};
    use cleavedb_storage_sim::Sim;

    use super::*;
    use crate::command::table::named;
    use crate::config::Config;
    use crate::shared::ServerShared;

    fn server(options: Options) -> ServerShared {
        ServerShared::of(Db::open_in(Arc::new(Sim::new()), options, 7).unwrap())
    }

    fn seen(shared: &ServerShared) -> Vec<Advice> {
        advice(&shared.figures())
    }

    #[test]
    fn commands_are_slow_if_one_in_a_hundred_is() {
        let shared = server(Options::default());
        let (times, keys) = (shared.observer.worker(), named(b"keys").unwrap());
        let call = |calls, time| {
            times.add(keys, calls, time, time);
            shared.observer.tick();
        };
        call(COMMANDS_LEAST - 1, COMMAND_MOST);
        assert!(seen(&shared).is_empty(), "too few to tell");
        call(98 * COMMANDS_LEAST, Duration::from_millis(1));
        let [slow] = &seen(&shared)[..] else { panic!() };
        assert_eq!((slow.name, slow.severity), ("slow_commands", Severity::Warning));
        assert!(slow.cause.starts_with("1 of 100 commands takes about 1"), "{}", slow.cause);
        call(2 * COMMANDS_LEAST, Duration::from_millis(1));
        assert!(seen(&shared).is_empty());
    }

    #[test]
    fn a_server_without_a_password_is_told_where_others_reach_it() {
        let shared = server(Options::default());
        let told = |address: &str, protected_mode| {
            let address = address.parse().unwrap();
            let change = |config: &mut Config| {
                (config.listen, config.protected_mode) = (vec![address], protected_mode);
                Ok::<_, ()>(())
            };
            shared.change_config(change).unwrap();
            seen(&shared).iter().any(|advice| advice.name == "unprotected")
        };
        assert!(told("0.0.0.0:6379", false));
        assert!(!told("0.0.0.0:6379", true) && !told("127.0.0.1:6379", false));
    }

    #[test]
    fn a_space_limit_is_no_full_disk() {
        let options = Options { space_limit: Some(200 << 20), ..Options::default() };
        let shared = server(options);
        assert!(shared.figures().directories[0].free < 200 << 20);
        assert!(seen(&shared).is_empty(), "{:?}", seen(&shared));
    }
}
