//! Collection of a range that a caller requests: what was deleted or overwritten in it before the
//! call leaves every file of the database.
//!
//! The order of steps is that in which such data moves:
//!
//! 1. No reader is older than the call: snapshots later than that need nothing of it.
//! 2. The log goes on in a new file, and what was in MemTables is flushed: so no log file before is
//!    needed for replay, and everything up to the call is durable and in tables.
//! 3. Hot segments with something dead are evacuated (`hoakv`), which may leave it to a compaction.
//! 4. The index within the range is compacted to one level without anything dead.
//! 5. Value files and groups with dead records are collected: now the index knows which these are.
//! 6. The log's window is overwritten, and a new manifest begins, without the keys that earlier
//!    edits name.
//! 7. What was dropped is removed and punched, once no reader holds it, and is looked for: an error
//!    says what is still there.
//!
//! Jobs that began before the call may write what was dead before. Each step waits for those that
//! have its inputs, a collection begins anew as long as it finds something, and the index is
//! compacted again if collections of values ran beside it.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::{Mutex, thread};
use cleavedb_base::{Error, ErrorKind, FileNumber, Result};
use cleavedb_storage::api::{read_exact_at, write_all_at};
use cleavedb_storage::{Access, Hole, Mode, MultiDirStorage, Name, Storage};

use crate::background::jobs::{compaction, removal};
use crate::background::range_work::{compact_range, wait_for_jobs};
use crate::background::{dead_records, log_retention, maintenance, scheduler};
use crate::engine::Engine;
use crate::engine::job_state::WantedGone;
use crate::engine::value_files;
use crate::operations::bounds::Bounds;
use crate::store::manifest::{Edit, LiveFiles, Manifest};
use crate::store::snapshot::SnapshotList;

/// Times that all is collected, where there is a store apart: what a pass has moved may have to
/// move once more.
const PASSES_MAX: usize = 16;

/// Looks for files that were dropped, and the pause between two, before their readers are named. So
/// they are after this time with the same file, whatever jobs of others run meanwhile.
const LOOKS: usize = 20;
const PAUSE: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes that are read, or overwritten, at once.
const PIECE: u64 = 64 << 10;

/// Removes what was deleted or overwritten before the call, of the ranges, from all files.
pub(crate) fn collect_ranges(engine: &Engine, ranges: &[Bounds]) -> Result<()> {
    if ranges.iter().all(|bounds| bounds.lower >= bounds.upper) {
        return Ok(());
    }
    let _hurry = engine.pacer.hurry_flushes();
    let upto = engine.commit.visible();
    check_readers(&engine.snapshots, upto)?;
    check_changes(engine, upto)?;
    let left = maintenance::flush_and_leave_log(engine)?;
    // Writes of others may have come meanwhile, and their changes keep the files.
    check_changes(engine, left)?;
    // One that began before the flush may not know what was deleted.
    scheduler::wait_for_collection(engine)?;
    ranges.iter().try_for_each(|bounds| clean(engine, bounds, upto))?;
    if !planted(Bug::WindowKept) {
        engine.commit.wipe_window(&*engine.storage)?;
    }
    if !planted(Bug::OldEditsKept) {
        begin_manifest(engine)?;
    }
    wait_for_removal(engine)
}

/// Has what was deleted in a range up to `upto`, all of which is flushed, leave tables and values.
fn clean(engine: &Engine, bounds: &Bounds, upto: u64) -> Result<()> {
    for _ in 0..PASSES_MAX {
        clear_apart(engine, bounds)?;
        compact(engine, bounds, upto)?;
        let wanted = dead_records::in_value_files(engine, bounds)?;
        let none = wanted.is_empty();
        while_wanted(engine, &wanted, || collect(engine, &wanted))?;
        // Only what leaves a store apart is moved to other places while it is dead.
        let is_clear = || Ok(dead_records::in_extents_apart(engine, bounds)?.is_empty());
        if !engine.has_apart() || none && is_clear()? {
            return Ok(());
        }
    }
    let what = "deleted values stay in the hot store, since other writes move them; call again";
    Err(Error::new(ErrorKind::Held, what))
}

/// Has the index hold nothing of the range that is dead.
///
/// A collection of values follows the index as it was when it began: it moves what has expired, and
/// may publish an entry for it after the last look of the compaction. So the compaction is repeated
/// if a collection was under way at any time.
pub(crate) fn compact(engine: &Engine, bounds: &Bounds, upto: u64) -> Result<()> {
    let before = engine.jobs.lock().collections();
    compact_range(engine, bounds, upto)?;
    let ran = engine.jobs.lock().collections().ran_since(before);
    if !ran || planted(Bug::CollectionOverlooked) {
        return Ok(());
    }
    scheduler::wait_for_collection(engine)?;
    compact_range(engine, bounds, upto)
}

