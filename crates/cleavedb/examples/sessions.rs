//! A store of sessions that expire, beside users that stay: two keyspaces, changed together.
//!
//! `cargo run -p cleavedb --example sessions`

use std::sync::Arc;
use std::time::Duration;

use cleavedb::{Bytes, Db, Keyspace, KeyspaceOptions, ManualTime, Result, encode};

/// How long a session lives without being used.
const IDLE: Duration = Duration::from_secs(15 * 60);

struct Sessions {
    db: Db,
    users: Keyspace,
    sessions: Keyspace,
}

impl Sessions {
    fn open(db: Db) -> Result<Self> {
        let users = db.keyspace("users")?;
        let sessions = match db.find_keyspace("sessions")? {
            Some(sessions) => sessions,
            None => {
                let options = KeyspaceOptions { ttl: Some(IDLE), ..KeyspaceOptions::default() };
                db.create_keyspace("sessions", options)?
            }
        };
        Ok(Self { db, users, sessions })
    }

    /// Begins a session, and counts it: both or neither.
    fn log_in(&self, user: &str, session: u64) -> Result<()> {
        self.db.transact(|transaction| {
            let mut users = transaction.keyspace(&self.users);
            let times = users.get(user)?.map_or(0, |times| number(&times));
            users.put(user, (times + 1).to_be_bytes())?;
            // The session gets the time to live of its keyspace.
            transaction.keyspace(&self.sessions).put(encode::key(&session), user)
        })
    }

    /// The user of a session, which lives on from now; `None` once it has expired.
    fn touch(&self, session: u64) -> Result<Option<Bytes>> {
        let key = encode::key(&session);
        let user = self.sessions.get(&key)?;
        self.sessions.set_ttl(&key, IDLE)?;
        Ok(user)
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_be_bytes)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    // A clock that is moved by hand; without it, time is that of the system.
    let time = Arc::new(ManualTime::default());
    let db = Db::builder(dir.path().join("sessions.db")).time(time.clone()).open()?;
    let store = Sessions::open(db)?;

    store.log_in("ada", 1)?;
    store.log_in("bob", 2)?;
    time.advance(IDLE * 2 / 3);
    assert_eq!(store.touch(1)?.as_deref(), Some(&b"ada"[..]));
    time.advance(IDLE * 2 / 3);

    // Only the session that was used is still there; users stay.
    assert_eq!((store.touch(1)?.is_some(), store.touch(2)?), (true, None));
    assert_eq!((store.sessions.range(..).count(), store.users.range(..).count()), (1, 2));
    store.log_in("bob", 3)?;
    assert_eq!(store.users.get("bob")?.map(|times| number(&times)), Some(2));
    println!("{} of 3 sessions are alive", store.sessions.range(..).keys_only().count());
    Ok(())
}
