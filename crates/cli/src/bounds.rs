//! The range of keys of a command, from bounds and prefix.

use std::ffi::OsString;
use std::ops::Bound;

use cleavedb::{KeyRange, Prefix};

use crate::args::BoundArgs;
use crate::encoding::from_argument;
use crate::failure::{Failure, Result};

/// A bound of a range; `None` is an end of all keys.
pub type KeyBound = Option<Vec<u8>>;

/// The intersection of `--from`, `--to` and `--prefix`. One that is empty whatever keys there are
/// is a slip: keys in the wrong order were once "deleted 0 keys".
pub fn bounds(args: &BoundArgs, hex: bool) -> Result<(KeyBound, KeyBound)> {
    let bytes = |argument: &Option<OsString>| {
        argument.as_deref().map(|argument| from_argument(argument, hex)).transpose()
    };
    let (from, to, prefix) = (bytes(&args.from)?, bytes(&args.to)?, bytes(&args.prefix)?);
    let end = prefix.as_deref().and_then(end_of_prefix);
    let to = [to, end].into_iter().flatten().min();
    let from = from.max(prefix);
    if to.as_ref().is_some_and(|to| from.as_ref() > Some(to)) {
        let what = "no key can be in this range: --from lies behind --to, or one of them does not \
                    fit --prefix; give the lesser key as --from";
        return Err(Failure::Usage(what.to_owned()));
    }
    Ok((from, to))
}

/// The least key above all keys with `prefix`; `None` if there is none.
fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    match Prefix(prefix).ends().1 {
        Bound::Excluded(end) => Some(end.into_owned()),
        Bound::Included(_) | Bound::Unbounded => None,
    }
}
