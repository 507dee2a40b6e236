//! Keys that clients watch for their transactions.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::view::Effects;

/// A client's watch: whether a key of it was written since.
#[derive(Clone, Debug, Default)]
pub struct Watched(Arc<AtomicBool>);

impl Watched {
    /// Whether a watched key was written.
    pub fn is_touched(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The keys that are watched, and by whom.
#[derive(Default)]
pub struct Watches {
    keys: Mutex<HashMap<usize, HashMap<Box<[u8]>, Vec<Watched>>>>,
    /// Clients that watch something, which a write asks first.
    clients: AtomicUsize,
}

impl Watches {
    /// Adds keys to a client's watch. The caller holds their locks.
    pub fn add<'a>(&self, watched: impl Iterator<Item = (usize, &'a [u8])>, by: &Watched) {
        self.clients.fetch_add(1, Ordering::AcqRel);
        let mut keys = self.keys.lock();
        for (database, key) in watched {
            keys.entry(database).or_default().entry(key.into()).or_default().push(by.clone());
        }
    }

    /// Ends a client's watch of the keys that were added in so many calls.
    pub fn remove<'a>(
        &self,
        watched: impl Iterator<Item = (usize, &'a [u8])>,
        by: &Watched,
        calls: usize,
    ) {
        let mut keys = self.keys.lock();
        for (database, key) in watched {
            let Some(of_database) = keys.get_mut(&database) else { continue };
            let Some(clients) = of_database.get_mut(key) else { continue };
            clients.retain(|client| !Arc::ptr_eq(&client.0, &by.0));
            if clients.is_empty() {
                of_database.remove(key);
            }
        }
        self.clients.fetch_sub(calls, Ordering::AcqRel);
    }

    /// Marks the watches of the keys that were written. The caller holds their locks.
    pub fn touch(&self, effects: &Effects<'_>) {
        if self.clients.load(Ordering::Acquire) == 0 {
            return;
        }
        let mark = |clients: &Vec<Watched>| {
            clients.iter().for_each(|client| client.0.store(true, Ordering::Release));
        };
        let keys = self.keys.lock();
        for database in &effects.cleared {
            keys.get(database).into_iter().flatten().for_each(|(_, clients)| mark(clients));
        }
        for (database, key) in effects.keys.keys() {
            keys.get(database).and_then(|keys| keys.get(&**key)).into_iter().for_each(mark);
        }
    }
}
