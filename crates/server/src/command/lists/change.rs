//! What changes lists elsewhere than at their ends.

use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};

use super::{find, indexes, place, put, remove_all, slice};
use crate::command::args::{is, number, syntax};
use crate::exec::{Answer, ElementRange, Halt, View, event};
use crate::model::record::Collection;
use crate::resp::reply::Reply;

/// Most elements that one command moves to other positions.
const MOVED_MAX: u64 = 1_000_000;

fn check_moved(count: u64) -> Answer<()> {
    match count {
        ..=MOVED_MAX => Ok(()),
        _ => Err(Halt::error(format!(
            "ERR the list is too long: {count} elements would be moved, of at most {MOVED_MAX}"
        ))),
    }
}

/// `LSET key index element`
pub fn lset<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let found = find(args[1], view)?;
    let (list, until) = found.ok_or_else(|| Halt::error("ERR no such key"))?;
    let index = place(&list, number(args[2])?).filter(|index| *index < list.len);
    let index = index.ok_or_else(|| Halt::error("ERR index out of range"))?;
    put(&list, index, args[3], view);
    view.keep(args[1], (list, until));
    view.tell(event::LIST, "lset", args[1]);
    Ok(Reply::OK)
}

/// Moves elements by one position, those of `indexes` to the left or to the right.
fn shift(list: &Collection, indexes: Range<u64>, to_left: bool, view: &mut View<'_>) -> Answer<()> {
    let values = slice(list, indexes.clone(), view)?;
    for (index, value) in indexes.zip(values) {
        // The one in front of the first has position head - 1.
        let list =
            Collection { head: list.head.wrapping_add(if to_left { -1 } else { 1 }), ..*list };
        put(&list, index, value.to_vec(), view);
    }
    Ok(())
}

/// The first index of a value.
fn find_value(list: &Collection, value: &[u8], view: &View<'_>) -> Answer<Option<u64>> {
    let (mut index, mut found) = (0, None);
    view.elements(list.id, ElementRange::ALL, &mut |_, other| {
        if other == value {
            found = Some(index);
            return ControlFlow::Break(());
        }
        index += 1;
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// `LINSERT key BEFORE | AFTER pivot element`: moves the shorter side.
pub fn linsert<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let behind = match args[2] {
        word if is(word, "AFTER") => 1,
        word if is(word, "BEFORE") => 0,
        _ => return Err(syntax()),
    };
    let Some((mut list, until)) = find(args[1], view)? else { return Ok(Reply::Integer(0)) };
    let Some(pivot) = find_value(&list, args[3], view)? else { return Ok(Reply::Integer(-1)) };
    let index = pivot + behind;
    let to_left = index < list.len - index;
    check_moved(index.min(list.len - index))?;
    match to_left {
        true => {
            shift(&list, 0..index, true, view)?;
            list.head = list.head.wrapping_sub(1);
        }
        false => shift(&list, index..list.len, false, view)?,
    }
    list.len += 1;
    put(&list, index, args[4], view);
    view.keep(args[1], (list, until));
    view.tell(event::LIST, "linsert", args[1]);
    Ok(Reply::Integer(list.len.cast_signed()))
}

/// The indexes of a value: the first ones, or the last ones of a negative number, or all.
fn matches(list: &Collection, value: &[u8], count: i64, view: &View<'_>) -> Answer<BTreeSet<u64>> {
    let wanted = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let (mut seen, mut found) = (0, BTreeSet::new());
    let within = ElementRange { is_reversed: count < 0, ..ElementRange::ALL };
    view.elements(list.id, within, &mut |_, other| {
        if other == value {
            found.insert(if count < 0 { list.len.saturating_sub(seen + 1) } else { seen });
        }
        seen += 1;
        match found.len() as u64 == wanted {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    Ok(found)
}

/// `LREM key count element`: closes the gaps from the shorter side.
pub fn lrem<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let count = number(args[2])?;
    let Some((mut list, until)) = find(args[1], view)? else { return Ok(Reply::Integer(0)) };
    let gone = matches(&list, args[3], count, view)?;
    let (Some(first), Some(last)) = (gone.first(), gone.last()) else {
        return Ok(Reply::Integer(0));
    };
    let removed = gone.len() as u64;
    let (of_left, of_right) = (last + 1, list.len - first);
    check_moved(of_left.min(of_right))?;
    if of_left < of_right {
        let values = slice(&list, 0..of_left, view)?;
        let kept = (0..of_left).zip(values).filter(|(index, _)| !gone.contains(index));
        let kept = kept.map(|(_, value)| value.to_vec());
        (removed..).zip(kept).for_each(|(index, value)| put(&list, index, value, view));
        remove_all(&list, 0..removed, view);
        list.head = list.head.wrapping_add_unsigned(removed);
    } else {
        let values = slice(&list, *first..list.len, view)?;
        let kept = (*first..list.len).zip(values).filter(|(index, _)| !gone.contains(index));
        let kept = kept.map(|(_, value)| value.to_vec());
        (*first..).zip(kept).for_each(|(index, value)| put(&list, index, value, view));
        remove_all(&list, list.len - removed..list.len, view);
    }
    list.len -= removed;
    view.keep(args[1], (list, until));
    view.tell(event::LIST, "lrem", args[1]);
    view.tell_if_gone(args[1])?;
    Ok(Reply::Integer(removed.cast_signed()))
}

/// `LTRIM key start end`
pub fn ltrim<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let (start, end) = (number(args[2])?, number(args[3])?);
    let Some((mut list, until)) = find(args[1], view)? else { return Ok(Reply::OK) };
    let kept = indexes(&list, start, end);
    if kept.is_empty() {
        view.end(args[1], &list);
    } else {
        remove_all(&list, 0..kept.start, view);
        remove_all(&list, kept.end..list.len, view);
        list.head = list.head.wrapping_add_unsigned(kept.start);
        list.len = kept.end - kept.start;
        view.keep(args[1], (list, until));
    }
    view.tell(event::LIST, "ltrim", args[1]);
    view.tell_if_gone(args[1])?;
    Ok(Reply::OK)
}
