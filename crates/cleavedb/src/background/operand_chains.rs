//! Writes of operands count those that their keys have, and note long chains.

use cleavedb_base::checksum::hash64;
use cleavedb_base::{EncodedKey, Result};

use crate::engine::Engine;
use crate::operations::catalog::CatalogEntry;
use crate::settings::merge::ChainLength;

/// Fails unless a merge of `key` can be done, and notes that it is about to be committed.
pub(crate) fn check_merge(
    engine: &Engine,
    keyspace: &CatalogEntry,
    key: &[u8],
    stored: &[u8],
) -> Result<()> {
    engine.merges.operators().check_stored(stored)?;
    let encoded_key = EncodedKey::new(keyspace.id, key);
    note_long(engine, encoded_key.as_bytes(), hash64(encoded_key.as_bytes(), 0));
    Ok(())
}

/// Notes a tree key into which a merge is about to be committed, if it has many operands already
/// and this is one of the merges that count them.
#[inline]
pub(crate) fn note_long(engine: &Engine, encoded_key: &[u8], hash: u64) {
    let chains = &engine.merges.long_chains;
    if chains.is_counted(hash, engine.commit.visible())
        && chain_in_memory(engine, encoded_key, hash).is_long()
    {
        chains.add(encoded_key);
    }
}

/// The newest operands of a tree key, as far as they lie in MemTables.
pub(crate) fn chain_in_memory(engine: &Engine, encoded_key: &[u8], hash: u64) -> ChainLength {
    let (state, visible) = engine.state.look(|| engine.commit.visible());
    let memtables = state.memtables.iter();
    let versions = memtables.flat_map(|slot| slot.table.versions(encoded_key, hash, visible));
    let mut length = ChainLength::default();
    versions.take_while(|hit| !hit.kind.hides_older()).for_each(|hit| length.add(hit.value));
    length
}
