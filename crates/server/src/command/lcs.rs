//! The longest common subsequence of two strings.

use bytes::Bytes;

use super::args::{is, number, syntax};
use super::strings::STRING_MAX;
use crate::exec::{Answer, Halt, View};
use crate::model::record::{KeyContent, KeyRecord};
use crate::resp::reply::Reply;

/// What is asked for.
#[derive(Default)]
struct LcsTerms {
    length: bool,
    places: bool,
    with_lengths: bool,
    shortest: i64,
}

impl LcsTerms {
    fn of(words: &[&[u8]]) -> Answer<Self> {
        let (mut terms, mut words) = (Self::default(), words.iter());
        while let Some(word) = words.next() {
            match word {
                _ if is(word, "IDX") => terms.places = true,
                _ if is(word, "LEN") => terms.length = true,
                _ if is(word, "WITHMATCHLEN") => terms.with_lengths = true,
                _ if is(word, "MINMATCHLEN") => {
                    terms.shortest = number(words.next().ok_or_else(syntax)?)?;
                }
                _ => return Err(syntax()),
            }
        }
        if terms.length && terms.places {
            let why = "ERR If you want both the length and indexes, please just use IDX.";
            return Err(Halt::error(why));
        }
        Ok(terms)
    }
}

/// A piece of both strings: the place of its first byte in each, and its length.
#[derive(Clone, Copy)]
struct Piece {
    one: usize,
    other: usize,
    len: usize,
}

/// `LCS key key [LEN] [IDX] [MINMATCHLEN length] [WITHMATCHLEN]`
pub fn lcs(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let text = |key| match view.record(key)? {
        None => Ok(Bytes::new()),
        Some(KeyRecord { content: KeyContent::String(value), .. }) => Ok(value),
        Some(_) => Err(Halt::error("ERR The specified keys must contain string values")),
    };
    let (one, other) = (text(args[1])?, text(args[2])?);
    let terms = LcsTerms::of(&args[3..])?;
    if (one.len() + 1).saturating_mul(other.len() + 1) > STRING_MAX / size_of::<u32>() {
        let why = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
        return Err(Halt::error(why));
    }
    view.take_time((one.len() + 1) * (other.len() + 1))?;
    let lengths = lengths(&one, &other);
    let length = Reply::Integer(i64::from(lengths[lengths.len() - 1]));
    if terms.length {
        return Ok(length);
    }
    let pieces = pieces(&one, &other, &lengths);
    if terms.places {
        let long = pieces.iter().filter(|piece| piece.len as i64 >= terms.shortest);
        let matches = long.map(|piece| described(*piece, terms.with_lengths)).collect();
        let bulk = |text: &'static str| Reply::Bulk(text.into());
        return Ok(Reply::Map(vec![
            (bulk("matches"), Reply::Array(matches)),
            (bulk("len"), length),
        ]));
    }
    let bytes = pieces.iter().rev().flat_map(|piece| &one[piece.one..][..piece.len]);
    Ok(Reply::Bulk(bytes.copied().collect()))
}

fn described(piece: Piece, with_length: bool) -> Reply {
    let ends = |begin: usize| {
        let last = begin + piece.len - 1;
        Reply::Array([begin, last].map(|place| Reply::Integer(place as i64)).into())
    };
    let mut items = vec![ends(piece.one), ends(piece.other)];
    if with_length {
        items.push(Reply::Integer(piece.len as i64));
    }
    Reply::Array(items)
}

/// The lengths of the subsequences of all begins of both: a row for each begin of `one`.
fn lengths(one: &[u8], other: &[u8]) -> Vec<u32> {
    let width = other.len() + 1;
    let mut lengths = vec![0; (one.len() + 1) * width];
    for (row, byte) in one.iter().enumerate() {
        let (above, below) = lengths[row * width..].split_at_mut(width);
        for (column, with) in other.iter().enumerate() {
            below[column + 1] = match byte == with {
                true => above[column] + 1,
                false => above[column + 1].max(below[column]),
            };
        }
    }
    lengths
}

/// The pieces of the subsequence, from the last to the first.
fn pieces(one: &[u8], other: &[u8], lengths: &[u32]) -> Vec<Piece> {
    let width = other.len() + 1;
    let (mut row, mut column, mut pieces) = (one.len(), other.len(), Vec::<Piece>::new());
    // The piece whose begin is not found yet.
    let mut open: Option<Piece> = None;
    while row > 0 && column > 0 {
        if one[row - 1] == other[column - 1] {
            (row, column) = (row - 1, column - 1);
            let len = open.map_or(0, |piece| piece.len);
            open = Some(Piece { one: row, other: column, len: len + 1 });
            continue;
        }
        pieces.extend(open.take());
        match lengths[(row - 1) * width + column] > lengths[row * width + column - 1] {
            true => row -= 1,
            false => column -= 1,
        }
    }
    pieces.extend(open);
    pieces
}
