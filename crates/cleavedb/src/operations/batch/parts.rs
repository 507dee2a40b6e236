//! Puts of values in parts, in a batch.

use cleavedb_base::Result;
use cleavedb_base::limits::VALUE_LEN_MAX;

use super::{BatchOp, BatchOpKind, Change, KeyspaceBatch, Op, PutLifetime, WriteBatch, refuse};

impl KeyspaceBatch<'_> {
    /// Adds a put of a value in parts; see [`WriteBatch::put_parts`].
    pub fn put_parts(&mut self, key: impl AsRef<[u8]>, parts: &[&[u8]]) -> Result<&mut Self> {
        self.put_parts_with(key, parts, PutLifetime::OfKeyspace)
    }

    /// Adds a put of a value in parts, with a lifetime; see [`WriteBatch::put_parts_with`].
    pub fn put_parts_with(
        &mut self,
        key: impl AsRef<[u8]>,
        parts: &[&[u8]],
        lifetime: PutLifetime,
    ) -> Result<&mut Self> {
        self.batch.push_parts(key.as_ref(), parts, lifetime, self.keyspace)?;
        Ok(self)
    }
}

impl WriteBatch {
    /// Adds a put of the value that `parts` are one behind the other: what stands in front of a
    /// value, as a tag does, costs no copy of the value before the batch has it. Fails as
    /// [`WriteBatch::put`] does.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
    /// use std::time::Duration;
    ///
    /// use cleavedb::{PutLifetime, WriteBatch};
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put_parts("name", &[b"text:", b"Ada"])?;
    /// let hour = PutLifetime::For(Duration::from_secs(3600));
    /// batch.put_parts_with("session", &[b"text:", b"7"], hour)?;
    /// db.write(&batch)?;
    /// assert_eq!(db.get("name")?.unwrap(), "text:Ada");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn put_parts(&mut self, key: impl AsRef<[u8]>, parts: &[&[u8]]) -> Result<&mut Self> {
        self.put_parts_with(key, parts, PutLifetime::OfKeyspace)
    }

    /// As [`WriteBatch::put_parts`], with the time when the value expires.
    pub fn put_parts_with(
        &mut self,
        key: impl AsRef<[u8]>,
        parts: &[&[u8]],
        lifetime: PutLifetime,
    ) -> Result<&mut Self> {
        self.push_parts(key.as_ref(), parts, lifetime, None)?;
        Ok(self)
    }

    fn push_parts(
        &mut self,
        key: &[u8],
        parts: &[&[u8]],
        lifetime: PutLifetime,
        keyspace: Option<u32>,
    ) -> Result<()> {
        let len = parts.iter().fold(0, |len: usize, part| len.saturating_add(part.len()));
        if len > VALUE_LEN_MAX {
            return Err(refuse(key.len(), len));
        }
        Op::delete(key).check()?;
        let (mut bytes, lifetime) = (std::mem::take(&mut self.bytes), lifetime.into_lifetime());
        let start = bytes.len();
        bytes.extend_from_slice(key);
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        let (stored_key, value) = bytes[start..].split_at(key.len());
        let change = Change::One(Op::put_living(stored_key, value, lifetime));
        let fits = self.make_room(start, &change, keyspace);
        let (key_end, value_end) = (start + key.len(), Some(bytes.len()));
        self.bytes = bytes;
        match &fits {
            Ok(()) => {
                let kind = BatchOpKind::One;
                self.ops.push(BatchOp { key_end, value_end, kind, lifetime, keyspace });
            }
            Err(_) => self.bytes.truncate(start),
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use cleavedb_base::ErrorKind;
    use cleavedb_base::limits::KEY_LEN_MAX;

    use super::*;
    use crate::operations::batch::BatchOperation;
    use crate::operations::catalog::Catalog;
    use crate::settings::options::Options;

    #[test]
    fn a_value_in_parts_is_the_value() {
        let (minute, end) = (Duration::from_secs(60), UNIX_EPOCH + Duration::from_secs(7));
        let lifetimes = [
            PutLifetime::OfKeyspace,
            PutLifetime::For(minute),
            PutLifetime::Until(end),
            PutLifetime::Forever,
        ];
        let parts: [&[&[u8]]; 4] = [&[], &[b""], &[b"one"], &[b"o", b"", b"ne"]];
        let (mut whole, mut in_parts) = (WriteBatch::new(), WriteBatch::new());
        for lifetime in lifetimes {
            for parts in parts {
                let value = parts.concat();
                match lifetime {
                    PutLifetime::OfKeyspace => whole.put("key", value),
                    PutLifetime::For(ttl) => whole.put_with_ttl("key", value, ttl),
                    PutLifetime::Until(end) => whole.put_until("key", value, Some(end)),
                    PutLifetime::Forever => whole.put_until("key", value, None),
                }
                .unwrap();
                in_parts.put_parts_with("key", parts, lifetime).unwrap();
            }
        }
        in_parts.put_parts("last", &[b"1"]).unwrap();
        whole.put("last", "1").unwrap();
        let listed = |batch: &WriteBatch| format!("{:?}", batch.iter().collect::<Vec<_>>());
        assert_eq!(listed(&in_parts), listed(&whole));
        assert_eq!(in_parts.size_bytes(), whole.size_bytes());
    }

    #[test]
    fn what_does_not_fit_leaves_the_batch_as_it_was() {
        let catalog = Catalog::new(&Options::default());
        let mut batch = WriteBatch::within(&catalog.default, 2000);
        batch.put_parts("kept", &[b"a", b"b"]).unwrap();
        let mega = vec![0; 1 << 20];
        let too_long = vec![&mega[..]; (VALUE_LEN_MAX >> 20) + 1];
        let long_key = vec![0; KEY_LEN_MAX + 1];
        for refused in [
            batch.put_parts("key", &too_long).map(drop),
            batch.put_parts(&long_key, &[b"a"]).map(drop),
            batch.put_parts([7; 1900], &[b"a"]).map(drop),
        ] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        batch.put("next", "c").unwrap();
        let put = |operation| match operation {
            BatchOperation::Put { key, value, .. } => (key, value),
            other => panic!("{other:?}"),
        };
        assert!(batch.iter().map(put).eq([(&b"kept"[..], &b"ab"[..]), (b"next", b"c")]));
    }
}
