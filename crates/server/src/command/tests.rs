//! Commands on a map and on a store: what they answer and leave behind is equal.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use bytes::Bytes;
use cleavedb::{Db, Options};
use proptest::prelude::*;

use super::table::{CommandAction, find};
use crate::exec::{
    Answer, Audit, Change, Effects, ElementRange, Halt, KeyPlace, KeyWalk, Reads, Run, Store, View,
    ViewMoment, Visit,
};
use crate::model::element;
use crate::model::record::{self, KeyContent, KeyRecord};
use crate::model::scan::Scans;
use crate::resp::reply::Reply;

const DATABASES: usize = 2;

/// Records in maps, one for each database, and elements in another one.
#[derive(Default)]
struct Maps {
    databases: [BTreeMap<Vec<u8>, Bytes>; DATABASES],
    elements: BTreeMap<Vec<u8>, Bytes>,
    ids: Cell<u64>,
    /// Whether others wait for the thread.
    is_hurried: bool,
}

impl Maps {
    fn map(&self, space: KeyPlace) -> &BTreeMap<Vec<u8>, Bytes> {
        match space {
            KeyPlace::Keys(database) => &self.databases[database],
            KeyPlace::Elements => &self.elements,
        }
    }
}

impl Reads for Maps {
    fn databases(&self) -> usize {
        DATABASES
    }

    fn get(&self, space: KeyPlace, key: &[u8]) -> Answer<Option<Bytes>> {
        Ok(self.map(space).get(key).cloned())
    }

    fn has(&self, place: KeyPlace, key: &[u8]) -> Answer<bool> {
        Ok(self.map(place).contains_key(key))
    }

    fn walk(&self, walk: KeyWalk<'_>, visit: &mut Visit<'_>) -> Answer<()> {
        let mut items = self.map(walk.space).range::<[u8], _>(walk.range);
        let _ = match walk.is_reversed {
            true => items.rev().try_for_each(|(key, value)| visit(key, value)),
            false => items.try_for_each(|(key, value)| visit(key, value)),
        };
        Ok(())
    }

    fn may_wait(&self) -> bool {
        !self.is_hurried
    }

    fn new_id(&self) -> Answer<u64> {
        self.ids.set(self.ids.get() + 1);
        Ok(self.ids.get())
    }
}

impl Maps {
    fn commit(&mut self, effects: &Effects<'_>) {
        effects.cleared.iter().for_each(|database| self.databases[*database].clear());
        if effects.is_flushed {
            self.elements.clear();
        }
        for id in &effects.dropped {
            self.elements.retain(|key, _| element::place(key).unwrap().0 != *id);
        }
        self.elements.retain(|key, _| !effects.is_cut(key));
        for (key, value) in &effects.elements {
            match value {
                Some(value) => _ = self.elements.insert(key.clone(), value.to_vec().into()),
                None => _ = self.elements.remove(key),
            }
        }
        for ((database, key), change) in &effects.keys {
            let map = &mut self.databases[*database];
            let record = match change {
                Change::Delete => {
                    map.remove(&**key);
                    continue;
                }
                Change::String(value, until) => [&*record::of_string(*until), value].concat(),
                Change::Collection(it, until) => record::of_collection(*it, *until).to_vec(),
            };
            map.insert(key.to_vec(), record.into());
        }
        let before = self.databases.clone();
        for (database, origin) in effects.swapped() {
            self.databases[database] = before[origin].clone();
        }
    }
}

/// A key, its record, whose id is left out, and its elements.
type KeyState = (Vec<u8>, KeyRecord, Vec<(Vec<u8>, Vec<u8>)>);

/// All that both databases have.
fn state(reads: &dyn Reads, now: u64) -> Vec<KeyState> {
    let (mut found, scans) = (Vec::new(), Scans::default());
    for database in 0..DATABASES {
        let moment = ViewMoment { reads, scans: &scans, now, told: 0 };
        let view = moment.view(database);
        let mut all = Vec::new();
        let visit = &mut |key: &[u8], record: Option<KeyRecord>| {
            all.extend(record.map(|record| (key.to_vec(), record)));
            ControlFlow::Continue(())
        };
        view.walk(b"", true, visit).unwrap();
        for (key, mut record) in all {
            let mut elements = Vec::new();
            if let KeyContent::Collection(collection) = &mut record.content {
                for part in 0..element::PARTS {
                    let within = ElementRange { part, ..ElementRange::ALL };
                    let visit = &mut |name: &[u8], value: &[u8]| {
                        elements.push((name.to_vec(), value.to_vec()));
                        ControlFlow::Continue(())
                    };
                    view.elements(collection.id, within, visit).unwrap();
                }
                collection.id = 0;
            }
            found.push((key, record, elements));
        }
    }
    found
}

