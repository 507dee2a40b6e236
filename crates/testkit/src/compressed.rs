//! Keyspaces whose values are compressed with a dictionary: what is put is read, over flushes,
//! collections, new dictionaries, closes, kills and drops.

use std::collections::BTreeMap;

use cleavedb::{
    Bytes, ChangeKind, Db, Durability, Keyspace, KeyspaceOptions, ValueCompression, WriteBatch,
};
use cleavedb_storage::Name;
use cleavedb_storage_sim::sim::{Image, Rng};

use crate::disks::Disks;
use crate::follow::{ALL, keeping};
use crate::read::Checked;
use crate::session::{open_all, open_secondary};
use crate::setup::Setup;

/// Values of a round: more than a dictionary is made of.
const VALUES: u64 = 700;

/// A text that dictionaries of these values hold, and nothing else does.
const COMMON: &str = "the quick customer jumps over the lazy newsletter";

/// A value of about a kilobyte as services store them, all of one kind.
pub fn json(n: u64) -> Vec<u8> {
    let mut rng = Rng::new(n);
    let items: Vec<String> = (0..8)
        .map(|_| {
            let (id, price) = (rng.below(1_000_000), rng.below(100_000));
            format!(
                "{{\"product\":{id},\"quantity\":{},\"price\":{}.{:02},\"currency\":\"EUR\"}}",
                1 + id % 9,
                price / 100,
                price % 100
            )
        })
        .collect();
    format!(
        "{{\"order\":{n},\"customer\":\"c{:08x}\",\"email\":\"user{}@example.org\",\
         \"note\":\"{COMMON}\",\"address\":{{\"street\":\"{} Main Street\",\"zip\":\"{:05}\"}},\
         \"items\":[{}],\"paid\":{}}}",
        rng.below(1 << 32),
        rng.below(1 << 20),
        rng.below(2000),
        rng.below(100_000),
        items.join(","),
        n.is_multiple_of(2)
    )
    .into_bytes()
}

/// What a database holds by keyspace.
type State = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// A put or a delete: its keyspace, its key, and the value of a put.
type Told = (String, Vec<u8>, Option<Vec<u8>>);

/// A database with compressed keyspaces, and what it must hold.
struct Compressed<'a> {
    setup: &'a Setup,
    rng: Rng,
    state: State,
    disks: Disks,
    db: Option<Db>,
}

fn failed(error: cleavedb::Error) -> String {
    error.to_string()
}

