//! Terms of one put: how durable it is, and how long its value lives.

use std::time::{Duration, SystemTime};

use crate::settings::options::Durability;
use crate::settings::time::Lifetime;

/// Terms of one put. What is not set is as the database and the keyspace say.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
/// use std::time::Duration;
///
/// use cleavedb::{Durability, PutOptions};
///
/// let hour = PutOptions::new().ttl(Duration::from_secs(3600));
/// db.put_with("session/7", "Ada", hour.durability(Durability::Os))?;
/// db.put_with("user/7", "Ada", Durability::Sync)?;
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct PutOptions {
    pub(crate) durability: Option<Durability>,
    pub(crate) lifetime: Lifetime,
}

impl PutOptions {
    /// The terms of [`crate::Keyspace::put`].
    pub fn new() -> Self {
        Self::default()
    }

    /// What the put survives. Default: [`crate::Options::durability`].
    #[must_use]
    pub fn durability(self, durability: Durability) -> Self {
        Self { durability: Some(durability), ..self }
    }

    /// The value is not there any more once `ttl` has passed since the put. Default: the time to
    /// live of the keyspace ([`crate::KeyspaceOptions::ttl`]).
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { lifetime: Lifetime::For(ttl), ..self }
    }

    /// The value is not there any more from `time` on; without a time it stays, whatever the
    /// keyspace says.
    #[must_use]
    pub fn until(self, time: Option<SystemTime>) -> Self {
        Self { lifetime: Lifetime::until(time), ..self }
    }
}

impl From<Durability> for PutOptions {
    fn from(durability: Durability) -> Self {
        Self::new().durability(durability)
    }
}
