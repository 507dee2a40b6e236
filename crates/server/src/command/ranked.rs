//! Ranks of long sorted sets, and members that are drawn of long sets and hashes, beside a model.

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
    store.commit(&view.into_effects(), 1, true).unwrap();
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

/// Draws members of a set, or fields of a hash, beside changes and in one with them.
fn draw(add: &str, remove: &str, random: &str, len: &str) {
    let db = Db::open_in(Arc::new(Sim::new()), Options::default(), 7).unwrap();
    let store = Store::open(db, 1).unwrap();
    let (mut model, mut drawn) = (BTreeSet::new(), Rng::with_seed(5));
    let value = if add == "hset" { " value" } else { "" };
    let name = |reply: Reply| match reply {
        Reply::Bulk(name) => String::from_utf8(name.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    };
    for step in 0..2000 {
        let member = format!("m{}", drawn.u8(..120));
        match drawn.usize(..6) {
            0..3 => {
                run(&store, &format!("{add} key {member}{value}"));
                model.insert(member);
            }
            3 => {
                run(&store, &format!("{remove} key {member}"));
                model.remove(&member);
            }
            4 if add == "sadd" && !model.is_empty() => {
                let popped = name(run(&store, "spop key"));
                assert!(model.remove(&popped), "step {step}: {popped}");
            }
            _ if !model.is_empty() => {
                let other = format!("m{}", drawn.u8(..120));
                let lines = [
                    format!("{add} key {member}{value}"),
                    format!("{remove} key {other}"),
                    format!("{random} key"),
                ];
                let found = run_all(&store, &lines.each_ref().map(String::as_str));
                model.insert(member);
                model.remove(&other);
                assert!(found == Reply::Nil || model.contains(&name(found)), "step {step}");
            }
            _ => {}
        }
        if !model.is_empty() {
            let found = name(run(&store, &format!("{random} key")));
            assert!(model.contains(&found), "step {step}: {found}");
        }
        assert_eq!(run(&store, &format!("{len} key")), Reply::Integer(model.len() as i64));
        if step % 20 == 0 {
            assert_eq!(store.audit().unwrap(), crate::exec::Audit::default(), "step {step}");
        }
    }
}

#[test]
fn drawn_members_are_those_of_a_model() {
    draw("sadd", "srem", "srandmember", "scard");
    draw("hset", "hdel", "hrandfield", "hlen");
}

/// Each of 60 members is drawn 200 times in the mean, behind changes that leave blocks uneven.
#[test]
fn members_are_drawn_alike() {
    let db = Db::open_in(Arc::new(Sim::new()), Options::default(), 7).unwrap();
    let store = Store::open(db, 1).unwrap();
    fastrand::seed(5);
    let add = |numbers: std::ops::Range<u8>| {
        numbers.for_each(|number| _ = run(&store, &format!("sadd key m{number:03}")));
    };
    add(0..40);
    run(&store, "srandmember key");
    (0..40).step_by(2).for_each(|number| _ = run(&store, &format!("srem key m{number:03}")));
    add(100..140);
    let mut times = std::collections::BTreeMap::new();
    for _ in 0..12_000 {
        let Reply::Bulk(name) = run(&store, "srandmember key") else { panic!() };
        *times.entry(name).or_insert(0) += 1;
    }
    // Six times the standard deviation.
    assert!(times.len() == 60 && times.values().all(|it| (115..285).contains(it)), "{times:?}");
}
