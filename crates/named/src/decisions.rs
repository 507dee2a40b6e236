//! What the engine has decided by itself, in words: the answer to why it does what it does.

use cleavedb::metrics::Decisions;
use cleavedb_units::{bytes, counted};

/// The decisions as one sentence without its full stop, for people.
pub fn text(made: &Decisions) -> String {
    let entries = match made.entry_bytes {
        Some(mean) => format!("entries of the index have {} on average", counted(mean, "byte")),
        None => "the index has no entries yet".to_owned(),
    };
    let writers = match made.slowed {
        Some((pace, cause)) => {
            format!("writers are slowed to {} a second by {}", bytes(pace), cause.name())
        }
        None => "writers are not slowed".to_owned(),
    };
    format!(
        "{entries}, so level 0 may have {} and level 1 {}; a MemTable covers at most {} of log; \
         {writers}",
        bytes(made.level0_bytes),
        bytes(made.level1_bytes),
        bytes(made.memtable_log_bytes),
    )
}

#[cfg(test)]
mod tests {
    use cleavedb::metrics::{Decisions, StallCause};

    use super::text;

    #[test]
    fn each_decision_is_said() {
        let mut made = Decisions::default();
        (made.level0_bytes, made.level1_bytes, made.memtable_log_bytes) = (1 << 20, 4 << 20, 1000);
        let sizes = "so level 0 may have 1.00 MiB and level 1 4.00 MiB; a MemTable covers at most \
                     0.98 KiB of log";
        let quiet = format!("the index has no entries yet, {sizes}; writers are not slowed");
        assert_eq!(text(&made), quiet);
        (made.entry_bytes, made.slowed) = (Some(42), Some((2 << 20, StallCause::Compaction)));
        let busy = format!(
            "entries of the index have 42 bytes on average, {sizes}; writers are slowed to \
             2.00 MiB a second by compaction"
        );
        assert_eq!(text(&made), busy);
    }
}
