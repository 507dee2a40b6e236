//! Ranks of long sorted sets, beside those of a model.

use std::collections::BTreeSet;
use std::sync::Arc;

use cleavedb::{Db, Options};
use cleavedb_storage_sim::Sim;
use fastrand::Rng;

use crate::command::table::{CommandAction, find};
use crate::exec::{Store, ViewMoment};
use crate::model::scan::Scans;
use crate::resp::reply::Reply;

/// Runs commands and commits them as one; the last reply.
fn run_all(store: &Store, lines: &[&str]) -> Reply {
    let lines: Vec<Vec<&[u8]>> =
        lines.iter().map(|line| line.split(' ').map(str::as_bytes).collect()).collect();
    let (scans, reads) = (Scans::default(), store.reads(true));
    let moment = ViewMoment { reads: &reads, scans: &scans, now: 1, told: 0 };
    let (mut view, mut last) = (moment.view(0), Reply::Nil);
    for args in &lines {
        let Some(CommandAction::Data(run)) = find(args).map(|it| it.action) else { panic!() };
        last = run(args, &mut view).unwrap();
    }
    store.commit(&view.into_effects(), true).unwrap();
    last
}

fn run(store: &Store, line: &str) -> Reply {
    run_all(store, &[line])
}

/// Ranks behind changes that are not committed yet.
fn change_and_rank(store: &Store, model: &mut Model) {
    let lines = ["zrem key m3 m4", "zadd key 25 m3", "zadd key 7 m5 7 new", "zrem key new"];
    model.retain(|(_, member)| !matches!(&**member, "m3" | "m4" | "m5"));
    model.extend([(25, "m3".to_owned()), (7, "m5".to_owned())]);
    let rank = model.iter().position(|(_, member)| member == "m3").unwrap();
    let reply = run_all(store, &[&lines[..], &["zrank key m3"]].concat());
    assert_eq!(reply, Reply::Integer(rank as i64));
}

/// Members in their order, of whole scores.
type Model = BTreeSet<(i64, String)>;

/// Changes a sorted set and its model in a way that is drawn.
fn change(store: &Store, model: &mut Model, drawn: &mut Rng) {
    let len = model.len().max(1);
    match drawn.usize(0..if len < 60 { 10 } else { 16 }) {
        0..10 => {
            let (member, score) = (format!("m{}", drawn.u8(..200)), drawn.i64(..50));
            model.retain(|(_, other)| *other != member);
            run(store, &format!("zadd key {score} {member}"));
            model.insert((score, member));
        }
        10..13 => {
            let Some((_, member)) = model.iter().nth(drawn.usize(0..len)).cloned() else {
                return;
            };
            run(store, &format!("zrem key {member}"));
            model.retain(|(_, other)| *other != member);
        }
        13 => {
            run(store, "zpopmax key 3");
            (0..3).for_each(|_| _ = model.pop_last());
        }
        14 => {
            run(store, "zremrangebyscore key 10 20");
            model.retain(|(score, _)| !(10..=20).contains(score));
        }
        _ => {
            let last = drawn.usize(0..len);
            run(store, &format!("zremrangebyrank key 0 {last}"));
            *model = model.iter().skip(last + 1).cloned().collect();
        }
    }
}

/// Asks for ranks, ranges and counts.
fn check(store: &Store, model: &Model, drawn: &mut Rng) {
    let integer = |number: usize| Reply::Integer(number as i64);
    let at = drawn.usize(0..model.len().max(1));
    if let Some((_, member)) = model.iter().nth(at) {
        assert_eq!(run(store, &format!("zrank key {member}")), integer(at));
        let behind = integer(model.len() - 1 - at);
        assert_eq!(run(store, &format!("zrevrank key {member}")), behind);
    }
    let members = |members: &mut dyn Iterator<Item = &(i64, String)>| {
        Reply::bulks(members.skip(at).take(3).map(|(_, member)| member.clone().into_bytes()))
    };
    let to = at + 2;
    assert_eq!(run(store, &format!("zrange key {at} {to}")), members(&mut model.iter()));
    let reversed = members(&mut model.iter().rev());
    assert_eq!(run(store, &format!("zrevrange key {at} {to}")), reversed);
    let (from, to) = (drawn.i64(..50), drawn.i64(..50));
    let count = model.iter().filter(|(score, _)| (from..=to).contains(score)).count();
    assert_eq!(run(store, &format!("zcount key {from} {to}")), integer(count));
}

#[test]
fn ranks_are_those_of_a_walk() {
    let db = Db::open_in(Arc::new(Sim::new()), Options::default(), 7).unwrap();
    let store = Store::open(db, 1).unwrap();
    let (mut model, mut drawn) = (Model::new(), Rng::with_seed(5));
    for step in 0..2000 {
        change(&store, &mut model, &mut drawn);
        check(&store, &model, &mut drawn);
        if step % 9 == 0 {
            change_and_rank(&store, &mut model);
        }
        if step % 20 == 0 {
            assert_eq!(store.audit().unwrap(), crate::exec::Audit::default(), "step {step}");
        }
        if step % 300 == 299 {
            run(&store, "copy key copy replace");
            run(&store, "zunionstore stored 2 key copy");
            run(&store, "rename copy key");
            assert_eq!(run(&store, "zcard stored"), Reply::Integer(model.len() as i64));
        }
    }
}