fn answer<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Reply {
    let Some(CommandAction::Data(run)) = find(args).map(|command| command.action) else { panic!() };
    let run: Run = run;
    match run(args, view) {
        Ok(reply) | Err(Halt::Error(reply)) => reply,
        Err(Halt::Block(block)) => block.in_transaction,
        Err(Halt::Wait | Halt::Hold | Halt::Long(_)) => panic!("it may wait"),
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
    "setbit K 9 1",
    "bitop xor K K K",
    "bitop not K K",
    "bitfield K set u5 3 9 incrby i7 8 100",
    "bitcount K 0 3",
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
    "hset K V V",
    "hset K V V V V",
    "hset K V V",
    "hsetnx K V V",
    "hget K V",
    "hmget K V V",
    "hgetall K",
    "hkeys K",
    "hvals K",
    "hdel K V",
    "hdel K V V V",
    "hlen K",
    "hincrby K V 3",
    "hscan K 0",
    "lpush K V V",
    "rpush K V",
    "rpush K V V V V",
    "rpushx K V",
    "lpop K",
    "rpop K 2",
    "llen K",
    "lindex K -2",
    "lrange K 0 -1",
    "lpos K V count 0",
    "lset K 1 V",
    "linsert K before V V",
    "linsert K after V V",
    "lrem K 0 V",
    "lrem K -1 V",
    "ltrim K 1 -2",
    "ltrim K 0 0",
    "lmove K K left right",
    "rpoplpush K K",
    "blpop K K 0",
    "blmove K K right left 1",
    "lmpop 2 K K right count 2",
    "sort K alpha desc",
    "sort K alpha store K",
    "sort K by nosort get # limit 0 2",
    "sadd K V V",
    "sadd K V",
    "srem K V",
    "smembers K",
    "smove K K V",
    "spop K 10",
    "sscan K 0",
    "sunion K K",
    "sdiff K K",
    "sinterstore K K K",
    "sunionstore K K K",
    "sintercard 2 K K",
    "zadd K 1 V",
    "zadd K 1 V -0 V 1 V inf V",
    "zadd K gt ch 2 V -inf V",
    "zadd K xx incr -1 V",
    "zincrby K 0.5 V",
    "zrem K V V",
    "zcard K",
    "zmscore K V V",
    "zrank K V",
    "zrevrank K V",
    "zscan K 0",
    "zrange K 0 -1 withscores",
    "zrange K -2 -1 rev",
    "zrange K (1 -inf byscore rev limit 1 2",
    "zrangebylex K [2 +",
    "zrangestore K K -inf 1 byscore",
    "zcount K 0 (2",
    "zlexcount K - (text",
    "zremrangebyrank K 1 2",
    "zremrangebyscore K 1 1",
    "zremrangebylex K - [2",
    "zpopmin K",
    "zpopmax K 2",
    "zmpop 2 K K min count 2",
    "bzpopmin K K 0",
    "bzmpop 0 2 K K max count 2",
    "zunion 2 K K weights 2 -1 withscores",
    "zinter 2 K K aggregate max withscores",
    "zdiff 2 K K withscores",
    "zintercard 2 K K",
    "zunionstore K 2 K K",
    "zinterstore K 2 K K weights 0 1",
    "zdiffstore K 2 K K",
];

/// Commands of streams, which are drawn by themselves, too.
const STREAMS: &[&str] = &[
    "xadd s * V V",
    "xadd K nomkstream maxlen 2 5-* V V V V",
    "xadd s minid 3 7-* V V",
    "xtrim K maxlen 1",
    "xdel s 5-0 7-0",
    "xsetid s 9",
    "xlen K",
    "xrange s - +",
    "xrevrange s + (5-0 count 1",
    "xread count 2 streams K K 0 5-0",
    "xread block 0 streams s $",
    "xgroup create s V $ mkstream",
    "xgroup create s 1 0 mkstream",
    "xgroup setid s 1 0",
    "xgroup destroy s V",
    "xgroup delconsumer s 1 x",
    "xreadgroup group 1 x streams s >",
    "xreadgroup group 1 x count 1 streams s >",
    "xreadgroup group 1 x streams s 0",
    "xreadgroup group 1 x block 0 noack streams s >",
    "xack s 1 5-0 7-0",
    "xpending s 1",
    "xpending s 1 - + 5 x",
    "xclaim s 1 y 0 5-0 7-0 9-0 force",
    "xautoclaim s 1 x 0 - count 2",
    "xinfo stream s full",
    "xinfo groups s",
    "xinfo consumers s 1",
    "copy s K replace",
    "rename K s",
    "expire s 100000",
    "del s",
];

fn command(forms: Vec<&'static str>) -> impl Strategy<Value = Vec<Vec<u8>>> {
    let key = prop::sample::select(vec!["a", "ab", "b", "c", ""]);
    let value = prop::sample::select(vec!["1", "-20", "3.5", "text", "", "\0\r\n"]);
    let words = prop::collection::vec((key, value), 5);
    (prop::sample::select(forms), words).prop_map(|(form, words)| {
        let word = |(word, (key, value)): (&str, &(&str, &str))| match word {
            "K" => key.as_bytes().to_vec(),
            "V" => value.as_bytes().to_vec(),
            word => word.as_bytes().to_vec(),
        };
        form.split(' ').zip(words.iter().cycle()).map(word).collect()
    })
}

/// Runs transactions on a map, which is written at once, and on a store, which is written at the
/// end of each.
fn compare(transactions: &[Vec<Vec<Vec<u8>>>]) -> Result<(), TestCaseError> {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Options::default()).unwrap();
    let store = Store::open(db, DATABASES).unwrap();
    store.keep_ends(true).unwrap();
    let (mut maps, now) = (Maps::default(), crate::session::now());
    let scans = [Scans::default(), Scans::default()];
    for commands in transactions {
        let stored = store.reads(true);
        let moment = ViewMoment { reads: &stored, scans: &scans[0], now, told: 0 };
        let mut transaction = moment.view(0);
        for args in commands {
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let moment = ViewMoment { reads: &maps, scans: &scans[1], now, told: 0 };
            let mut single = moment.view(0);
            let expected = answer(&args, &mut single);
            let effects = single.into_effects().to_owned();
            prop_assert_eq!(answer(&args, &mut transaction), expected, "{:?}", args);
            maps.commit(&effects);
        }
        store.commit(&transaction.into_effects(), now, true).unwrap();
        prop_assert_eq!(state(&stored, now), state(&maps, now));
        prop_assert_eq!(store.audit().unwrap().wrong, Vec::<String>::new());
    }
    store.sweep(0).unwrap();
    prop_assert_eq!(store.audit().unwrap(), Audit::default());
    Ok(())
}

