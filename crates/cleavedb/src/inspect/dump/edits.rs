//! The edits of a manifest, one by one, also of one that an open would refuse.

use std::ops::ControlFlow;
use std::sync::Arc;

use cleavedb_base::record::FileIdentity;
use cleavedb_base::{Error, Result};
use cleavedb_index::TableStore;
use cleavedb_storage::File;
use cleavedb_storage::api::read_exact_at;

use super::line::Out;
use super::words;
use crate::store::manifest::{Edit, LiveFiles, next_record, read_copies};

/// Longest manifest that is read, in bytes: all of it is held in memory, and real ones are far
/// shorter.
const LEN_MAX: u64 = 1 << 30;

/// Dumps the manifest in `file`. With `state_of`, also shows the state that results from its edits;
/// the tables are not opened.
pub(super) fn dump(
    file: &dyn File,
    identity: FileIdentity,
    state_of: Option<&Arc<TableStore>>,
    out: &mut Out<'_>,
) -> ControlFlow<()> {
    let bytes = match read(file) {
        Ok(bytes) => bytes,
        Err(error) => return out.damage(error),
    };
    let mut state = state_of.map(LiveFiles::empty);
    let (mut offset, mut partition) = (0, None);
    while offset < bytes.len() {
        let begin = offset;
        match read_copies(&bytes, identity, &mut offset) {
            Ok(Some((edit, whole))) => {
                partition = edit.layout.and_then(|layout| layout.partition()).or(partition);
                words::edit(&edit, begin as u64, (offset - begin) as u64 / 2, partition, out)?;
                if !whole {
                    let what = "one of the two copies of an edit is damaged; the other one serves";
                    out.damage_at(begin as u64, what)?;
                }
                apply(&mut state, &edit, begin as u64, out)?;
            }
            Ok(None) => match next_record(&bytes, identity, begin + 1) {
                Some(next) => {
                    let what =
                        "both copies of an edit are damaged; reading goes on at the next one";
                    let error = Error::corruption(what).with("offset", begin);
                    out.damage(error.with("next", next))?;
                    (state, offset) = (None, next);
                }
                None => {
                    torn(&bytes[begin..], begin as u64, out)?;
                    break;
                }
            },
            Err(error) => {
                out.damage(error.with("offset", begin))?;
                state = None;
                offset = offset.max(begin + 1);
            }
        }
    }
    let Some(state) = state else {
        return match state_of {
            Some(_) => out.damage(Error::corruption("without every edit there is no state")),
            None => ControlFlow::Continue(()),
        };
    };
    words::state(&state.export(), offset as u64, partition, out)
}

fn read(file: &dyn File) -> Result<Vec<u8>> {
    let failed = |e| Error::io("read a manifest", e);
    let len = file.len().map_err(failed)?;
    if len > LEN_MAX {
        let what = "the file is longer than any manifest; is it one?";
        return Err(Error::corruption(what).with("length", len));
    }
    let mut bytes = vec![0; len as usize];
    read_exact_at(file, &mut bytes, 0).map_err(failed)?;
    Ok(bytes)
}

/// Applies an edit to the state; the state is dropped if the edit contradicts it.
fn apply(
    state: &mut Option<LiveFiles>,
    edit: &Edit,
    offset: u64,
    out: &mut Out<'_>,
) -> ControlFlow<()> {
    match state.as_mut().map_or(Ok(()), |state| state.apply(edit)) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            *state = None;
            // The error may name the file whose facts in the edit are wrong.
            out.damage(error.with("edit", offset))
        }
    }
}

/// Shows the bytes behind the last edit.
fn torn(rest: &[u8], offset: u64, out: &mut Out<'_>) -> ControlFlow<()> {
    if rest.iter().all(|byte| *byte == 0) {
        return ControlFlow::Continue(());
    }
    let why = "no whole edit follows: a write that a crash has torn, or one under way";
    let facts = vec![("length", (rest.len() as u64).into()), ("why", why.into())];
    out.line(offset, "torn end", facts)
}
