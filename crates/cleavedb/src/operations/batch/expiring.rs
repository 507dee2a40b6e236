//! Puts of values that expire, in a batch.

use std::time::{Duration, SystemTime};

use cleavedb_base::Result;

use super::{KeyspaceBatch, Op, WriteBatch};
use crate::settings::time::Lifetime;

impl KeyspaceBatch<'_> {
    /// Adds a put of a value that expires; see [`WriteBatch::put_with_ttl`].
    pub fn put_with_ttl(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<&mut Self> {
        let op = Op::put_living(key.as_ref(), value.as_ref(), Lifetime::For(ttl));
        self.batch.push(op, self.keyspace)?;
        Ok(self)
    }

    /// Adds a put of a value that expires at `time`; see [`WriteBatch::put_until`].
    pub fn put_until(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: Option<SystemTime>,
    ) -> Result<&mut Self> {
        let op = Op::put_living(key.as_ref(), value.as_ref(), Lifetime::until(time));
        self.batch.push(op, self.keyspace)?;
        Ok(self)
    }
}

impl WriteBatch {
    /// Adds a put of a value that is not there any more once `ttl` has passed since the write of
    /// the batch. Fails as [`WriteBatch::put`] does.
    pub fn put_with_ttl(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<&mut Self> {
        self.push(Op::put_living(key.as_ref(), value.as_ref(), Lifetime::For(ttl)), None)?;
        Ok(self)
    }

    /// Adds a put of a value that is not there any more from `time` on; without a time it stays,
    /// whatever the keyspace says ([`crate::KeyspaceOptions::ttl`]). Fails as [`WriteBatch::put`]
    /// does.
    pub fn put_until(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: Option<SystemTime>,
    ) -> Result<&mut Self> {
        self.push(Op::put_living(key.as_ref(), value.as_ref(), Lifetime::until(time)), None)?;
        Ok(self)
    }
}
