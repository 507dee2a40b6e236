//! Shows when values expire.

use cleavedb_base::Expiry;

use super::line::DumpFact;

/// When a value expires, in milliseconds since the beginning of 1970, unless it stays.
pub(super) fn ends(until: Expiry) -> Option<(&'static str, DumpFact<'static>)> {
    (!until.is_never()).then(|| ("expires", until.millis().into()))
}
