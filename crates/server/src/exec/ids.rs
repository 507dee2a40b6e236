//! Ids of collections: none is given twice, whatever happens.

use cleavedb::{Durability, Error, Keyspace};
use parking_lot::Mutex;

use super::failed::failed;
use super::{Answer, Halt};

/// Ids that are reserved by one write. Those that are left when a server ends are never used.
const LEASE: u64 = 4096;

/// The key of the first id that is not reserved.
const NEXT: &[u8] = b"next id";

/// The ids that this server has reserved.
pub(super) struct Ids(Mutex<Lease>);

struct Lease {
    next: u64,
    end: u64,
}

impl Ids {
    /// The ids behind those of `own`, which has none reserved if it is new.
    pub(super) fn open(own: &Keyspace) -> cleavedb::Result<Self> {
        let end = match own.get(NEXT)? {
            None => 1,
            Some(bytes) => bytes[..].try_into().map(u64::from_le_bytes).map_err(|_| {
                Error::corruption("the server's record of the next id has not 8 bytes")
            })?,
        };
        Ok(Self(Mutex::new(Lease { next: end, end })))
    }

    /// The next id. Without `may_wait` it stops where it would have to reserve some.
    pub(super) fn next(&self, own: &Keyspace, may_wait: bool) -> Answer<u64> {
        // Another thread may hold it over its write.
        let lease = if may_wait { Some(self.0.lock()) } else { self.0.try_lock() };
        let mut lease = lease.ok_or(Halt::Wait)?;
        if lease.next == lease.end {
            if !may_wait {
                return Err(Halt::Wait);
            }
            let end = lease.end + LEASE;
            // Elements under these ids come behind it in the log, so none survives without it.
            own.put_with(NEXT, end.to_le_bytes(), Durability::Os).map_err(failed)?;
            lease.end = end;
        }
        lease.next += 1;
        Ok(lease.next - 1)
    }
}

#[cfg(test)]
mod tests {
    use cleavedb::{Db, Options};

    use super::*;

    #[test]
    fn an_id_is_given_once_whatever_ends_the_server() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Options::default()).unwrap();
        let own = db.keyspace("server").unwrap();
        let mut last = 0;
        for ids in 1..4 {
            let lease = Ids::open(&own).unwrap();
            assert!(matches!(lease.next(&own, false), Err(Halt::Wait)));
            for _ in 0..ids * LEASE / 2 + 1 {
                let id = lease.next(&own, true).unwrap();
                assert!(id > last, "{id} behind {last}");
                last = id;
            }
        }
    }
}