fn transactions(forms: &[&'static str]) -> impl Strategy<Value = Vec<Vec<Vec<Vec<u8>>>>> {
    prop::collection::vec(prop::collection::vec(command(forms.to_vec()), 1..6), 1..12)
}

proptest! {
    #[test]
    fn commands_do_alike_on_a_map_and_in_transactions_on_a_store(
        transactions in transactions(&[FORMS, STREAMS].concat()),
    ) {
        compare(&transactions)?;
    }

    #[test]
    fn commands_of_streams_do_alike_on_a_map_and_in_transactions_on_a_store(
        transactions in transactions(STREAMS),
    ) {
        compare(&transactions)?;
    }
}

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn long_parts_of_collections_go_alike() {
    let numbers = (0..9000).map(|number| format!(" {number}")).collect::<String>();
    let entries = (1..=9000).map(|number| format!("xadd s {number} f v"));
    let made = [format!("rpush l{numbers}"), "xgroup create s g 0 mkstream".to_owned()];
    let made = made.into_iter().chain(entries).map(|line| words(&line)).collect();
    let lines = [
        "xreadgroup group g c streams s >",
        "xtrim s maxlen 3000",
        "xrange s - + count 2",
        "xadd s 9001 f v",
        "xtrim s maxlen 1",
        "xlen s",
        "xgroup destroy s g",
        "xgroup create s g 0",
        "xpending s g - + 9",
        "xreadgroup group g c streams s >",
        "xinfo stream s full",
        "ltrim l 4500 -2",
        "lrange l 0 3",
        "lpush l x",
        "rpush l y",
        "lrange l -3 -1",
        "lpop l 4200",
        "lrange l 0 3",
        "linsert l before 8990 z",
        "ltrim l -20 -1",
        "lrange l 0 -1",
        "copy l k",
    ];
    compare(&[made, lines.map(words).into()]).unwrap();
}

/// Which key has a collection is written when it is made or moved, and not when it changes.
#[test]
fn a_collection_is_registered_once() {
    let (mut maps, scans) = (Maps::default(), Scans::default());
    for (line, is_registered) in [
        ("rpush l a", true),
        ("rpush l b", false),
        ("lpop l", false),
        ("expire l 100", false),
        ("rename l m", true),
        ("lmove m m left right", false),
        ("rpush m c", false),
        ("lmove m n left right", true),
        ("copy m l", true),
        ("zadd z 1 a", true),
        ("zadd z 2 a 3 b", false),
        ("zunionstore z 1 z", true),
        ("xadd s 1-1 f v", true),
        ("xadd s 2-1 f v", false),
        ("xtrim s maxlen 1", false),
    ] {
        let args = words(line);
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let moment = ViewMoment { reads: &maps, scans: &scans, now: 1, told: 0 };
        let mut view = moment.view(0);
        answer(&args, &mut view);
        let effects = view.into_effects().to_owned();
        assert_eq!(effects.owners.values().any(Option::is_some), is_registered, "{line}");
        maps.commit(&effects);
    }
}

#[test]
fn what_is_read_and_changed_at_once_is_bounded() {
    let (mut maps, scans) = (Maps::default(), Scans::default());
    let run = |maps: &mut Maps, args: &[Vec<u8>], copies: usize| {
        let last = args.last().into_iter().cycle().take(copies);
        let args: Vec<&[u8]> = args.iter().chain(last).map(Vec::as_slice).collect();
        let moment = ViewMoment { reads: maps, scans: &scans, now: 1, told: 0 };
        let mut view = moment.view(0);
        let reply = answer(&args, &mut view);
        let effects = view.into_effects().to_owned();
        maps.commit(&effects);
        matches!(reply, Reply::Error(_))
    };
    let large = vec![b'v'; 60 << 20];
    for line in ["set k", "hset h f", "rpush l"] {
        let args = [words(line), vec![large.clone()]].concat();
        assert!(!run(&mut maps, &args, 0));
    }
    for (line, times) in [("mget k", 17), ("hmget h f", 17), ("sort l by nosort get #", 1)] {
        assert!(!run(&mut maps, &words(line), times / 2), "{line}");
    }
    for line in ["mget k", "hmget h f"] {
        assert!(run(&mut maps, &words(line), 17), "{line}");
    }
    for line in ["hrandfield h -9000000", "hrandfield h -9223372036854775807"] {
        assert!(run(&mut maps, &words(line), 0), "{line}");
    }
}

#[test]
fn long_rows_of_bits_are_looked_through_where_none_waits_for_it() {
    let (mut maps, scans) = (Maps::default(), Scans::default());
    let record = [&*record::of_string(None), &vec![0; 3 << 20]].concat();
    maps.databases[0].insert(b"k".to_vec(), record.into());
    maps.is_hurried = true;
    for (line, waits) in [
        ("bitpos k 1", true),
        ("bitpos k 1 0 9", false),
        ("bitcount k", true),
        ("bitcount k 0 9", false),
        ("bitop not d k", true),
    ] {
        let args = words(line);
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let Some(CommandAction::Data(run)) = find(&args).map(|it| it.action) else { panic!() };
        let moment = ViewMoment { reads: &maps, scans: &scans, now: 1, told: 0 };
        let answer = run(&args, &mut moment.view(0));
        assert_eq!(matches!(answer, Err(Halt::Wait)), waits, "{line}");
    }
}
