//! Shows a manifest's edit: a line for each thing that it changes.

use std::fmt::Write;
use std::ops::ControlFlow;

use cleavedb_base::FileNumber;
use cleavedb_index::edit::AddedTable;
use cleavedb_index::{TableMeta, VersionEdit};
use cleavedb_storage::Name;
use cleavedb_values::groups::{Extent, Location};
use cleavedb_values::{GroupEdit, Partition, ValueFileEdit};

use super::line::{DumpFact, Facts, Out, user_key};
use crate::store::manifest::Edit;

/// Shows an edit that begins at `offset`; `len` is the length of one of its two records.
pub(super) fn edit(
    edit: &Edit,
    offset: u64,
    len: u64,
    partition: Option<Partition>,
    out: &mut Out<'_>,
) -> ControlFlow<()> {
    out.item(offset, "edit", vec![("length", len.into())])?;
    changes(edit, offset, partition, out)
}

/// Shows a whole state, as one edit that creates it.
pub(super) fn state(
    state: &Edit,
    end: u64,
    partition: Option<Partition>,
    out: &mut Out<'_>,
) -> ControlFlow<()> {
    out.line(end, "state", Facts::new())?;
    changes(state, end, partition, out)
}

fn changes(
    edit: &Edit,
    offset: u64,
    partition: Option<Partition>,
    out: &mut Out<'_>,
) -> ControlFlow<()> {
    if let Some(layout) = &edit.layout {
        out.line(offset, "layout", vec![("is", layout.to_string().into())])?;
    }
    tables(&edit.index, offset, out)?;
    for change in &edit.value_files {
        let (what, facts) = value_files(change);
        out.line(offset, what, facts)?;
    }
    for change in &edit.groups {
        groups(change, offset, partition, out)?;
    }
    numbers(edit, offset, out)?;
    session(edit, offset, out)
}

fn tables(edit: &VersionEdit, offset: u64, out: &mut Out<'_>) -> ControlFlow<()> {
    for number in &edit.removed {
        out.line(offset, "table removed", vec![("number", number.0.into())])?;
    }
    for AddedTable { level, position, meta } in &edit.added {
        let mut facts: Facts<'_> =
            vec![("number", meta.number.0.into()), ("level", u64::from(*level).into())];
        if let Some(position) = position {
            facts.push(("epoch", position.epoch.into()));
            facts.push(("order", u64::from(position.order).into()));
        }
        facts.push(("size", meta.size.into()));
        facts.extend(properties(meta));
        out.line(offset, "table added", facts)?;
    }
    ControlFlow::Continue(())
}

/// The properties of a table.
pub(super) fn properties(meta: &TableMeta) -> Facts<'_> {
    vec![
        ("entries", meta.entries.into()),
        ("tombstones", meta.deletes.into()),
        ("shadowed", meta.shadowed.into()),
        ("min_seq", meta.min_seq.into()),
        ("max_seq", meta.max_seq.into()),
        ("raw_bytes", meta.raw_bytes.into()),
        ("pointer_bytes", meta.pointer_bytes.into()),
        ("tombstones_applied", meta.uncovered_upto.into()),
        ("smallest", user_key(&meta.smallest)),
        ("largest", user_key(&meta.largest)),
    ]
}

fn value_files(edit: &ValueFileEdit) -> (&'static str, Facts<'static>) {
    let of = |number: FileNumber| ("number", DumpFact::from(number.0));
    match *edit {
        ValueFileEdit::Add(number, kind) => {
            let name = Name::numbered(kind, number).to_string();
            ("file added", vec![of(number), ("name", name.into())])
        }
        ValueFileEdit::Seal(number, base, len) => {
            ("file sealed", vec![of(number), ("base", base.into()), ("valid_length", len.into())])
        }
        ValueFileEdit::LiveAdded(number, bytes) => {
            ("live bytes added", vec![of(number), ("bytes", bytes.into())])
        }
        ValueFileEdit::LiveRemoved(number, bytes) => {
            ("live bytes dropped", vec![of(number), ("bytes", bytes.into())])
        }
        ValueFileEdit::Remove(number) => ("file removed", vec![of(number)]),
        ValueFileEdit::Resume(number) => ("file goes on", vec![of(number)]),
        ValueFileEdit::Retain(number) => ("log file retained for changes", vec![of(number)]),
        ValueFileEdit::Release(number) => ("retained log file removed", vec![of(number)]),
    }
}

fn groups(
    edit: &GroupEdit,
    offset: u64,
    partition: Option<Partition>,
    out: &mut Out<'_>,
) -> ControlFlow<()> {
    match edit {
        GroupEdit::Begin(group, bound, read_point) => {
            let facts = vec![
                ("group", group.0.into()),
                ("bound", token(bound, partition)),
                ("read_point", (*read_point).into()),
            ];
            out.line(offset, "group begun", facts)
        }
        GroupEdit::Collected(group, read_point) => {
            let facts = vec![("group", group.0.into()), ("read_point", (*read_point).into())];
            out.line(offset, "group collected", facts)
        }
        GroupEdit::Split { group, bounds, first } => {
            let facts = vec![("group", group.0.into()), ("into", first.0.into())];
            out.line(offset, "group split", facts)?;
            for (id, bound) in (1..).map(|at| first.0.saturating_add(at)).zip(bounds) {
                let facts = vec![("group", id.into()), ("bound", token(bound, partition))];
                out.line(offset, "group begun by the split", facts)?;
            }
            ControlFlow::Continue(())
        }
        GroupEdit::Merge { groups: [lower, upper], into } => {
            let facts =
                vec![("lower", lower.0.into()), ("upper", upper.0.into()), ("into", into.0.into())];
            out.line(offset, "groups merged", facts)
        }
        GroupEdit::Add(added) => out.line(offset, "extent added", extent(added)),
        GroupEdit::LiveRemoved(place, bytes) => {
            let facts = [place_facts(*place), vec![("bytes", (*bytes).into())]].concat();
            out.line(offset, "live bytes of an extent dropped", facts)
        }
        GroupEdit::Remove(place) => out.line(offset, "extent removed", place_facts(*place)),
    }
}