impl Compressed<'_> {
    fn db(&self) -> &Db {
        self.db.as_ref().expect("it is open")
    }

    fn keyspace(&self, name: &str) -> Checked<Keyspace> {
        let with_dictionary = KeyspaceOptions {
            compression: Some(ValueCompression::ZstdDictionary),
            ..KeyspaceOptions::default()
        };
        if let Some(found) = self.db().find_keyspace(name).map_err(failed)? {
            return Ok(found);
        }
        self.db().create_keyspace(name, with_dictionary).map_err(failed)
    }

    /// Puts many values, and deletes a few.
    fn fill(&mut self, name: &str) -> Checked {
        let keyspace = self.keyspace(name)?;
        let mut batch = WriteBatch::new();
        for _ in 0..VALUES {
            let (number, n) = (self.rng.below(VALUES * 2), self.rng.below(u64::MAX / 2));
            let key = format!("key{number:06}").into_bytes();
            let values = self.state.entry(name.to_owned()).or_default();
            if self.rng.chance(5) {
                keyspace.delete_with(&key, Durability::Os).map_err(failed)?;
                values.remove(&key);
                continue;
            }
            let value = json(n);
            match self.rng.chance(30) {
                true => drop(batch.keyspace(&keyspace).put(&key, &value).map_err(failed)?),
                false => keyspace.put_with(&key, &value, Durability::Os).map_err(failed)?,
            }
            values.insert(key, value);
            self.db().write_with(&batch, Durability::Os).map_err(failed)?;
            batch.clear();
        }
        Ok(())
    }

    /// Loads many values behind all others.
    fn load(&mut self, name: &str) -> Checked {
        let keyspace = self.keyspace(name)?;
        let seed = self.rng.below(1 << 32);
        let pairs = (0..4 * VALUES).map(|n| (format!("load{n:06}").into_bytes(), json(seed + n)));
        keyspace.ingest(pairs.clone()).map_err(failed)?;
        self.state.entry(name.to_owned()).or_default().extend(pairs);
        Ok(())
    }

    fn check(&self) -> Checked {
        for (name, expected) in &self.state {
            let keyspace = self.keyspace(name)?;
            let mut range = keyspace.range(..);
            for (key, value) in expected {
                let item = range.next().ok_or_else(|| format!("{name}: a key is missing"))?;
                let item = item.map_err(failed)?;
                if item.key != key || item.value != value {
                    return Err(format!("{name}: {:?} is wrong in a scan", item.key));
                }
            }
            if range.next().is_some() {
                return Err(format!("{name}: there is a key too many"));
            }
            for (key, value) in expected.iter().step_by(7) {
                if keyspace.get(key).map_err(failed)?.as_ref() != Some(&Bytes::from(value.clone()))
                {
                    return Err(format!("{name}: {key:?} is wrong"));
                }
            }
        }
        let report = self.db().verify().map_err(failed)?;
        report.problems.first().map_or(Ok(()), |problem| Err(problem.to_string()))
    }

    /// Every put and delete that changes tell.
    fn told(&self) -> Checked<Vec<Told>> {
        let mut told = Vec::new();
        for batch in self.db().changes(0).map_err(failed)? {
            for change in batch.map_err(failed)?.changes {
                let keyspace = change.keyspace.to_string();
                match change.kind {
                    ChangeKind::Put { key, value, .. } => {
                        told.push((keyspace, key.to_vec(), Some(value.to_vec())));
                    }
                    ChangeKind::Delete { key } => told.push((keyspace, key.to_vec(), None)),
                    _ => {}
                }
            }
        }
        Ok(told)
    }

    fn reopen(&mut self) -> Checked {
        match self.rng.chance(50) {
            true => _ = self.db.take().expect("it is open").close().map_err(failed)?,
            false => self.disks = self.disks.kill(),
        }
        self.db = None;
        self.db = Some(open_all(&self.disks.storages(), self.setup).map_err(failed)?);
        self.check()
    }

    fn work(&self) -> Checked {
        self.db().flush().and_then(|()| self.db().compact()).map_err(failed)?;
        self.db().collect().map_err(failed)
    }
}

/// Runs the rounds of `seed`, and checks that a dropped keyspace takes its dictionaries with it.
pub fn dictionaries_stay(setup: &Setup, seed: u64) -> Checked {
    let disks = Disks::new(setup);
    let db = Some(open_all(&disks.storages(), setup).map_err(failed)?);
    let mut this = Compressed { setup, rng: Rng::new(seed), state: State::new(), disks, db };
    for round in 0..3 {
        this.fill("orders")?;
        if round == 0 {
            this.fill("dropped")?;
        }
        if this.rng.chance(30) {
            this.load("orders")?;
        }
        if this.rng.chance(50) {
            this.work()?;
        }
        this.check()?;
        this.reopen()?;
        if round > 0 && !this.keyspace("orders")?.train_dictionary().map_err(failed)? {
            return Err("there are enough values for another dictionary".to_owned());
        }
    }
    let before = this.db().metrics();
    this.fill("orders")?;
    let after = this.db().metrics();
    let from = after.compressed_from - before.compressed_from;
    let to = after.compressed_to - before.compressed_to;
    if from < 2 * to || from == 0 {
        return Err(format!("{to} bytes of {from} are left, more than half"));
    }
    this.db().drop_keyspace("dropped").map_err(failed)?;
    this.state.remove("dropped");
    this.check()?;
    this.db().drop_keyspace("orders").map_err(failed)?;
    this.state.clear();
    if file_with_common(&this.disks).is_none() {
        return Err("no dictionary has what its values have in common".to_owned());
    }
    this.db().collect_dropped().map_err(failed)?;
    match file_with_common(&this.disks) {
        Some(name) => Err(format!("{name} has a piece of a dictionary")),
        None => this.reopen(),
    }
}

/// A file that has the text of dictionaries.
fn file_with_common(disks: &Disks) -> Option<String> {
    let images = disks.images();
    let all = images.iter().flat_map(|image| image.list().into_iter().map(move |it| (image, it.0)));
    let has = |image: &Image, name: &Name| {
        let bytes = image.read(name).unwrap_or_default();
        bytes.windows(COMMON.len()).any(|part| part == COMMON.as_bytes())
    };
    all.filter(|(image, name)| has(image, name)).map(|(_, name)| name.to_string()).next()
}

