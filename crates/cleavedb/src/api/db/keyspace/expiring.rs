//! Values that expire: the expiry of what is there.

use std::time::{Duration, SystemTime};

use cleavedb_base::Result;

use super::Keyspace;
use crate::reads::value_reader::FoundValue;
use crate::settings::time::Lifetime;

/// Values with a time to live: of their own ([`crate::PutOptions::ttl`]), or that of their keyspace
/// ([`crate::KeyspaceOptions::ttl`]).
///
/// A value that has expired is not there any more, for no read, cursor, conditional write or
/// transaction that begins from then on. What was there when a snapshot, a cursor or a transaction
/// began stays there for it. Time is that of [`crate::Options::time`], in milliseconds, which says
/// what becomes of a clock that is wrong.
///
/// Background work gives the space of expired values back without a read: the entries of a table
/// leave the index once half of them have expired, or the first value has for
/// [`crate::Options::expired_within`]. Their values count as deleted from then on, and are
/// collected when dead values exceed [`crate::Options::space_amplification`]. A snapshot that began
/// before a value expired keeps it.
impl Keyspace {
    /// Gives the value of `key` another time to live, from now on. Returns whether the key is
    /// there. The value is written anew, but a blob stays where it is.
    pub fn set_ttl(&self, key: impl AsRef<[u8]>, ttl: Duration) -> Result<bool> {
        self.put_again(key.as_ref(), Lifetime::For(ttl))
    }

    /// Gives the value of `key` another expiry, or none, so that it stays. Returns whether the key
    /// is there. The value is written anew, but a blob stays where it is.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
    /// # let keyspace = db.keyspace("examples")?;
    /// use std::time::Duration;
    ///
    /// use cleavedb::PutOptions;
    ///
    /// keyspace.put_with("draft", "text", PutOptions::new().ttl(Duration::from_secs(60)))?;
    /// assert!(keyspace.set_expiry("draft", None)?);
    /// assert_eq!(keyspace.get_with_expiry("draft")?.unwrap().1, None);
    /// assert!(!keyspace.set_expiry("missing", None)?);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn set_expiry(&self, key: impl AsRef<[u8]>, time: Option<SystemTime>) -> Result<bool> {
        self.put_again(key.as_ref(), Lifetime::until(time))
    }

    fn put_again(&self, key: &[u8], lifetime: Lifetime) -> Result<bool> {
        self.transact_here(|transaction| {
            match transaction.find(key)? {
                None => return Ok(false),
                Some(FoundValue::Whole(value)) => transaction.put_living(key, &value, lifetime)?,
                Some(FoundValue::Blob(blob)) => transaction.renew(key, blob, lifetime),
            }
            Ok(true)
        })
    }
}
