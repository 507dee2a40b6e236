//! `XGROUP`: what makes groups and consumers, and removes them.

use super::group::OpenGroup;
use super::ids::{id, id_or_end};
use super::{STREAM, find};
use crate::command::args::{is, number, showing_all, shown, wrong_subcommand};
use crate::exec::{Answer, Halt, OpenCollection, View, event};
use crate::model::element::{CONSUMERS, GROUPS, OWNED, PENDING};
use crate::model::group::{GroupState, within_consumer, within_group};
use crate::model::stream::StreamId;
use crate::resp::reply::Reply;

/// What stands behind the id of `XGROUP CREATE` and `XGROUP SETID`.
struct GroupTerms {
    makes_stream: bool,
    read: Option<u64>,
}

impl GroupTerms {
    fn of(args: &[&[u8]], creates: bool) -> Answer<Self> {
        let (mut terms, mut words) = (Self { makes_stream: false, read: None }, &args[5..]);
        while let [word, rest @ ..] = words {
            words = match rest {
                _ if creates && is(word, "MKSTREAM") => {
                    terms.makes_stream = true;
                    rest
                }
                [count, rest @ ..] if is(word, "ENTRIESREAD") => {
                    let why = || Halt::error("ERR value for ENTRIESREAD must be positive or -1");
                    terms.read = match number(count)? {
                        -1 => None,
                        count => Some(u64::try_from(count).map_err(|_| why())?),
                    };
                    rest
                }
                _ => return Err(wrong_subcommand(args)),
            };
        }
        Ok(terms)
    }
}

fn no_stream() -> Halt {
    Halt::error(
        "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to \
         use the MKSTREAM option to create an empty stream automatically.",
    )
}

/// The stream that a subcommand needs.
fn needed(key: &[u8], view: &View<'_>) -> Answer<OpenCollection> {
    find(key, view)?.ok_or_else(no_stream)
}

/// The error of a group that is not there.
pub(super) fn no_group(key: &[u8], group: &[u8]) -> Halt {
    showing_all(&[b"NOGROUP No such consumer group '", group, b"' for key name '", key, b"'"])
}

/// The group that a subcommand needs.
fn needed_group<'g>(args: &[&'g [u8]], view: &View<'_>) -> Answer<OpenGroup<'g>> {
    let (stream, _) = needed(args[2], view)?;
    OpenGroup::of(stream, args[3], view)?.ok_or_else(|| no_group(args[2], args[3]))
}

/// `XGROUP CREATE key group id [MKSTREAM] [ENTRIESREAD count]`: the id is `$` for the last one.
pub fn xgroup_create<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let terms = GroupTerms::of(args, true)?;
    let found = match find(args[2], view)? {
        None if !terms.makes_stream => return Err(no_stream()),
        found => found,
    };
    if args.len() > 8 {
        return Err(wrong_subcommand(args));
    }
    let last = match shown(args[4], args[4].len()) {
        b"$" => found.map_or(StreamId::MIN, |(stream, _)| stream.stream.last),
        _ => id(args[4], 0)?,
    };
    let (stream, until) = found.map_or_else(|| Ok((view.new_collection(STREAM)?, None)), Ok)?;
    if OpenGroup::of(stream, args[3], view)?.is_some() {
        return Err(Halt::error("BUSYGROUP Consumer Group name already exists"));
    }
    if found.is_none() {
        view.keep(args[2], (stream, until));
    }
    let state = GroupState { last, read: terms.read, ..GroupState::default() };
    OpenGroup::new(stream, args[3], state).save(view);
    view.tell(event::STREAM, "xgroup-create", args[2]);
    Ok(Reply::OK)
}

/// `XGROUP SETID key group id [ENTRIESREAD count]`
pub fn xgroup_setid<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let terms = GroupTerms::of(args, false)?;
    let mut group = needed_group(args, view)?;
    if ![5, 7].contains(&args.len()) {
        return Err(wrong_subcommand(args));
    }
    group.state.last = match shown(args[4], args[4].len()) {
        b"$" => group.stream.stream.last,
        _ => id_or_end(args[4], 0)?,
    };
    group.state.read = terms.read;
    // What is told is told of a write, even of what was there.
    OpenGroup::new(group.stream, group.name, group.state).save(view);
    view.tell(event::STREAM, "xgroup-setid", args[2]);
    Ok(Reply::OK)
}

/// `XGROUP DESTROY key group`
pub fn xgroup_destroy<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let (stream, _) = needed(args[2], view)?;
    let Some(group) = OpenGroup::of(stream, args[3], view)? else { return Ok(Reply::Integer(0)) };
    for part in [CONSUMERS, PENDING, OWNED] {
        group.delete_all(part, &within_group(group.name), view)?;
    }
    view.delete_element(stream.id, GROUPS, group.name);
    view.tell(event::STREAM, "xgroup-destroy", args[2]);
    view.wake(view.database, args[2]);
    Ok(Reply::Integer(1))
}

/// `XGROUP CREATECONSUMER key group consumer`
pub fn xgroup_createconsumer<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let mut group = needed_group(args, view)?;
    if group.consumer(args[4], view)?.is_some() {
        return Ok(Reply::Integer(0));
    }
    let consumer = group.see(args[4], args[2], view)?;
    group.save_consumer(consumer.name, consumer.state, view);
    group.save(view);
    Ok(Reply::Integer(1))
}

/// `XGROUP DELCONSUMER key group consumer`: its pending entries go with it.
pub fn xgroup_delconsumer<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let mut group = needed_group(args, view)?;
    let Some(consumer) = group.consumer(args[4], view)? else { return Ok(Reply::Integer(0)) };
    let begin = within_consumer(group.name, args[4]);
    let owned = group.names(OWNED, &begin, view)?;
    group.delete_all(OWNED, &begin, view)?;
    for name in &owned {
        let entry = [&within_group(group.name)[..], &name[begin.len()..]].concat();
        view.delete_element(group.stream.id, PENDING, &entry);
    }
    let name = [&within_group(group.name)[..], args[4]].concat();
    view.delete_element(group.stream.id, CONSUMERS, &name);
    group.state.consumers = group.state.consumers.saturating_sub(1);
    group.state.pending = group.state.pending.saturating_sub(owned.len() as u64);
    group.save(view);
    view.tell(event::STREAM, "xgroup-delconsumer", args[2]);
    Ok(Reply::Integer(consumer.pending.cast_signed()))
}
