//! Dumps a table of the index, part by part: its properties, its filter, and each block with its
//! entries.

use std::ops::ControlFlow;
use std::sync::Arc;

use cleavedb_base::key::split_encoded_key;
use cleavedb_base::record::FileIdentity;
use cleavedb_base::{EntryKind, Error, FileNumber, KeyspaceId, StoredOperand, ValuePointer};
use cleavedb_index::table::TableParts;
use cleavedb_index::table_format::BlockHandle;
use cleavedb_index::{Entry, TableMeta};
use cleavedb_storage::File;

use super::line::{DumpFact, Facts, Out, key_facts, user_key};
use super::records::ends;
use super::words;

/// Dumps table `number` in `file`; `known` are the manifest's facts about it.
pub(super) fn dump(
    file: Arc<dyn File>,
    identity: FileIdentity,
    number: FileNumber,
    known: Option<&TableMeta>,
    out: &mut Out<'_>,
) -> ControlFlow<()> {
    let parts = match TableParts::open(file, identity, number) {
        Ok(parts) => parts,
        Err(error) => return out.damage(error),
    };
    let footer = *parts.footer();
    let block = |handle: BlockHandle| vec![("length", DumpFact::from(u64::from(handle.len)))];
    match parts.properties() {
        Err(error) => out.damage(error)?,
        Ok(meta) => {
            let facts = words::properties(&meta);
            out.line(footer.properties.offset, "properties", facts)?;
            if known.is_some_and(|known| *known != meta) {
                let what = "the table is not the one that the manifest names";
                out.damage_at(footer.properties.offset, what)?;
            }
        }
    }
    match parts.filter() {
        Err(error) => out.damage(error)?,
        Ok(filter) => {
            let facts = vec![("bytes", (filter.memory() as u64).into())];
            out.line(footer.filter.offset, "filter", facts)?;
        }
    }
    let blocks = match parts.blocks() {
        Ok(blocks) => blocks,
        Err(error) => return out.damage(error),
    };
    out.line(footer.index.offset, "index", block(footer.index))?;
    for (handle, separator) in blocks {
        let facts = [block(handle), vec![("separator", user_key(&separator))]].concat();
        out.line(handle.offset, "block", facts)?;
        match parts.entries(handle, &mut |found| entry(found, handle, out)) {
            Ok(done) => done?,
            Err(error) => out.damage(error)?,
        }
    }
    ControlFlow::Continue(())
}

fn entry(entry: &Entry<'_>, block: BlockHandle, out: &mut Out<'_>) -> ControlFlow<()> {
    let split = split_encoded_key(entry.key).unwrap_or((KeyspaceId::default(), entry.key));
    let mut facts = key_facts(split.0, split.1);
    facts.push(("seq", entry.seq.into()));
    let what = match entry.kind {
        EntryKind::Delete => "delete",
        kind if kind.is_pointer() => {
            match ValuePointer::of_entry(entry.kind, entry.value) {
                Ok(pointer) => {
                    facts.extend(ends(&pointer));
                    facts.extend(points_to(pointer.value));
                }
                Err(error) => out.damage(located(error, block))?,
            }
            "pointer"
        }
        EntryKind::Operand => {
            match StoredOperand::decode(entry.value) {
                Ok(StoredOperand { operator, operand }) => {
                    facts.push(("operator", operator.to_owned().into()));
                    facts.push(("value_len", (operand.len() as u64).into()));
                    if out.values {
                        facts.push(("value", DumpFact::Value(operand)));
                    }
                }
                Err(error) => out.damage(located(error, block))?,
            }
            "merge"
        }
        EntryKind::Marker => "hot",
        _ => {
            match entry.kind.split(entry.value) {
                Ok(found) => {
                    facts.extend(ends(&found));
                    facts.push(("value_len", (found.value.len() as u64).into()));
                    if out.values {
                        facts.push(("value", DumpFact::Value(found.value)));
                    }
                }
                Err(error) => out.damage(located(error, block))?,
            }
            "put"
        }
    };
    if entry.repeat {
        facts.push(("repeat", "of an entry in an older table".into()));
    }
    out.item(None, what, facts)
}

fn points_to(pointer: ValuePointer) -> Facts<'static> {
    vec![
        ("points_to", pointer.file.0.into()),
        ("at", pointer.offset.into()),
        ("record_len", u64::from(pointer.len).into()),
    ]
}

fn located(error: Error, block: BlockHandle) -> Error {
    error.with("offset", block.offset)
}