/// Fails if changes up to `upto` are kept.
fn check_changes(engine: &Engine, upto: u64) -> Result<()> {
    if planted(Bug::ChangesCollected) {
        return Ok(());
    }
    log_retention::check_given_up(engine, upto)
}

/// Fails if a reader may see what was there before `upto`.
fn check_readers(snapshots: &SnapshotList, upto: u64) -> Result<()> {
    let holders = snapshots.older_than(upto);
    let Some(holders) = holders.filter(|_| !planted(Bug::OldReadersOverlooked)) else {
        return Ok(());
    };
    let what = "readers that began before the last writes may still see what was deleted; drop \
                them and call again";
    Err(Error::new(ErrorKind::Held, what).with("held by", holders))
}

/// Does `work` while jobs know that a caller wants these files and extents gone.
fn while_wanted<T>(
    engine: &Engine,
    wanted: &WantedGone,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    engine.jobs.lock().wanted.add(wanted);
    let done = work();
    engine.jobs.lock().wanted.remove(wanted);
    done
}

/// Has flushes empty the extents apart that have something dead of the range, as far as that goes
/// before a compaction. One by one, the oldest first: a mark of a deleted key stays as long as an
/// older segment has a record of the key.
fn clear_apart(engine: &Engine, bounds: &Bounds) -> Result<()> {
    for place in dead_records::in_extents_apart(engine, bounds)?.extents {
        let wanted = WantedGone { extents: [place].into(), ..WantedGone::default() };
        if !while_wanted(engine, &wanted, || maintenance::clear_apart_once(engine))? {
            return Err(compaction::no_room());
        }
    }
    Ok(())
}

/// What is left of `wanted`, but for extents apart.
fn left(manifest: &Mutex<Manifest>, wanted: &WantedGone) -> WantedGone {
    let manifest = manifest.lock();
    let live = manifest.live();
    let mut left = wanted.clone();
    left.files.retain(|file| live.value_files.get(*file).is_some());
    left.extents.retain(|place| live.groups.has_extent(*place));
    let apart: BTreeSet<_> = live.groups.extents_apart().map(|it| it.place).collect();
    left.extents.retain(|place| !apart.contains(place));
    left
}

/// Collects the `wanted` files and groups.
fn collect(engine: &Engine, wanted: &WantedGone) -> Result<()> {
    let (mut looks, mut before) = (0, WantedGone::default());
    loop {
        let left = left(&engine.manifest, wanted);
        if left.is_empty() {
            return Ok(());
        }
        check_sound(engine, &left)?;
        if left != before {
            looks = 0;
        }
        before = left;
        wait_for_jobs(engine, &mut looks)?;
    }
}

/// Fails if one of `wanted` cannot be collected, since it is damaged.
fn check_sound(engine: &Engine, wanted: &WantedGone) -> Result<()> {
    let groups = engine.manifest.lock().live().groups.clone();
    let jobs = engine.jobs.lock();
    let damaged = &jobs.damaged;
    let mut extents = groups.extents().filter(|extent| wanted.extents.contains(&extent.place));
    let is_damaged = wanted.files.iter().any(|file| damaged.files.contains(file))
        || extents.any(|extent| damaged.groups.contains(&extent.group));
    match &damaged.last {
        Some(error) if is_damaged => Err(error.clone()),
        _ => Ok(()),
    }
}

/// Continues the manifest in a new file, which has only what is live.
fn begin_manifest(engine: &Engine) -> Result<()> {
    let mut manifest = engine.manifest.lock();
    // Under the lock: the edit of a close must be the last.
    engine.check_open()?;
    manifest.begin_anew();
    engine.commit_edit(&mut manifest, &Edit::default())
}

/// Gives back everything that was dropped, and waits until nothing of it is left.
fn wait_for_removal(engine: &Engine) -> Result<()> {
    let horizon = FileNumber(engine.manifest.lock().next_number());
    let (mut looks, mut held) = (0, None);
    loop {
        engine.check_open()?;
        removal::purge(engine);
        let gap = match files_not_live(engine, horizon)?.first() {
            Some(name) => Gap::Held(*name),
            None => filled_gap(engine)?,
        };
        let name = match gap {
            Gap::None => break,
            Gap::Held(name) => name,
            Gap::Copied(file) => {
                empty(engine, file)?;
                continue;
            }
        };
        let since = match held {
            Some((same, since)) if same == name => since,
            _ => Instant::now(),
        };
        held = Some((name, since));
        let is_over = since.elapsed() >= PATIENCE;
        if !is_over && scheduler::waits_for_others(engine) {
            continue;
        }
        looks += 1;
        if is_over || looks == LOOKS {
            let what = "a range, a cursor, a snapshot or a checkpoint that began meanwhile still \
                        holds a file that was dropped; drop it and call again";
            return Err(Error::new(ErrorKind::Held, what).with("file", name));
        }
        thread::sleep(PAUSE);
    }
    engine.sync_dir()
}

