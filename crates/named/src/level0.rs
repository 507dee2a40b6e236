//! How level 0 of the index is kept, whatever the preset, as text: the option `level0`.

use cleavedb::tuning::Level0;

/// Default number of partitions: that of the preset `ohdb`.
const PARTITIONS: usize = 10;

/// Reads `whole`, `partitions` or `partitions:N`; in experiments also `hyperleveldb`.
pub fn parse(text: &str) -> Result<Level0, String> {
    let (name, count) = text.split_once(':').map_or((text, None), |(name, n)| (name, Some(n)));
    match (name, count) {
        ("whole", None) => Ok(Level0::Whole),
        #[cfg(feature = "experiments")]
        ("hyperleveldb", None) => Ok(Level0::HyperLevelDb),
        ("partitions", None) => Ok(Level0::Partitions(PARTITIONS)),
        ("partitions", Some(count)) => match count.parse() {
            Ok(count @ 2..=256) => Ok(Level0::Partitions(count)),
            _ => Err("there are 2 to 256 partitions".to_owned()),
        },
        _ => Err("there are whole, partitions and partitions:N".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Level0, parse};

    #[test]
    fn level_0_has_a_name_for_each_way_to_keep_it() {
        assert_eq!(parse("whole"), Ok(Level0::Whole));
        #[cfg(feature = "experiments")]
        assert_eq!(parse("hyperleveldb"), Ok(Level0::HyperLevelDb));
        assert_eq!(parse("partitions"), Ok(Level0::Partitions(10)));
        assert_eq!(parse("partitions:3"), Ok(Level0::Partitions(3)));
        for text in ["", "partition", "whole:2", "hyperleveldb:1", ":3"] {
            assert!(parse(text).unwrap_err().contains("partitions:N"), "{text}");
        }
        for text in ["partitions:", "partitions:1", "partitions:257", "partitions:x"] {
            assert!(parse(text).unwrap_err().contains("2 to 256"), "{text}");
        }
    }
}
