//! Commands on a map and on a store: what they answer and leave behind is equal.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use bytes::Bytes;
use cleavedb::{Db, Options};
use proptest::prelude::*;

use super::Run;
use super::table::{CommandAction, find};
use crate::exec::{Answer, Change, Effects, Halt, Reads, Store, View, Visit};
use crate::model::record::RecordHead;
use crate::model::scan::Scans;
use crate::resp::reply::Reply;

const DATABASES: usize = 2;

/// Records in maps, one for each database.
#[derive(Default)]
struct Maps([BTreeMap<Vec<u8>, Bytes>; DATABASES]);

impl Reads for Maps {
    fn databases(&self) -> usize {
        DATABASES
    }

    fn get(&self, database: usize, key: &[u8]) -> Answer<Option<Bytes>> {
        Ok(self.0[database].get(key).cloned())
    }

    fn walk(&self, database: usize, from: &[u8], _: bool, visit: &mut Visit<'_>) -> Answer<()> {
        let mut items = self.0[database].range(from.to_vec()..);
        let _ = items.try_for_each(|(key, record)| visit(key, record));
        Ok(())
    }
}

impl Maps {
    fn commit(&mut self, effects: &Effects<'_>) {
        effects.cleared.iter().for_each(|database| self.0[*database].clear());
        for ((database, key), change) in &effects.keys {
            let map = &mut self.0[*database];
            match change {
                Change::Delete => _ = map.remove(&**key),
                Change::Put(value, until) => {
                    let record = [RecordHead::of_string(*until).as_bytes(), value].concat();
                    map.insert(key.to_vec(), record.into());
                }
            }
        }
    }
}

/// All records of both databases.
fn records(reads: &dyn Reads) -> Vec<(Vec<u8>, Bytes)> {
    let mut found = Vec::new();
    for database in 0..DATABASES {
        reads
            .walk(database, b"", true, &mut |key, record| {
                found.push((key.to_vec(), Bytes::copy_from_slice(record)));
                ControlFlow::Continue(())
            })
            .unwrap();
    }
    found
}

fn answer<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Reply {
    let Some(CommandAction::Data(run)) = find(args).map(|command| command.action) else { panic!() };
    let run: Run = run;
    match run(args, view) {
        Ok(reply) | Err(Halt::Error(reply)) => reply,
        Err(Halt::Wait) => panic!("it may wait"),
    }
}

/// A command, with a word for each argument: K for a key, and V for a value.
const FORMS: &[&str] = &[
    "get K",
    "set K V",
    "set K V nx get",
    "set K V xx keepttl",
    "set K V ex 1000",
    "set K V exat 1",
    "setnx K V",
    "getset K V",
    "getdel K",
    "getex K ex 5000",
    "getex K persist",
    "mget K K K",
    "mset K V K V",
    "msetnx K V K V",
    "append K V",
    "strlen K",
    "getrange K 1 -2",
    "setrange K 3 V",
    "incr K",
    "decrby K 7",
    "incrbyfloat K 0.1",
    "lcs K K idx",
    "del K K",
    "exists K K",
    "type K",
    "keys *",
    "keys a*",
    "scan 0 count 2",
    "scan 0 match a* type string",
    "dbsize",
    "rename K K",
    "renamenx K K",
    "copy K K db 1",
    "copy K K replace",
    "move K 1",
    "swapdb 0 1",
    "flushdb",
    "flushall",
    "expire K 100000",
    "expire K -1",
    "pexpireat K 1",
    "persist K",
    "ttl K",
    "pexpiretime K",
    "object encoding K",
    "memory usage K",
];

fn command() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let key = prop::sample::select(vec!["a", "ab", "b", "c", ""]);
    let value = prop::sample::select(vec!["1", "-20", "3.5", "text", "", "\0\r\n"]);
    let words = prop::collection::vec((key, value), 5);
    (prop::sample::select(FORMS), words).prop_map(|(form, words)| {
        let word = |(word, (key, value)): (&str, &(&str, &str))| match word {
            "K" => key.as_bytes().to_vec(),
            "V" => value.as_bytes().to_vec(),
            word => word.as_bytes().to_vec(),
        };
        form.split(' ').zip(words.iter().cycle()).map(word).collect()
    })
}

proptest! {
    /// A store that is written at the end of each transaction is a map that is written at once.
    #[test]
    fn commands_do_alike_on_a_map_and_in_transactions_on_a_store(
        transactions in prop::collection::vec(prop::collection::vec(command(), 1..6), 1..12),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Options::default()).unwrap();
        let store = Store::open(db, DATABASES).unwrap();
        let (mut maps, now) = (Maps::default(), crate::session::now());
        let scans = [Scans::default(), Scans::default()];
        for commands in &transactions {
            let stored = store.reads(true);
            let mut transaction = View::new(&stored, &scans[0], 0, now);
            for args in commands {
                let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
                let mut single = View::new(&maps, &scans[1], 0, now);
                let expected = answer(&args, &mut single);
                let effects = single.into_effects().to_owned();
                prop_assert_eq!(answer(&args, &mut transaction), expected, "{:?}", args);
                maps.commit(&effects);
            }
            store.commit(&transaction.into_effects(), true).unwrap();
            prop_assert_eq!(records(&stored), records(&maps));
        }
    }
}
