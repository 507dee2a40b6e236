//! What may be done with keyspaces.

use std::time::Duration;

use clap::Subcommand;
use cleavedb::ValueCompression;
use cleavedb_named as named;

use crate::expiry;

/// What to do with keyspaces.
#[derive(Debug, Subcommand)]
pub enum KeyspaceCommand {
    /// Print the names of all keyspaces but the default one, and the options of each
    List,
    /// Create a keyspace, which must not exist
    Create {
        /// The name of the keyspace, of 1 to 255 bytes
        name: String,
        /// Length from which on its values leave the index [default: that of the database]
        #[arg(long, value_parser = named::size, value_name = "BYTES")]
        min_separated: Option<usize>,
        /// How long its values live that get no time of their own: 90s, 15m, 12h, 7days [default:
        /// for good]
        #[arg(long, value_parser = expiry::ttl, value_name = "DURATION")]
        ttl: Option<Duration>,
        /// How its values outside the index are compressed, those of min_separated bytes and more:
        /// none, lz4, zstd or zstd-dictionary [default: as those of the database]
        #[arg(long, value_parser = named::value_compression, value_name = "HOW")]
        compression: Option<ValueCompression>,
    },
    /// Make a dictionary of the values that a keyspace has now, for those that follow
    ///
    /// A keyspace that is compressed with zstd-dictionary makes its first one by itself; another
    /// one is worth it when values have changed much. Values that are there stay as they are.
    Train {
        /// The name of the keyspace
        name: String,
    },
    /// Remove a keyspace and everything in it
    Drop {
        /// The name of the keyspace
        name: String,
        /// Do not end before its keys and values have left every file of the database
        #[arg(long)]
        collect: bool,
    },
}
