//! How the values of a keyspace are compressed.

use cleavedb_base::{Error, ErrorKind, KeyspaceId, Result};
use cleavedb_values::ValueCompression;

use super::Keyspace;
use crate::writes::dictionaries;

impl Keyspace {
    /// How values of this keyspace are compressed that leave the index.
    pub fn compression(&self) -> ValueCompression {
        self.entry().compressor.how()
    }

    /// Stores with the data how values of this keyspace are compressed; `None` leaves it to the
    /// database again ([`crate::Options::value_compression`]). Handles of this open are not
    /// affected, and values that are there stay as they are. Fails with
    /// [`ErrorKind::InvalidArgument`] for the default keyspace.
    pub fn store_compression(&self, compression: Option<ValueCompression>) -> Result<()> {
        let engine = self.open_engine()?;
        engine.check_open()?;
        if self.entry().id == KeyspaceId::DEFAULT {
            let what = "the compression of the default keyspace is an option of the database: \
                        value_compression";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        self.store_options(engine, |options| options.compression = compression)
    }

    /// Makes a dictionary of 32 KiB from values that the keyspace has now, for those that are put
    /// from now on; values that are there keep theirs. A keyspace that is compressed with a
    /// dictionary ([`ValueCompression::ZstdDictionary`]) makes its first one without a call;
    /// another one is worth it when values have changed much since. It is as durable as the values
    /// that use it.
    ///
    /// Returns false if there is none: the keyspace has less than 512 KiB of values of up to 16 KiB
    /// that leave the index, they have nothing in common, or another thread makes one now. Fails
    /// with [`ErrorKind::InvalidArgument`] if the keyspace is compressed in another way.
    pub fn train_dictionary(&self) -> Result<bool> {
        self.open_engine()?;
        if !self.entry().compressor.wants_dictionary() {
            let what = "only keyspaces that are compressed with a dictionary have one: see \
                        ValueCompression::ZstdDictionary";
            return Err(Error::new(ErrorKind::InvalidArgument, what).with("keyspace", self.name()));
        }
        dictionaries::make(self.inner.writable()?, self.entry())
    }
}
