//! Commands of sets.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use bytes::Bytes;

use super::args::{at_least, count, is, syntax};
use super::collections::{self, REMOVED_ALONE, RandomTerms, Shown};
use crate::exec::{Answer, ElementForm, ElementRange, Halt, View, event};
use crate::model::element::MEMBERS;
use crate::model::record::{Collection, CollectionKind};
use crate::resp::reply::Reply;

const SET: CollectionKind = CollectionKind::Set;

/// All members.
const NAMES: ElementRange<'_> = ElementRange { with_values: false, ..ElementRange::ALL };

fn find(key: &[u8], view: &View<'_>) -> Answer<Option<Collection>> {
    Ok(view.collection(key, SET)?.map(|(set, _)| set))
}

fn has(set: Option<Collection>, member: &[u8], view: &View<'_>) -> Answer<bool> {
    set.map_or(Ok(false), |set| view.has_element(set.id, MEMBERS, member))
}

/// All members of a set.
fn members(set: Option<Collection>, view: &View<'_>) -> Answer<Vec<Bytes>> {
    let Some(set) = set else { return Ok(Vec::new()) };
    let found = collections::elements(set, NAMES, view)?;
    Ok(found.into_iter().map(|(name, _)| name).collect())
}

fn bulk_set(members: impl IntoIterator<Item = Bytes>) -> Reply {
    Reply::Set(members.into_iter().map(Reply::Bulk).collect())
}

/// `SADD key member [member ...]`
pub fn sadd<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let (mut set, until) = view.collection_or_new(args[1], SET)?;
    let before = set.len;
    for member in &args[2..] {
        if !has(Some(set), member, view)? {
            view.add_member(&mut set, member, &b""[..]);
        }
    }
    if set.len > before {
        view.keep(args[1], (set, until));
        view.tell(event::SET, "sadd", args[1]);
    }
    Ok(Reply::Integer((set.len - before).cast_signed()))
}

/// `SREM key member [member ...]`
pub fn srem<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let removed = collections::remove(args[1], SET, &args[2..], view)?;
    if removed > 0 {
        view.tell(event::SET, "srem", args[1]);
        view.tell_if_gone(args[1])?;
    }
    Ok(Reply::Integer(removed))
}

/// `SCARD key`
pub fn scard(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    collections::len(args[1], SET, view)
}

/// `SISMEMBER key member`
pub fn sismember(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    Ok(Reply::Integer(has(find(args[1], view)?, args[2], view)?.into()))
}

/// `SMISMEMBER key member [member ...]`
pub fn smismember(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let set = find(args[1], view)?;
    let found = |member: &&[u8]| Ok(Reply::Integer(has(set, member, view)?.into()));
    args[2..].iter().map(found).collect::<Answer<_>>().map(Reply::Array)
}

/// `SMEMBERS key`
pub fn smembers(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let all = collections::all(args[1], SET, ElementForm::NameSet, view)?;
    Ok(bulk_set(all.into_iter().map(|(name, _)| name)))
}

/// `SMOVE source destination member`
pub fn smove<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let (from, to, member) = (args[1], args[2], args[3]);
    let Some(set) = find(from, view)? else { return Ok(Reply::Integer(0)) };
    find(to, view)?;
    let is_there = has(Some(set), member, view)?;
    if from == to || !is_there {
        return Ok(Reply::Integer(is_there.into()));
    }
    collections::remove(from, SET, &[member], view)?;
    view.tell(event::SET, "srem", from);
    view.tell_if_gone(from)?;
    sadd(&[b"sadd", to, member], view)?;
    Ok(Reply::Integer(1))
}

/// `SPOP key [count]`
pub fn spop<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let count = match args {
        [_, _] => None,
        [_, _, text] => Some(count(text)?),
        _ => return Err(syntax()),
    };
    let Some((set, _)) = view.collection(args[1], SET)? else {
        return Ok(if count.is_some() { Reply::Set(Vec::new()) } else { Reply::Nil });
    };
    let wanted = count.unwrap_or(1);
    let drawn = collections::drawn(set, wanted, false, view)?;
    let drawn: Vec<Bytes> = drawn.into_iter().map(|(name, _)| name).collect();
    if wanted >= set.len && set.len > REMOVED_ALONE {
        view.end(args[1], &set);
    } else {
        let names: Vec<&[u8]> = drawn.iter().map(|name| &**name).collect();
        collections::remove(args[1], SET, &names, view)?;
    }
    if !drawn.is_empty() {
        view.tell(event::SET, "spop", args[1]);
        view.tell_if_gone(args[1])?;
    }
    Ok(match count {
        Some(_) => bulk_set(drawn),
        None => drawn.into_iter().next().map_or(Reply::Nil, Reply::Bulk),
    })
}

