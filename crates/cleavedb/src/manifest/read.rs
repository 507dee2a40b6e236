//! Reading a manifest: which edits it holds, and whether its end is torn or damaged.

use cleavedb_base::record::{FileIdentity, HEADER_LEN, Record, RecordKind};
use cleavedb_base::{Error, Result};

use super::edit::Edit;

/// Edits that were read.
pub(super) struct Read {
    pub(super) edits: Vec<Edit>,
    /// Bytes that they take.
    pub(super) len: usize,
    /// Edits of which one copy is damaged.
    pub(super) healed: u64,
}

/// The edits of a manifest. Each stands there twice; one whole copy is enough.
pub(super) fn read_edits(bytes: &[u8], identity: FileIdentity) -> Result<Read> {
    let mut read = Read { edits: Vec::new(), len: 0, healed: 0 };
    while let Some((edit, whole)) = read_copies(bytes, identity, &mut read.len)? {
        read.edits.push(edit);
        read.healed += u64::from(!whole);
    }
    // Every edit is synced before the next is written: a whole record behind the end means that the
    // end is damage and not a torn write. (A header alone may be the second copy's, torn as well.)
    let rest = read.len + 1..bytes.len().saturating_sub(HEADER_LEN);
    for later in rest {
        if Record::parse(&bytes[later..], identity, later as u64).is_ok() {
            let what = "an edit of the manifest is damaged; restore the database from a backup";
            return Err(Error::corruption(what).with("offset", read.len));
        }
    }
    Ok(read)
}

/// Reads the two copies of one edit at `offset`, which moves behind them, and says whether both are
/// whole.
pub(super) fn read_copies(
    bytes: &[u8],
    identity: FileIdentity,
    offset: &mut usize,
) -> Result<Option<(Edit, bool)>> {
    let parse = |at: usize| {
        let record = Record::parse(bytes.get(at..)?, identity, at as u64).ok()?;
        (record.header.kind == RecordKind::Edit).then_some(record)
    };
    if let Some(first) = parse(*offset) {
        let len = first.header.record_len();
        let second = parse(*offset + len);
        *offset += 2 * len;
        let whole = second.is_some_and(|second| second.value == first.value);
        return Ok(Some((Edit::decode(first.value)?, whole)));
    }
    // The second copy lies one record's length on; both have the same length.
    for at in *offset + HEADER_LEN..bytes.len().saturating_sub(HEADER_LEN) + 1 {
        if let Some(second) = parse(at)
            && at - *offset == second.header.record_len()
        {
            *offset = at + second.header.record_len();
            return Ok(Some((Edit::decode(second.value)?, false)));
        }
    }
    Ok(None)
}
