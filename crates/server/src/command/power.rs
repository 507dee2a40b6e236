//! Power cuts on a simulated disk: what is left of the writes is whole transactions from the first
//! on, all that were synced are among them, and elements fit their keys.

use std::sync::Arc;

use cleavedb::{Db, Durability, Options};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::{PowerLoss, SECTOR};

use super::table::{CommandAction, find};
use crate::exec::{KeyPlace, Reads, Store, ViewMoment};
use crate::model::scan::Scans;
use crate::resp::reply::Reply;

/// Transactions, of which some are synced.
const TRANSACTIONS: usize = 40;

/// What each transaction does; `N` is its number.
const COMMANDS: &[&str] = &[
    "rpush list N",
    "hset hash N N",
    "sadd set N",
    "zadd scores N N",
    "xadd stream N-1 field N",
    "xgroup create stream N 0",
    "xreadgroup group N consumer count 2 streams stream >",
    "xack stream N 0-1",
    "del gone",
    "rpush gone N N N",
    "set over string",
    "del over",
    "sadd over N",
    "lmove list list left right",
    "lmove list list right left",
    "set turn N",
    "swapdb 1 2",
    "copy turn turn db 1 replace",
];

/// Runs commands as one transaction; the last reply.
pub fn run(store: &Store, lines: &[String]) -> Reply {
    let (scans, now) = (Scans::default(), 1);
    let reads = store.reads(true);
    let moment = ViewMoment { reads: &reads, scans: &scans, now, told: 0 };
    let mut view = moment.view(0);
    let mut last = Reply::Nil;
    for line in lines {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let Some(CommandAction::Data(run)) = find(&args).map(|it| it.action) else { panic!() };
        last = run(&args, &mut view).unwrap();
    }
    store.commit(&view.into_effects(), now, true).unwrap();
    last
}

fn number(store: &Store, line: &str) -> i64 {
    match run(store, &[line.to_owned()]) {
        Reply::Integer(number) => number,
        other => panic!("{other:?}"),
    }
}

fn open(sim: &Sim) -> Store {
    let options = Options { durability: Durability::Os, ..Options::default() };
    Store::open(Db::open_in(Arc::new(sim.clone()), options, 7).unwrap(), 3).unwrap()
}

#[test]
fn a_power_cut_leaves_whole_transactions() {
    let sim = Sim::new();
    let store = open(&sim);
    // The point of the disk at which each number of transactions was durable.
    let mut durable = Vec::new();
    for number in 0..TRANSACTIONS {
        let lines = COMMANDS.iter().map(|line| line.replace('N', &number.to_string()));
        run(&store, &lines.collect::<Vec<_>>());
        if number % 7 == 3 {
            store.db().sync_to(store.written()).unwrap();
            durable.push((sim.point_at(sim.time()), number + 1));
        }
    }
    drop(store);
    let mut replay = sim.replay(SECTOR);
    let points = replay.last_point();
    let mut checked = 0;
    for point in (0..points).step_by(points / 25 + 1) {
        replay.advance(point);
        let acknowledged = durable.iter().rev().find(|(at, _)| *at <= point);
        let least = acknowledged.map_or(0, |(_, count)| *count);
        let cuts = PowerLoss { states_max: 6, seed: point as u64, ..PowerLoss::default() };
        for image in replay.power_loss(&cuts) {
            let store = open(&Sim::from_image(image));
            assert_eq!(store.audit().unwrap().wrong, Vec::<String>::new(), "point {point}");
            let count = number(&store, "llen list");
            assert!(count >= least as i64, "point {point}: {count} of {least}");
            for line in ["hlen hash", "scard set", "zcard scores", "xlen stream"] {
                assert_eq!(number(&store, line), count, "point {point}: {line}");
            }
            assert_eq!(number(&store, "exists gone over"), 2 * i64::from(count > 0));
            let reads = store.reads(true);
            for (database, behind) in [(1, 1), (2, 2)] {
                let turn = reads.get(KeyPlace::Keys(database), b"turn").unwrap();
                let turn = turn.map(|record| String::from_utf8(record[1..].into()).unwrap());
                let last = (count >= behind).then(|| (count - behind).to_string());
                assert_eq!(turn, last, "point {point}: database {database}");
            }
            store.sweep(0).unwrap();
            assert_eq!(store.audit().unwrap(), crate::exec::Audit::default());
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked} images");
}