/// `SRANDMEMBER key [count]`
pub fn srandmember(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    if args.len() > 3 {
        return Err(syntax());
    }
    let terms = RandomTerms::of(args, "")?;
    collections::random(args[1], SET, terms, view, &|name, _| (name, Reply::Nil))
}

/// `SSCAN key cursor [MATCH pattern] [COUNT count]`
pub fn sscan(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    collections::scan(args, SET, view, Shown::Names)
}

/// How sets are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combination {
    All,
    Common,
    OfFirstAlone,
}

/// The members of a combination, in order, up to a number.
fn combined(
    keys: &[&[u8]],
    how: Combination,
    most: usize,
    view: &View<'_>,
) -> Answer<BTreeSet<Bytes>> {
    let mut sets = keys.iter().map(|key| find(key, view)).collect::<Answer<Vec<_>>>()?;
    let mut found = BTreeSet::new();
    match how {
        Combination::All => {
            for set in sets {
                found.extend(members(set, view)?);
            }
            return Ok(found);
        }
        Combination::Common => {
            if sets.iter().any(Option::is_none) {
                return Ok(found);
            }
            sets.sort_by_key(|set| set.map(|set| set.len));
        }
        Combination::OfFirstAlone => {}
    }
    let [Some(first), others @ ..] = &sets[..] else { return Ok(found) };
    let fits = |member: &[u8]| {
        for other in others {
            if has(*other, member, view)? != (how == Combination::Common) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    view.take_lookups((first.len as usize).saturating_mul(others.len()))?;
    let mut failed = None;
    view.elements(first.id, NAMES, &mut |member, _| match fits(member) {
        Ok(false) => ControlFlow::Continue(()),
        Ok(true) => {
            found.insert(Bytes::copy_from_slice(member));
            if found.len() == most { ControlFlow::Break(()) } else { view.holding(member.len()) }
        }
        Err(halt) => {
            failed = Some(halt);
            ControlFlow::Break(())
        }
    })?;
    failed.map_or(Ok(found), Err)
}

/// `SUNION key [key ...]`
pub fn sunion(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    combined(&args[1..], Combination::All, usize::MAX, view).map(bulk_set)
}

/// `SINTER key [key ...]`
pub fn sinter(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    combined(&args[1..], Combination::Common, usize::MAX, view).map(bulk_set)
}

/// `SDIFF key [key ...]`
pub fn sdiff(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    combined(&args[1..], Combination::OfFirstAlone, usize::MAX, view).map(bulk_set)
}

fn store<'a>(
    args: &[&'a [u8]],
    how: Combination,
    name: &'static str,
    view: &mut View<'a>,
) -> Answer {
    let found = combined(&args[2..], how, usize::MAX, view)?;
    view.hold_changes(found.len())?;
    let mut set = view.new_collection(SET)?;
    set.len = found.len() as u64;
    for member in &found {
        view.put_element(set.id, MEMBERS, member, &b""[..]);
    }
    if set.len > 0 {
        view.make_room(args[1])?;
        view.keep(args[1], (set, None));
        view.tell(event::SET, name, args[1]);
    } else if view.delete(args[1])? {
        view.tell(event::GENERIC, "del", args[1]);
    }
    Ok(Reply::Integer(found.len() as i64))
}

/// `SUNIONSTORE destination key [key ...]`
pub fn sunionstore<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    store(args, Combination::All, "sunionstore", view)
}

/// `SINTERSTORE destination key [key ...]`
pub fn sinterstore<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    store(args, Combination::Common, "sinterstore", view)
}

/// `SDIFFSTORE destination key [key ...]`
pub fn sdiffstore<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    store(args, Combination::OfFirstAlone, "sdiffstore", view)
}

/// `SINTERCARD numkeys key [key ...] [LIMIT limit]`
pub fn sintercard(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let numkeys = at_least(args[1], 1, "ERR numkeys should be greater than 0")?;
    let split = usize::try_from(numkeys).ok().and_then(|count| args[2..].split_at_checked(count));
    let too_many = "ERR Number of keys can't be greater than number of args";
    let (keys, words) = split.ok_or_else(|| Halt::error(too_many))?;
    let mut most = 0;
    for pair in words.chunks(2) {
        match pair {
            [word, limit] if is(word, "LIMIT") => {
                most = at_least(limit, 0, "ERR LIMIT can't be negative")?;
            }
            _ => return Err(syntax()),
        }
    }
    let most = if most == 0 { usize::MAX } else { most as usize };
    Ok(Reply::Integer(combined(keys, Combination::Common, most, view)?.len() as i64))
}