/// Files with numbers below `horizon` that are not live, nor those of a load under way, which has
/// nothing that was deleted.
fn files_not_live(engine: &Engine, horizon: FileNumber) -> Result<Vec<Name>> {
    let listed = engine.storage.list().map_err(|e| Error::io("list the directory", e))?;
    let loaded = engine.jobs.lock().load.as_ref().map(|load| load.files.clone());
    let loaded: BTreeSet<FileNumber> =
        loaded.into_iter().flatten().map(|(_, number)| number).collect();
    let manifest = engine.manifest.lock();
    let live = manifest.live();
    let tables: BTreeSet<FileNumber> =
        live.version.tables().map(|(_, table)| table.number()).collect();
    // Numbers are unique among all kinds; files without one are always live.
    let is_live = |name: &Name| {
        let number = name.number();
        number == FileNumber(0)
            || tables.contains(&number)
            || loaded.contains(&number)
            || live.value_files.kind_of(number).is_some()
            || *name == manifest.name()
    };
    let names = listed.into_iter().map(|(name, _)| name);
    Ok(names.filter(|name| name.number() < horizon && !is_live(name)).collect())
}

/// Moves everything that is alive out of a group file.
fn empty(engine: &Engine, file: FileNumber) -> Result<()> {
    let groups = engine.manifest.lock().live().groups.clone();
    let extents = groups.extents_in(file).map(|extent| extent.place).collect();
    let wanted = WantedGone { extents, ..WantedGone::default() };
    while_wanted(engine, &wanted, || {
        if engine.has_apart() && !maintenance::clear_apart_once(engine)? {
            return Err(compaction::no_room());
        }
        collect(engine, &wanted)
    })
}

/// Bytes in a place of a group file where no extent is.
enum Gap {
    None,
    /// A reader still holds the extent that was there.
    Held(Name),
    /// The file has a second name, and is not changed in place.
    Copied(FileNumber),
}

/// The first gap with bytes that stay. Where the file system cannot punch they are overwritten.
fn filled_gap(engine: &Engine) -> Result<Gap> {
    let (live, state): (LiveFiles, _) = {
        let manifest = engine.manifest.lock();
        (manifest.live().clone(), engine.state.load_full())
    };
    for (number, facts) in live.value_files.group_files() {
        let gaps = value_files::holes(&live, number, facts.len.unwrap_or_default());
        let Some(segment) = state.segments.get(number).filter(|_| !gaps.is_empty()) else {
            continue;
        };
        let filled = gaps.into_iter().filter_map(|gap| match is_blank(&engine.storage, gap) {
            Ok(true) => None,
            Ok(false) => Some(Ok(gap)),
            Err(e) => Some(Err(e)),
        });
        let failed = |e| Error::io("overwrite a dropped extent", e).with("file", segment.name());
        let filled: Vec<Hole> = filled.collect::<io::Result<_>>().map_err(failed)?;
        // The set of segments holds it once, and each extent that is open once.
        let known = 1 + live.groups.extents_in(number).count();
        if !filled.is_empty() && Arc::strong_count(segment) > known {
            return Ok(Gap::Held(segment.name()));
        }
        if !filled.is_empty() && segment.file().is_copied().map_err(failed)? {
            return Ok(Gap::Copied(number));
        }
        filled.into_iter().try_for_each(|gap| overwrite(engine, gap)).map_err(failed)?;
    }
    Ok(Gap::None)
}

/// The pieces of a hole.
fn pieces(hole: Hole) -> impl Iterator<Item = (u64, usize)> {
    let end = hole.offset + hole.len;
    let offsets = (hole.offset..end).step_by(PIECE as usize);
    offsets.map(move |offset| (offset, PIECE.min(end - offset) as usize))
}

/// Whether a hole reads as zeros. The last block of a file may end before.
fn is_blank(storage: &MultiDirStorage, hole: Hole) -> io::Result<bool> {
    let file = storage.open(&hole.name, Mode::Read, Access::Random)?;
    let (len, mut bytes) = (file.len()?, vec![0; PIECE as usize]);
    for (offset, piece) in pieces(hole) {
        let piece = piece.min(len.saturating_sub(offset) as usize);
        read_exact_at(&*file, &mut bytes[..piece], offset)?;
        if bytes[..piece].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Overwrites a hole with zeros, if it cannot be punched: the first try may have failed.
fn overwrite(engine: &Engine, hole: Hole) -> io::Result<()> {
    let file = engine.storage.open(&hole.name, Mode::ReadWrite, Access::Random)?;
    if file.punch(hole.offset, hole.len).is_ok() && is_blank(&engine.storage, hole)? {
        return file.sync();
    }
    let zeros = vec![0; PIECE as usize];
    pieces(hole).try_for_each(|(offset, piece)| write_all_at(&*file, &zeros[..piece], offset))?;
    file.sync()
}
