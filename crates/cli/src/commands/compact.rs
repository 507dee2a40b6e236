//! `compact`: merges all tables into one sorted level.

use std::fmt;

use cleavedb_units as units;
use serde::Serialize;

use crate::args::{BoundArgs, Within};
use crate::bounds::bounds;
use crate::console::Console;
use crate::failure::{Exit, Result};
use crate::global::Global;
use crate::interrupt;
use crate::progress::Progress;
use crate::space::{Space, compare};
use crate::store;
use crate::watch;

#[derive(Serialize)]
struct Compacted {
    compactions: u64,
    read: u64,
    written: u64,
    seconds: f64,
    before: Space,
    after: Space,
}

impl fmt::Display for Compacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "compacted in {:.2} s, {}: {} read, {} written",
            self.seconds,
            units::counted(self.compactions, "step"),
            units::bytes(self.read),
            units::bytes(self.written),
        )?;
        f.write_str(&compare(&self.before, &self.after))
    }
}

pub(super) fn run(
    args: &BoundArgs,
    within: &Within,
    global: &Global,
    console: &Console,
) -> Result<Exit> {
    interrupt::watch(console)?;
    let db = store::open_existing(global, console)?;
    let ranged = args.are_given() || within.keyspace.is_some();
    let range = bounds(args, console.hex())?;
    let keyspace = store::find_keyspace(&db, within)?;
    let before = Space::of(&db, &global.db);
    let progress = Progress::new(console, "compact", None);
    let describe = |db: &cleavedb::Db| {
        let metrics = db.metrics();
        let (read, written) = (metrics.compaction_read, metrics.compaction_written);
        format!("{} read, {} written", units::bytes(read), units::bytes(written))
    };
    watch::run(&db, &progress, describe, move |db| match ranged {
        true => keyspace.compact_range(range),
        false => db.compact(),
    })?;
    let seconds = progress.elapsed().as_secs_f64();
    drop(progress);
    let metrics = db.metrics();
    let after = Space::at_close(db, &global.db)?;
    console.outcome(&Compacted {
        compactions: metrics.compactions + metrics.compaction_moves,
        read: metrics.compaction_read,
        written: metrics.compaction_written,
        seconds,
        before,
        after,
    })?;
    Ok(Exit::Done)
}
