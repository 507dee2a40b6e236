//! Settings that a run may vary for every engine that has them.

use clap::{Args, ValueEnum};
use cleavedb_bench::engine::{MINIATURE, no_option, of_preset};
use cleavedb_bench::{BenchError, Result, units};

/// Bits of a Bloom filter for each key.
pub const BLOOM_BITS: u8 = 10;

/// What a write survives before it is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Durability {
    /// The death of the process
    #[default]
    Os,
    /// The loss of power
    Sync,
}

impl Durability {
    /// What becomes of a log, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Os => "not synced",
            Self::Sync => "synced at each write",
        }
    }
}

/// Settings of the peers. An engine that has no use for one says so among its settings.
#[derive(Args, Clone, Debug)]
pub struct PeerArgs {
    /// Memory for the engine's own cache, beside the page cache, in place of the share of the
    /// memory limit that its authors recommend
    #[arg(long, value_parser = units::parse, value_name = "BYTES")]
    pub cache: Option<u64>,
    /// Separate values of at least this size, in place of the engine's own threshold; for engines
    /// that separate values from keys
    #[arg(long, value_parser = units::parse, value_name = "BYTES")]
    pub separate_from: Option<u64>,
    /// What a write survives before it is acknowledged; `sync` is for engines that can
    #[arg(long, value_enum, default_value = "os")]
    pub durability: Durability,
    /// Background jobs of RocksDB and threads of fjall, in place of one for each processor
    #[arg(long, value_name = "COUNT")]
    pub jobs: Option<u16>,
    /// Write buffers of RocksDB, one of them active
    #[arg(long, default_value_t = 3, value_name = "COUNT")]
    pub rocksdb_write_buffers: u16,
}

impl PeerArgs {
    /// Threads or jobs in the background: what was asked for, or one for each processor.
    pub fn background(&self) -> u16 {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.unwrap_or(processors.try_into().unwrap_or(u16::MAX))
    }
}

/// The option for stores that bound their space. RocksDB, BlobDB and LevelDB do not, so that it
/// asks nothing of them: they run beside those that do.
pub const RESERVED_SPACE: &str = "reserved-space";

/// Options by their names.
type NamedOptions = Vec<(String, String)>;

/// The option for an engine that is to run with its own defaults in place of what its authors
/// advise.
const OWN_DEFAULTS: &str = "own-defaults";

/// Whether `options` ask for an engine's own defaults, and the other options.
pub fn own_defaults(options: &[(String, String)]) -> Result<(bool, NamedOptions)> {
    let (asked, others) = options.iter().cloned().partition::<Vec<_>, _>(|it| it.0 == OWN_DEFAULTS);
    match asked.last().map(|(_, value)| &**value) {
        None | Some("off") => Ok((false, others)),
        Some("on") => Ok((true, others)),
        Some(value) => {
            let message = format!("--option {OWN_DEFAULTS}={value}: `on` or `off`");
            Err(BenchError::Usage(message))
        }
    }
}

/// The option for the most tables whose filter and index are in memory.
const OPEN_FILES: &str = "open-files";

/// How many tables `options` let an engine keep open, if they say so, and the other options.
pub fn open_files(options: &[(String, String)]) -> Result<(Option<u16>, NamedOptions)> {
    let (asked, others) = options.iter().cloned().partition::<Vec<_>, _>(|it| it.0 == OPEN_FILES);
    let number = |(_, value): &(String, String)| match value.parse() {
        Ok(number @ 1..) => Ok(number),
        _ => Err(BenchError::Usage(format!("--option {OPEN_FILES}={value}: not 1 to 65,535"))),
    };
    Ok((asked.last().map(number).transpose()?, others))
}

/// What divides the sizes of `engine`, if `options` ask for nothing else.
pub fn miniature(engine: &str, options: &[(String, String)]) -> Result<u64> {
    let known =
        |name: &str| [MINIATURE, RESERVED_SPACE].contains(&name) || of_preset(name).is_some();
    if let Some((other, _)) = options.iter().find(|(name, _)| !known(name)) {
        return Err(no_option(engine, other));
    }
    let asked = options.iter().rfind(|(name, _)| name == MINIATURE);
    asked.map_or(Ok(1), |(name, value)| match units::parse(value) {
        Ok(parts @ 1..) => Ok(parts),
        _ => Err(BenchError::Usage(format!("--option {name}={value}: not a number of parts"))),
    })
}

/// Settings as an engine describes them, from pairs of name and value.
pub fn described<const N: usize>(pairs: [(&str, String); N]) -> Vec<(String, String)> {
    pairs.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Counters as an engine reports them, from pairs of name and number.
pub fn counted<const N: usize>(pairs: [(&str, f64); N]) -> Vec<(String, f64)> {
    pairs.map(|(name, number)| (name.to_owned(), number)).into()
}

#[cfg(test)]
mod tests {
    use super::open_files;

    #[test]
    fn open_files_are_a_number_of_tables() {
        let options = |value: &str| [("open-files".to_owned(), value.to_owned())];
        assert_eq!(open_files(&options("20")).unwrap(), (Some(20), Vec::new()));
        let other = [("cache".to_owned(), "0".to_owned())];
        assert_eq!(open_files(&other).unwrap(), (None, other.to_vec()));
        for bad in ["0", "1M", "65536"] {
            assert!(open_files(&options(bad)).is_err(), "{bad}");
        }
    }
}
