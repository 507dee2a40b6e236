//! What may be typed after `tune`.

use std::path::PathBuf;

use clap::Args;
use cleavedb::VALUE_LEN_MAX;
use cleavedb_bench::tune::search::UPDATES;
use cleavedb_cli::durability::DurabilityName;
use cleavedb_units as units;

/// The threshold search and what to do with its result.
#[derive(Args, Debug)]
pub struct TuneArgs {
    /// A database, or a directory on the disk to measure: the database of --db if not given
    pub dir: Option<PathBuf>,
    /// Seconds for the search; two sizes are measured in any case
    #[arg(long, default_value_t = 120.0, value_name = "SECONDS")]
    pub time: f64,
    /// The workload to measure, after a load and half as many updates as records: a name of `bench
    /// --list`
    #[arg(short, long, default_value = UPDATES, value_name = "NAME")]
    pub workload: String,
    /// Bytes of the stores; other sizes are scaled from 2 GiB in proportion
    #[arg(long, value_parser = units::parse, default_value = "256MiB", value_name = "BYTES")]
    pub data: u64,
    /// Let the stores fit the page cache, like data that fits memory; else repeated reads come from
    /// the disk, as for data much larger than memory
    #[arg(long)]
    pub cached: bool,
    /// What a write survives before it is acknowledged [default: as --with says, or os]
    #[arg(long, value_enum)]
    pub durability: Option<DurabilityName>,
    /// Store the result with the database: later opens that set no threshold use it
    #[arg(long)]
    pub save: bool,
    /// Measure nothing and store this size, or `default` for that of the preset
    #[arg(long, value_parser = Saved::parse, conflicts_with = "save", value_name = "BYTES")]
    pub set: Option<Saved>,
}

/// The threshold to store with a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// Nothing: the preset decides.
    Default,
    /// A length of this many bytes.
    Least(usize),
}

impl Saved {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "default" {
            return Ok(Self::Default);
        }
        let bytes = units::parse(text).map_err(|why| format!("{why}, or `default`"))?;
        if bytes > VALUE_LEN_MAX as u64 {
            return Err(format!("no value is as long; the maximum is {VALUE_LEN_MAX} bytes"));
        }
        Ok(Self::Least(bytes as usize))
    }
}
