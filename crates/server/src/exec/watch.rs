//! Keys that clients watch for their transactions.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::Effects;

/// A client's watch: whether a key of it was written since.
#[derive(Clone, Debug, Default)]
pub struct ClientWatch(Arc<AtomicBool>);

impl ClientWatch {
    /// Whether a watched key was written.
    pub fn is_touched(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A key that is watched.
pub struct WatchedKey {
    /// The number of its database.
    pub database: usize,
    /// The name of the key.
    pub key: Vec<u8>,
    /// Whether it had a value: else it is not written when its database is emptied.
    pub was_there: bool,
    /// When its value ends: that is a write, too.
    pub until: Option<u64>,
}

/// The watched keys of a database.
type KeysOfDatabase = HashMap<Box<[u8]>, Watchers>;

/// The clients that watch a key, and whether it had a value then.
type Watchers = Vec<(ClientWatch, bool)>;

/// The keys that are watched, and by whom.
#[derive(Default)]
pub struct Watches {
    keys: Mutex<HashMap<usize, KeysOfDatabase>>,
    /// Clients that watch something, which a write asks first.
    clients: AtomicUsize,
}

impl Watches {
    /// Adds keys to a client's watch. The caller holds their locks.
    pub fn add(&self, watched: &[WatchedKey], by: &ClientWatch) {
        self.clients.fetch_add(1, Ordering::AcqRel);
        let mut keys = self.keys.lock();
        for WatchedKey { database, key, was_there, .. } in watched {
            let of_database = keys.entry(*database).or_default();
            let watchers = of_database.entry(key.as_slice().into()).or_default();
            watchers.push((by.clone(), *was_there));
        }
    }

    /// Ends a client's watch of the keys that were added in that number of calls.
    pub fn remove(&self, watched: &[WatchedKey], by: &ClientWatch, calls: usize) {
        let mut keys = self.keys.lock();
        for WatchedKey { database, key, .. } in watched {
            let Some(of_database) = keys.get_mut(database) else { continue };
            let Some(watchers) = of_database.get_mut(key.as_slice()) else { continue };
            watchers.retain(|(watcher, _)| !Arc::ptr_eq(&watcher.0, &by.0));
            if watchers.is_empty() {
                of_database.remove(key.as_slice());
            }
        }
        self.clients.fetch_sub(calls, Ordering::AcqRel);
    }

    /// Marks the watches of the keys that were written. The caller holds their locks.
    pub fn touch(&self, effects: &Effects<'_>) {
        if self.clients.load(Ordering::Acquire) == 0 {
            return;
        }
        let mark = |(watcher, _): &(ClientWatch, bool)| watcher.0.store(true, Ordering::Release);
        let keys = self.keys.lock();
        for database in &effects.cleared {
            let watchers = keys.get(database).into_iter().flat_map(HashMap::values).flatten();
            watchers.filter(|(_, was_there)| *was_there).for_each(mark);
        }
        for (origin, key) in effects.keys.keys() {
            for database in [*origin, effects.number(*origin)] {
                let watchers = keys.get(&database).and_then(|keys| keys.get(&**key));
                watchers.into_iter().flatten().for_each(mark);
            }
        }
    }

    /// Marks the watches of the keys that a swap of databases is going to give or to take a value;
    /// `has` says whether a database has a key. The caller holds all locks.
    pub fn touch_swapped(&self, effects: &Effects<'_>, has: impl Fn(usize, &[u8]) -> bool) {
        let keys = self.keys.lock();
        for (database, origin) in effects.swapped() {
            for (key, watchers) in keys.get(&database).into_iter().flatten() {
                let gets_value = has(origin, key);
                let written = watchers.iter().filter(|(_, was_there)| gets_value || *was_there);
                written.for_each(|(watcher, _)| watcher.0.store(true, Ordering::Release));
            }
        }
    }
}