fn place_facts(place: Location) -> Facts<'static> {
    vec![("number", place.file.0.into()), ("at", place.offset.into())]
}

/// The manifest's facts about an extent.
pub(super) fn extent(extent: &Extent) -> Facts<'_> {
    let writer = if extent.survivors { "a collection" } else { "a flush" };
    let mut facts: Facts<'_> = vec![("group", extent.group.0.into())];
    facts.extend(place_facts(extent.place));
    facts.extend([
        ("records", extent.records.into()),
        ("stubs", extent.stubs.into()),
        ("tags", extent.tags.into()),
        ("records_len", extent.records_len.into()),
        ("filter_len", extent.filter_len.into()),
        ("key_block_len", extent.key_block_len.into()),
        ("separated", extent.separated.into()),
        ("live", extent.live.into()),
        ("written_by", writer.into()),
    ]);
    if !extent.last.is_empty() {
        facts.push(("last_key", user_key(&extent.last)));
    }
    facts
}

/// The token of a group's lower bound: a key if groups are ranges of keys, else hex digits.
fn token(bound: &[u8], partition: Option<Partition>) -> DumpFact<'_> {
    if let Some(key) = partition.and_then(|partition| partition.key_of(bound)) {
        return user_key(key);
    }
    let hex = bound.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    hex.into()
}

fn numbers(edit: &Edit, offset: u64, out: &mut Out<'_>) -> ControlFlow<()> {
    if let Some(head) = edit.head {
        let facts = vec![
            ("number", head.file.0.into()),
            ("base", head.base.into()),
            ("position", head.position.into()),
        ];
        out.line(offset, "replay head", facts)?;
    }
    for (what, name, number) in [
        ("file numbers spoken for", "below", edit.next_file),
        ("sequence numbers spoken for", "below", edit.seq_limit),
        ("epoch of the youngest flush", "epoch", edit.epoch),
        ("unexposed garbage, estimated", "bytes", edit.unexposed),
        ("operations that are in tables", "up_to_seq", edit.flushed),
    ] {
        if let Some(number) = number {
            out.line(offset, what, vec![(name, number.into())])?;
        }
    }
    if let Some(min_separated) = edit.min_separated {
        let fact = match min_separated.checked_sub(1) {
            None => ("decided_by", "the open".into()),
            Some(least) => ("from_length", least.into()),
        };
        out.line(offset, "values leave the index", vec![fact])?;
    }
    match edit.space_limit {
        None => {}
        Some(0) => out.line(offset, "space limit", vec![("is", "none".into())])?,
        Some(bytes) => out.line(offset, "space limit", vec![("bytes", bytes.into())])?,
    }
    kept_changes(edit, offset, out)
}

fn kept_changes(edit: &Edit, offset: u64, out: &mut Out<'_>) -> ControlFlow<()> {
    if let Some(log) = edit.changes.log {
        let facts = vec![
            ("bytes", log.bytes.into()),
            ("from_seq", log.first_seq.into()),
            ("from_file", log.first_file.0.into()),
        ];
        out.line(offset, "changes are kept", facts)?;
    }
    for load in &edit.changes.loads {
        let facts = vec![
            ("seq", load.seq.into()),
            ("first", user_key(&load.first)),
            ("last", user_key(&load.last)),
        ];
        out.line(offset, "bulk load", facts)?;
    }
    ControlFlow::Continue(())
}

fn session(edit: &Edit, offset: u64, out: &mut Out<'_>) -> ControlFlow<()> {
    match edit.session {
        None => {}
        Some(None) => out.line(offset, "session ended by a close", Facts::new())?,
        Some(Some(session)) => {
            let window = match session.window {
                Some(number) => number.0.into(),
                None => "in memory only".into(),
            };
            let facts = vec![
                ("window", window),
                ("boot", format!("{:016x}", session.boot_id).into()),
                ("seq_before", session.last_seq.into()),
            ];
            out.line(offset, "session begun", facts)?;
        }
    }
    if let Some(id) = edit.directory_id {
        out.line(offset, "directory", vec![("id", format!("{id:016x}").into())])?;
    }
    let Some(totals) = edit.totals else { return ControlFlow::Continue(()) };
    let facts = vec![
        ("user_bytes", totals.user_bytes.into()),
        ("writes", totals.writes.into()),
        ("log_written", totals.log_written.into()),
        ("flush_written", totals.flush_written.into()),
        ("compaction_written", totals.compaction_written.into()),
        ("collection_written", totals.collection_written.into()),
        ("manifest_written", totals.manifest_written.into()),
        ("flushes", totals.flushes.into()),
        ("compactions", totals.compactions.into()),
        ("collections", totals.collections.into()),
    ];
    out.line(offset, "totals", facts)
}
