//! Whether values expire where a merge goes.

use cleavedb_base::EncodedKey;

use crate::operations::catalog::CatalogEntry;
use crate::store::state::ReadStates;

/// Whether a merge of `key` may meet a value that expires, or begin one: then it has to read, since
/// an operand does not know when it was written, nor when it goes.
#[inline]
pub(crate) fn may_expire(states: &ReadStates, keyspace: &CatalogEntry, key: &[u8]) -> bool {
    if !keyspace.lifetime.is_for_good(keyspace.lifetime) {
        return true;
    }
    let (key, state) = (EncodedKey::new(keyspace.id, key), states.load());
    state.memtables.iter().any(|slot| slot.lifetimes.may_end(key.as_bytes()))
        || state.version.may_expire(key.as_bytes())
}
