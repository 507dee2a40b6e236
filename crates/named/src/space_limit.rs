//! A space limit as text: a size, or `none`, which lifts an existing limit.

use cleavedb_units as units;

/// The limit of `text`, in bytes, as [`cleavedb::Options::space_limit`] takes it.
pub fn parse(text: &str) -> Result<u64, String> {
    if text.eq_ignore_ascii_case("none") { Ok(u64::MAX) } else { units::parse(text) }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_limit_is_a_size_or_none() {
        assert_eq!(parse("11MiB"), Ok(11 << 20));
        assert_eq!([parse("none"), parse("None")], [Ok(u64::MAX), Ok(u64::MAX)]);
        assert!(parse("much").is_err());
    }
}
