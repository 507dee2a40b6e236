//! Shows records: those of operations, which logs, segments and group files share, and the header
//! of a file.

use std::ops::ControlFlow;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::record::{Header, RecordKind};
use cleavedb_base::{Lasting, ValuePointer};
use cleavedb_storage::log::FileHeader;
use cleavedb_storage::segment::blob::blob_len;
use cleavedb_storage::{FileKind, Name};

use super::line::{DumpFact, Facts, Out, key_facts};

/// When a value expires, in milliseconds since the beginning of 1970, unless it stays.
pub(super) fn ends<T>(value: &Lasting<T>) -> Option<(&'static str, DumpFact<'static>)> {
    (!value.until.is_never()).then(|| ("expires", value.until.millis().into()))
}

/// Shows the record of an operation; `facts` come first.
pub(super) fn operation<'a>(
    offset: u64,
    header: &Header,
    key: &'a [u8],
    value: &'a [u8],
    mut facts: Facts<'a>,
    out: &mut Out<'_>,
) -> ControlFlow<()> {
    facts.push(("seq", header.seq.into()));
    facts.extend(key_facts(header.keyspace, key));
    if !matches!(header.kind, RecordKind::Delete | RecordKind::Tag)
        && let Ok(found) = header.kind.split(value)
    {
        facts.extend(ends(&found));
        let value = found.value;
        facts.push(("value_len", (header.stored_value_len() as u64).into()));
        if header.compressed {
            facts.push(("compressed", "yes".into()));
        }
        let blob = header.kind.is_blob().then(|| ValuePointer::decode(value).ok()).flatten();
        if let Some(pointer) = blob {
            facts.push(("file", Name::numbered(FileKind::Blob, pointer.file).to_string().into()));
            facts.push(("blob_len", blob_len(pointer).unwrap_or_default().into()));
        }
        if out.values {
            facts.push(("value", DumpFact::Value(value)));
        }
    }
    facts.push(("record_len", (header.record_len() as u64).into()));
    if header.more {
        facts.push(("batch", "goes on".into()));
    }
    facts.push(("checksum", "ok".into()));
    out.item(offset, header.kind.name(), facts)
}

/// Shows a record whose header is valid and whose payload is not; `facts` come last.
pub(super) fn damaged(offset: u64, header: &Header, out: &mut Out<'_>) -> ControlFlow<()> {
    let facts = vec![
        ("kind", header.kind.name().into()),
        ("seq", header.seq.into()),
        ("key_len", u64::from(header.key_len).into()),
        ("value_len", u64::from(header.value_len).into()),
        ("checksum", "of key and value does not match".into()),
    ];
    out.line(offset, "damaged record", facts)
}

/// Shows the header of a file; returns it, unless it is damaged.
pub(super) fn file_header(
    payload: &[u8],
    out: &mut Out<'_>,
) -> ControlFlow<(), Option<FileHeader>> {
    let header = match FileHeader::decode(payload) {
        Ok(header) => header,
        Err(error) => {
            out.damage(error.with("offset", 0))?;
            return ControlFlow::Continue(None);
        }
    };
    let facts = vec![
        ("database", format!("{:016x}", header.database_id).into()),
        ("number", header.number.0.into()),
        ("base", header.base.into()),
        ("previous_end", header.previous_end.into()),
        ("durable", header.durable.into()),
    ];
    out.line(0, RecordKind::FileHeader.name(), facts)?;
    ControlFlow::Continue(Some(header))
}

/// The end of the block that has `offset`; `offset` itself if a block ends there.
pub(super) fn block_end(offset: u64) -> u64 {
    offset.next_multiple_of(BLOCK as u64)
}