/// A reader beside the writer reads values of dictionaries that the writer makes meanwhile.
pub fn a_reader_follows(setup: &Setup, seed: u64) -> Checked {
    let disks = Disks::new(setup);
    let db = Some(open_all(&disks.storages(), setup).map_err(failed)?);
    let mut this = Compressed { setup, rng: Rng::new(seed), state: State::new(), disks, db };
    let reader = open_secondary(&this.disks.storages(), setup).map_err(failed)?;
    for round in 0..3 {
        this.fill("orders")?;
        if round == 1 {
            this.keyspace("orders")?.train_dictionary().map_err(failed)?;
            this.fill("orders")?;
            this.work()?;
        }
        reader.catch_up().map_err(failed)?;
        let orders = reader.find_keyspace("orders").map_err(failed)?;
        let orders = orders.ok_or("the reader does not know the keyspace")?;
        let found: Result<BTreeMap<_, _>, _> = orders
            .range(..)
            .map(|item| item.map(|it| (it.key.to_vec(), it.value.to_vec())))
            .collect();
        if found.map_err(failed)? != this.state["orders"] {
            return Err(format!("round {round}: the reader has other values"));
        }
    }
    Ok(())
}

/// Readers of changes are told values as they were put, whatever dictionary they have.
pub fn changes_are_whole(setup: &Setup, seed: u64) -> Checked {
    let setup = &keeping(setup, ALL);
    let disks = Disks::new(setup);
    let db = Some(open_all(&disks.storages(), setup).map_err(failed)?);
    let mut this = Compressed { setup, rng: Rng::new(seed), state: State::new(), disks, db };
    for round in 0..3 {
        this.fill("orders")?;
        this.work()?;
        if round == 1 {
            this.keyspace("orders")?.train_dictionary().map_err(failed)?;
            this.reopen()?;
        }
    }
    let mut told = BTreeMap::new();
    for (_, key, value) in this.told()? {
        match value {
            Some(value) => _ = told.insert(key, value),
            None => _ = told.remove(&key),
        }
    }
    if told == this.state["orders"] { Ok(()) } else { Err("changes tell other values".to_owned()) }
}

/// Values of a keyspace that was dropped are told as they were put, also after other opens and
/// beside other dictionaries, as long as their changes are kept. Then their dictionary goes.
pub fn changes_outlive_their_keyspace(setup: &Setup, seed: u64) -> Checked {
    let setup = &keeping(setup, ALL);
    let disks = Disks::new(setup);
    let db = Some(open_all(&disks.storages(), setup).map_err(failed)?);
    let mut this = Compressed { setup, rng: Rng::new(seed), state: State::new(), disks, db };
    this.fill("dropped")?;
    this.keyspace("dropped")?.train_dictionary().map_err(failed)?;
    this.fill("dropped")?;
    this.work()?;
    let before = this.told()?;
    this.db().drop_keyspace("dropped").map_err(failed)?;
    this.state.remove("dropped");
    for round in 0..3 {
        if !this.told()?.starts_with(&before) {
            return Err(format!("round {round}: other values are told"));
        }
        this.reopen()?;
        this.fill("orders")?;
        this.keyspace("orders")?.train_dictionary().map_err(failed)?;
        this.check()?;
    }
    this.db().drop_keyspace("orders").map_err(failed)?;
    this.state.clear();
    this.reopen()?;
    if file_with_common(&this.disks).is_none() {
        return Err("no dictionary is left, although changes name it".to_owned());
    }
    this.db().drop_changes(u64::MAX).map_err(failed)?;
    this.db().collect_dropped().map_err(failed)?;
    match file_with_common(&this.disks) {
        Some(name) => Err(format!("{name} has a piece of a dictionary")),
        None => this.reopen(),
    }
}

/// The designs that separate such values, with room for the writes of a dictionary.
pub fn setups() -> Vec<Setup> {
    let mut setups = Setup::every_design();
    setups.retain(|setup| setup.options.layout().separates());
    for setup in &mut setups {
        setup.options.min_separated = Some(100);
    }
    setups
}
