//! Names of the counters that every engine should use for the same thing.
//!
//! An engine's counters are pairs of a name and a number ([`crate::Engine::counters`]). The names
//! here are understood: bytes by class become a break-down of write amplification, stalls a list of
//! causes. All others are kept as they are. An engine leaves out what it does not know: a class
//! that is missing is unknown, not zero.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// Why bytes are moved, in the order in which a write meets them. `CLASS_written` and `CLASS_read`
/// are counters of bytes.
pub const CLASSES: [&str; 5] = ["log", "flush", "compaction", "collection", "manifest"];

/// Counter: bytes of disk that the engine means to stay within at this moment.
pub const SPACE_BUDGET: &str = "space_budget";

/// Counter: bytes of disk that the engine must not exceed at any moment.
pub const SPACE_LIMIT: &str = "space_limit";

/// Counter: reads and writes that a hot store has counted.
pub const HOT_ACCESSES: &str = "hot_accesses";
/// Counter: those of keys that were hot.
pub const HOT_HITS: &str = "hot_access_hits";
/// Counter: keys in a hot store at this moment.
pub const HOT_KEYS: &str = "hot_keys";

/// Counters of what an engine has of the machine at this moment: bytes of its log window and
/// whether that is mapped, descriptors of files that it holds for reading, and the most memory that
/// it means to take.
pub const WINDOW_BYTES: &str = "window_memory";
/// See [`WINDOW_BYTES`]; 1 if it is mapped.
pub const WINDOW_MAPPED: &str = "window_mapped";
/// See [`WINDOW_BYTES`].
pub const OPEN_FILES: &str = "open_files";
/// See [`WINDOW_BYTES`].
pub const MEMORY_BOUND: &str = "memory_bound";

/// Counter: how many seconds background threads spent on a step of their work.
pub fn step_seconds(step: &str) -> String {
    format!("seconds_{step}")
}

/// Prefix of a counter: how often a writer waited for the cause that follows.
const STALLS: &str = "stalls_";
/// Prefix of a counter: how many seconds writers waited for the cause that follows.
const STALLED_SECONDS: &str = "stalled_seconds_";

/// Bytes moved for one reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClassBytes {
    /// The reason, one of [`CLASSES`].
    pub class: &'static str,
    /// Bytes written.
    pub written: Option<u64>,
    /// Bytes read.
    pub read: Option<u64>,
}

/// Number and total time of writers' waits for one cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StallTime {
    /// The engine's word for it.
    pub cause: String,
    /// How often; unknown if the engine does not count.
    pub count: Option<u64>,
    /// Seconds in all; unknown if the engine does not measure.
    pub seconds: Option<f64>,
}

/// The classes that `growth` names.
pub fn bytes_by_class(growth: &BTreeMap<String, f64>) -> Vec<ClassBytes> {
    let bytes = |class: &str, what: &str| {
        growth.get(&format!("{class}_{what}")).map(|bytes| bytes.max(0.0) as u64)
    };
    let class =
        |class| ClassBytes { class, written: bytes(class, "written"), read: bytes(class, "read") };
    let known = |bytes: &ClassBytes| bytes.written.is_some() || bytes.read.is_some();
    CLASSES.map(class).into_iter().filter(known).collect()
}

/// The causes that `growth` names, those that never happened included.
pub fn stalls(growth: &BTreeMap<String, f64>) -> Vec<StallTime> {
    let names = growth.keys();
    let causes: BTreeSet<_> = names
        .filter_map(|name| name.strip_prefix(STALLS).or(name.strip_prefix(STALLED_SECONDS)))
        .collect();
    let of = |prefix: &str, cause: &str| growth.get(&format!("{prefix}{cause}")).copied();
    let stall = |cause: &str| StallTime {
        cause: cause.to_owned(),
        count: of(STALLS, cause).map(|count| count.max(0.0) as u64),
        seconds: of(STALLED_SECONDS, cause),
    };
    causes.into_iter().map(stall).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{bytes_by_class, stalls};

    fn growth(pairs: &[(&str, f64)]) -> BTreeMap<String, f64> {
        pairs.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
    }

    #[test]
    fn classes_keep_their_order_and_unknown_is_not_zero() {
        let growth = growth(&[
            ("compaction_written", 5.0),
            ("compaction_read", 6.0),
            ("log_written", 7.0),
            ("cache_hits", 9.0),
        ]);
        let classes = bytes_by_class(&growth);
        let told: Vec<_> = classes.iter().map(|c| (c.class, c.written, c.read)).collect();
        assert_eq!(told, [("log", Some(7), None), ("compaction", Some(5), Some(6))]);
    }

    #[test]
    fn stalls_are_told_by_cause() {
        let growth = growth(&[
            ("stalls_flush", 2.0),
            ("stalled_seconds_flush", 0.5),
            ("stalled_seconds_space", 0.0),
            ("stalls_level_0", 1.0),
        ]);
        let told: Vec<_> =
            stalls(&growth).into_iter().map(|s| (s.cause, s.count, s.seconds)).collect();
        assert_eq!(
            told,
            [
                ("flush".into(), Some(2), Some(0.5)),
                ("level_0".into(), Some(1), None),
                ("space".into(), None, Some(0.0)),
            ]
        );
    }
}
