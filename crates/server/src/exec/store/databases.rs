//! Which keyspace has the keys of each database: `SWAPDB` changes that, and no key.
//!
//! The keyspaces are `0:k`, `1:k` and so on, and their numbers are *places*. A database lies at the
//! place of its number, unless the server's record `p`, database (big-endian, 2 bytes) names
//! another one (little-endian, 2 bytes). The registers of collections and of ends name places.

use cleavedb::{Db, Error, ErrorKind, Keyspace};

use crate::exec::effects::Effects;

/// The first byte of the keys of the records.
const PLACES: u8 = b'p';

/// The place whose keyspace has this name; none of another one.
pub fn key_place(keyspace: &str) -> Option<usize> {
    keyspace.strip_suffix(":k")?.parse().ok()
}

/// The key of the record of a database's place.
pub(super) fn place_key(database: usize) -> [u8; 3] {
    let [high, low] = (database as u16).to_be_bytes();
    [PLACES, high, low]
}

/// The record of a place.
pub(super) fn place_record(place: usize) -> [u8; 2] {
    (place as u16).to_le_bytes()
}

/// The database and the place that a server's record tells, if it is such a one.
pub fn placed(key: &[u8], record: &[u8]) -> Option<(usize, usize)> {
    let (&[PLACES, high, low], &[first, second]) = (key, record) else { return None };
    Some((u16::from_be_bytes([high, low]).into(), u16::from_le_bytes([first, second]).into()))
}

/// Where the keys of a database lie.
#[derive(Clone)]
pub(super) struct Database {
    pub(super) place: usize,
    pub(super) keys: Keyspace,
}

/// All databases, by their numbers.
#[derive(Clone)]
pub(super) struct Databases {
    pub(super) all: Vec<Database>,
    /// Whether they are being swapped: what is read belongs to before or to behind that.
    pub(super) is_changing: bool,
}

impl Databases {
    /// The first databases of `db`, which are made if they are not there, as `own` places them.
    /// Fails if another one has keys.
    pub(super) fn open(db: &Db, own: &Keyspace, count: usize) -> cleavedb::Result<Self> {
        let places = places(own, count)?;
        for other in db.keyspaces()? {
            let Some(place) = key_place(other.name()) else { continue };
            let number = places.iter().position(|it| *it == place).unwrap_or(place);
            if number >= count && other.range(..).keys_only().next().transpose()?.is_some() {
                let why = format!(
                    "the store has keys in database {number}: start with --databases {} or more",
                    number + 1
                );
                return Err(Error::new(ErrorKind::InvalidArgument, why));
            }
        }
        let database = |place: &usize| {
            db.keyspace(&format!("{place}:k")).map(|keys| Database { place: *place, keys })
        };
        let all = places[..count].iter().map(database).collect::<cleavedb::Result<_>>()?;
        Ok(Self { all, is_changing: false })
    }

    /// The number of the database at a place, and where its keys lie.
    pub(super) fn at(&self, place: usize) -> Option<(usize, &Keyspace)> {
        let mut all = self.all.iter().enumerate();
        all.find(|(_, it)| it.place == place).map(|(number, it)| (number, &it.keys))
    }

    /// The databases as the effects of commands leave them.
    pub(super) fn swapped(&self, effects: &Effects<'_>) -> Self {
        let all = (0..self.all.len()).map(|number| self.all[effects.origin(number)].clone());
        Self { all: all.collect(), is_changing: false }
    }
}

/// The places of databases, of at least the first ones.
fn places(own: &Keyspace, count: usize) -> cleavedb::Result<Vec<usize>> {
    let damaged = || Error::corruption("the server's record of the place of a database");
    let mut places: Vec<usize> = (0..count).collect();
    for item in own.range([PLACES]..[PLACES + 1]) {
        let item = item?;
        let (database, place) = placed(&item.key, &item.value).ok_or_else(damaged)?;
        places.extend(places.len()..=database);
        places[database] = place;
    }
    let mut sorted = places.clone();
    sorted.sort_unstable();
    if sorted.into_iter().eq(0..places.len()) { Ok(places) } else { Err(damaged()) }
}

#[cfg(test)]
mod tests {
    use cleavedb::Options;

    use crate::command::run_lines;
    use crate::exec::{KeyPlace, Reads, Store};

    use super::*;

    /// Each transaction swaps both databases and gives the first one its number, so that they have
    /// two numbers in a row.
    #[test]
    fn who_reads_sees_databases_before_or_behind_a_swap() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(Db::open(dir.path(), Options::default()).unwrap(), 2).unwrap();
        let turn = |number: usize| {
            run_lines(&store, &["swapdb 0 1".to_owned(), format!("set turn {number}")])
        };
        turn(0);
        turn(1);
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (2..3000).for_each(|number| _ = turn(number));
                is_over.store(true, std::sync::atomic::Ordering::Release);
            });
            while !is_over.load(std::sync::atomic::Ordering::Acquire) {
                let reads = store.reads_at_once(true);
                let [first, second] = [0, 1].map(|database| {
                    let record = reads.get(KeyPlace::Keys(database), b"turn").unwrap().unwrap();
                    str::from_utf8(&record[1..]).unwrap().parse::<usize>().unwrap()
                });
                assert_eq!(first, second + 1);
            }
        });
    }

    #[test]
    fn swapped_databases_are_those_of_the_next_open() {
        let dir = tempfile::tempdir().unwrap();
        let open = |databases| Store::open(Db::open(dir.path(), Options::default())?, databases);
        let keys = |store: &Store| {
            let reads = store.reads(true);
            (0..store.databases())
                .filter(|database| reads.has(KeyPlace::Keys(*database), b"key").unwrap())
                .collect::<Vec<_>>()
        };
        let store = open(4).unwrap();
        run_lines(&store, &["set key value", "swapdb 0 3", "swapdb 3 1"].map(str::to_owned));
        assert_eq!((keys(&store), store.places()), (vec![1], vec![3, 0, 2, 1]));
        drop(store);
        let why = open(1).err().unwrap().to_string();
        assert!(why.contains("keys in database 1: start with --databases 2"), "{why}");
        let store = open(2).unwrap();
        assert_eq!(keys(&store), [1]);
        run_lines(&store, &["swapdb 0 1".to_owned()]);
        drop(store);
        let store = open(5).unwrap();
        assert_eq!((keys(&store), store.places()), (vec![0], vec![0, 3, 2, 1, 4]));
        store.own.put(place_key(1), place_record(2)).unwrap();
        drop(store);
        assert!(open(5).err().unwrap().to_string().contains("the place of a database"));
    }
}
