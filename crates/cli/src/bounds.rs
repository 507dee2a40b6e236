//! The range of keys of a command, from bounds and prefix.

use std::ffi::OsString;

use crate::args::BoundArgs;
use crate::encoding::from_argument;
use crate::failure::Result;

/// A bound of a range; `None` is an end of all keys.
type Bound = Option<Vec<u8>>;

/// The intersection of `--from`, `--to` and `--prefix`.
pub fn bounds(args: &BoundArgs, hex: bool) -> Result<(Bound, Bound)> {
    let bytes = |argument: &Option<OsString>| {
        argument.as_deref().map(|argument| from_argument(argument, hex)).transpose()
    };
    let (from, to, prefix) = (bytes(&args.from)?, bytes(&args.to)?, bytes(&args.prefix)?);
    let end = prefix.as_deref().and_then(successor);
    let to = [to, end].into_iter().flatten().min();
    Ok((from.max(prefix), to))
}

/// The least key above all keys with `prefix`; `None` if there is none.
pub fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut successor = prefix[..=last].to_vec();
    successor[last] += 1;
    Some(successor)
}

#[cfg(test)]
mod tests {
    use super::successor;

    #[test]
    fn the_successor_of_a_prefix_is_above_all_its_keys() {
        assert_eq!(successor(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(successor(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(successor(b"\xff\xff"), None);
        assert_eq!(successor(b""), None);
    }
}
