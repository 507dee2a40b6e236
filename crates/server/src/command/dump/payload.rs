//! The bytes of a dump: a value as Redis saves it in files, two bytes with the version of the
//! format, and eight with a checksum of all that.

use std::borrow::Cow;
use std::collections::HashSet;

use crc::{CRC_64_REDIS, Crc};

use super::packed::{self, BadPayload, ByteReader, Elements, Unpacked, text};
use crate::command::{STRING_MAX, float};
use crate::resp::request::integer;

/// The types of values that are written.
pub const STRING: u8 = 0;
pub const LIST: u8 = 1;
pub const SET: u8 = 2;
pub const HASH: u8 = 4;
pub const SORTED_SET: u8 = 5;

/// The types of values that are only read: texts as scores, and collections in pieces.
const SORTED_SET_TEXTS: u8 = 3;
const LIST_ZIPLIST: u8 = 10;
const SET_INTSET: u8 = 11;
const SORTED_SET_ZIPLIST: u8 = 12;
const HASH_ZIPLIST: u8 = 13;
const LIST_ZIPLISTS: u8 = 14;
const HASH_LISTPACK: u8 = 16;
const SORTED_SET_LISTPACK: u8 = 17;
const LIST_LISTPACKS: u8 = 18;
const SET_LISTPACK: u8 = 20;

/// A library of functions.
const LIBRARY: u8 = 245;

/// The version that is written, of Redis 7.0, and the last one that is read, of Redis 7.4.
const VERSION: u16 = 10;
const VERSION_MAX: u16 = 12;

/// Most elements of a collection, and most bytes that compressed ones may have.
const ELEMENTS_MAX: usize = 1 << 20;
const DECOMPRESSED_MAX: usize = 4 * STRING_MAX;

/// Kinds of strings that are no plain bytes.
const IS_I8: u64 = 0;
const IS_I16: u64 = 1;
const IS_I32: u64 = 2;
const IS_COMPRESSED: u64 = 3;

/// An element of a list that is no listpack.
const PLAIN: u64 = 1;
const PACKED: u64 = 2;

static CHECKSUM: Crc<u64> = Crc::<u64>::new(&CRC_64_REDIS);

/// Appends version and checksum.
pub fn seal(out: &mut Vec<u8>) {
    out.extend(VERSION.to_le_bytes());
    let checksum = CHECKSUM.checksum(out);
    out.extend(checksum.to_le_bytes());
}

/// Appends a length.
pub fn put_len(len: u64, out: &mut Vec<u8>) {
    match len {
        0..0x40 => out.push(len as u8),
        0x40..0x4000 => out.extend((len as u16 | 0x4000).to_be_bytes()),
        0x4000..=0xffff_ffff => {
            out.push(0x80);
            out.extend((len as u32).to_be_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend(len.to_be_bytes());
        }
    }
}

/// Appends a string; integers of up to four bytes are written as such.
pub fn put_string(bytes: &[u8], out: &mut Vec<u8>) {
    let number = integer(bytes).and_then(|number| i32::try_from(number).ok());
    let (kind, len) = match number {
        None => {
            put_len(bytes.len() as u64, out);
            return out.extend_from_slice(bytes);
        }
        Some(-0x80..0x80) => (IS_I8, 1),
        Some(-0x8000..0x8000) => (IS_I16, 2),
        Some(_) => (IS_I32, 4),
    };
    out.push(0xc0 | kind as u8);
    out.extend_from_slice(&number.unwrap_or_default().to_le_bytes()[..len]);
}

/// A field of a hash, and its value.
pub type FieldAndValue<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// A value of a dump.
#[derive(Debug, PartialEq)]
pub enum DumpedValue<'a> {
    /// A string.
    String(Cow<'a, [u8]>),
    /// Values in their order.
    List(Elements<'a>),
    /// Different members.
    Set(Elements<'a>),
    /// Different fields, and their values.
    Hash(Vec<FieldAndValue<'a>>),
    /// Different members, and their scores.
    SortedSet(Vec<(Cow<'a, [u8]>, f64)>),
}

impl<'a> DumpedValue<'a> {
    /// The value of a dump. Collections have elements, and no more than a request has arguments.
    pub fn of(bytes: &'a [u8]) -> Result<Self, BadPayload> {
        let mut reader = PayloadReader::of(bytes)?;
        let value = reader.value()?;
        if reader.bytes.0.is_empty() { Ok(value) } else { Err(BadPayload::Content) }
    }
}

/// Appends a library of functions.
pub fn put_library(text: &[u8], out: &mut Vec<u8>) {
    out.push(LIBRARY);
    put_string(text, out);
}

/// The texts of the libraries of a dump.
pub fn libraries(bytes: &[u8]) -> Unpacked<Elements<'_>> {
    let mut reader = PayloadReader::of(bytes)?;
    let mut texts = Vec::new();
    while !reader.bytes.0.is_empty() {
        match reader.bytes.byte()? {
            LIBRARY => texts.push(reader.string()?),
            _ => return Err(BadPayload::Content),
        }
    }
    Ok(texts)
}

/// Elements as pairs of two.
fn pairs(elements: Elements<'_>) -> Unpacked<Vec<FieldAndValue<'_>>> {
    if elements.len() % 2 == 1 {
        return Err(BadPayload::Content);
    }
    let (mut pairs, mut elements) = (Vec::new(), elements.into_iter());
    while let (Some(name), Some(value)) = (elements.next(), elements.next()) {
        pairs.push((name, value));
    }
    Ok(pairs)
}

/// The score of a text.
fn score(text: &[u8]) -> Unpacked<f64> {
    float::any_double(text).filter(|score| !score.is_nan()).ok_or(BadPayload::Content)
}

/// Checks that there are elements, with different names.
fn check<'n>(names: impl ExactSizeIterator<Item = &'n Cow<'n, [u8]>>) -> Unpacked<()> {
    let len = names.len();
    let is_right = len > 0 && names.collect::<HashSet<_>>().len() == len;
    if is_right { Ok(()) } else { Err(BadPayload::Content) }
}

fn list(values: Elements<'_>) -> Unpacked<DumpedValue<'_>> {
    if values.is_empty() { Err(BadPayload::Content) } else { Ok(DumpedValue::List(values)) }
}

fn set(members: Elements<'_>) -> Unpacked<DumpedValue<'_>> {
    check(members.iter())?;
    Ok(DumpedValue::Set(members))
}

fn hash(elements: Elements<'_>) -> Unpacked<DumpedValue<'_>> {
    let fields = pairs(elements)?;
    check(fields.iter().map(|(field, _)| field))?;
    Ok(DumpedValue::Hash(fields))
}

fn sorted_set<'a>(members: Vec<(Cow<'a, [u8]>, f64)>) -> Unpacked<DumpedValue<'a>> {
    check(members.iter().map(|(member, _)| member))?;
    Ok(DumpedValue::SortedSet(members))
}

fn sorted_set_of_texts(elements: Elements<'_>) -> Unpacked<DumpedValue<'_>> {
    let scored = pairs(elements)?.into_iter().map(|(member, text)| Ok((member, score(&text)?)));
    sorted_set(scored.collect::<Unpacked<_>>()?)
}

/// The elements of a collection in one piece, of which there are at most as many as a number says.
type Unpack = fn(&[u8], usize) -> Unpacked<Elements<'_>>;

struct PayloadReader<'a> {
    bytes: ByteReader<'a>,
    /// Bytes that compressed strings may still have.
    room: usize,
}

impl<'a> PayloadReader<'a> {
    /// A reader of what a dump has, if its seal is right.
    fn of(bytes: &'a [u8]) -> Unpacked<Self> {
        let (rest, checksum) = bytes.split_last_chunk().ok_or(BadPayload::Seal)?;
        let (value, version) = rest.split_last_chunk().ok_or(BadPayload::Seal)?;
        let is_right = u16::from_le_bytes(*version) <= VERSION_MAX
            && u64::from_le_bytes(*checksum) == CHECKSUM.checksum(rest);
        let reader = Self { bytes: ByteReader(value), room: DECOMPRESSED_MAX };
        if is_right { Ok(reader) } else { Err(BadPayload::Seal) }
    }

    fn value(&mut self) -> Unpacked<DumpedValue<'a>> {
        match self.bytes.byte()? {
            STRING => self.string().map(DumpedValue::String),
            LIST => list(self.strings(1)?),
            SET => set(self.strings(1)?),
            HASH => hash(self.strings(2)?),
            SORTED_SET => self.scored(|bytes| Ok(f64::from_le_bytes(bytes.array()?))),
            SORTED_SET_TEXTS => self.scored(|bytes| match bytes.byte()? {
                u8::MAX => Ok(f64::NEG_INFINITY),
                0xfe => Ok(f64::INFINITY),
                len => score(bytes.take(len.into())?),
            }),
            LIST_ZIPLIST => list(self.packed(packed::ziplist)?),
            SET_INTSET => set(self.packed(packed::intset)?),
            SORTED_SET_ZIPLIST => sorted_set_of_texts(self.packed(packed::ziplist)?),
            HASH_ZIPLIST => hash(self.packed(packed::ziplist)?),
            LIST_ZIPLISTS => list(self.pieces(packed::ziplist, false)?),
            HASH_LISTPACK => hash(self.packed(packed::listpack)?),
            SORTED_SET_LISTPACK => sorted_set_of_texts(self.packed(packed::listpack)?),
            LIST_LISTPACKS => list(self.pieces(packed::listpack, true)?),
            SET_LISTPACK => set(self.packed(packed::listpack)?),
            _ => Err(BadPayload::Content),
        }
    }

    /// A length, or a kind of strings that have none.
    fn len_or_kind(&mut self) -> Unpacked<(u64, bool)> {
        let first = self.bytes.byte()?;
        let low = u64::from(first & 0x3f);
        Ok(match first {
            0..0x40 => (low, false),
            0x40..0x80 => (low << 8 | u64::from(self.bytes.byte()?), false),
            0x80 => (u32::from_be_bytes(self.bytes.array()?).into(), false),
            0x81 => (u64::from_be_bytes(self.bytes.array()?), false),
            0xc0.. => (low, true),
            _ => return Err(BadPayload::Content),
        })
    }

    fn len(&mut self) -> Unpacked<usize> {
        match self.len_or_kind()? {
            (len, false) => usize::try_from(len).map_err(|_| BadPayload::Content),
            _ => Err(BadPayload::Content),
        }
    }

    fn string(&mut self) -> Unpacked<Cow<'a, [u8]>> {
        Ok(match self.len_or_kind()? {
            (len, false) => {
                let len = usize::try_from(len).map_err(|_| BadPayload::Content)?;
                self.bytes.take(len)?.into()
            }
            (IS_I8, true) => text(i8::from_le_bytes(self.bytes.array()?)),
            (IS_I16, true) => text(i16::from_le_bytes(self.bytes.array()?)),
            (IS_I32, true) => text(i32::from_le_bytes(self.bytes.array()?)),
            (IS_COMPRESSED, true) => {
                let (compressed, len) = (self.len()?, self.len()?);
                self.room = self.room.checked_sub(len).ok_or(BadPayload::Content)?;
                if len > STRING_MAX {
                    return Err(BadPayload::Content);
                }
                packed::decompressed(self.bytes.take(compressed)?, len)?.into()
            }
            _ => return Err(BadPayload::Content),
        })
    }

    /// A number of elements, and those, of which each is a number of strings.
    fn strings(&mut self, each: usize) -> Unpacked<Elements<'a>> {
        let len = self.elements()?;
        (0..len * each).map(|_| self.string()).collect()
    }

    /// A number of elements, of which each takes at least a byte.
    fn elements(&mut self) -> Unpacked<usize> {
        let len = self.len()?;
        let is_right = len <= ELEMENTS_MAX.min(self.bytes.0.len());
        if is_right { Ok(len) } else { Err(BadPayload::Content) }
    }

    fn scored(
        &mut self,
        score: impl Fn(&mut ByteReader<'a>) -> Unpacked<f64>,
    ) -> Unpacked<DumpedValue<'a>> {
        let len = self.elements()?;
        let scored = (0..len).map(|_| {
            let member = self.string()?;
            let score = score(&mut self.bytes)?;
            if score.is_nan() { Err(BadPayload::Content) } else { Ok((member, score)) }
        });
        sorted_set(scored.collect::<Unpacked<_>>()?)
    }

    /// The elements of a string that has them in one piece.
    fn packed(&mut self, unpack: Unpack) -> Unpacked<Elements<'a>> {
        match self.string()? {
            Cow::Borrowed(bytes) => unpack(bytes, 2 * ELEMENTS_MAX),
            Cow::Owned(bytes) => {
                let found = unpack(&bytes, 2 * ELEMENTS_MAX)?;
                Ok(found.into_iter().map(|it| Cow::Owned(it.into_owned())).collect())
            }
        }
    }

    /// The values of a list in several pieces, which say what they are if they `have_kinds`.
    fn pieces(&mut self, unpack: Unpack, have_kinds: bool) -> Unpacked<Elements<'a>> {
        let mut found = Vec::new();
        for _ in 0..self.elements()? {
            let kind = if have_kinds { self.len_or_kind()?.0 } else { PACKED };
            match kind {
                PLAIN => found.push(self.string()?),
                PACKED => found.append(&mut self.packed(unpack)?),
                _ => return Err(BadPayload::Content),
            }
            if found.len() > ELEMENTS_MAX {
                return Err(BadPayload::Content);
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn sealed(value: &[u8]) -> Vec<u8> {
        let mut bytes = value.to_vec();
        seal(&mut bytes);
        bytes
    }

    fn strings(texts: &[&'static str]) -> Elements<'static> {
        texts.iter().map(|text| Cow::Borrowed(text.as_bytes())).collect()
    }

    /// A listpack, or a ziplist with its own `head`, of encoded elements.
    fn piece(head: usize, elements: &[u8]) -> Vec<u8> {
        let len = head + elements.len() + 1;
        let head = [&(len as u32).to_le_bytes()[..], &vec![0; head - 4]].concat();
        [&[len as u8], &*head, elements, &[0xff]].concat()
    }

    #[test]
    fn the_checksum_is_that_of_redis() {
        assert_eq!(CHECKSUM.checksum(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn old_forms_are_read() {
        let ziplist =
            piece(10, b"\x00\x01a\x03\xc0\xff\x7f\x04\xf0\xff\xff\x7f\x05\xfd\x02\xfe\x80");
        let listpack = piece(6, b"\x81a\x02\x7f\x01\xdf\xff\x02\xf2\xff\xff\xff\x04\xe0\x01b\x03");
        let plain = [b"\x12\x02\x01\x01c\x02", &*listpack].concat();
        let small = b"\x01\x02\xc0\x80\xc2\0\0\0\x80".to_vec();
        // Three letters, and the last of them 20 times more.
        let compressed = b"\x01\x01\xc3\x07\x17\x02abc\xe0\x0b\x00".to_vec();
        for (bytes, values) in [
            ([b"\x0a", &*ziplist].concat(), &["a", "32767", "8388607", "12", "-128"][..]),
            (plain, &["c", "a", "127", "-1", "-1", "b"]),
            (small, &["-128", "-2147483648"]),
            (compressed, &["abccccccccccccccccccccc"]),
        ] {
            let value = DumpedValue::List(strings(values));
            assert_eq!(DumpedValue::of(&sealed(&bytes)), Ok(value), "{bytes:x?}");
        }
        let texts = sealed(b"\x03\x02\x01a\x031.5\x01b\xff");
        let scores = vec![(Cow::from(&b"a"[..]), 1.5), (Cow::from(&b"b"[..]), f64::NEG_INFINITY)];
        assert_eq!(DumpedValue::of(&texts), Ok(DumpedValue::SortedSet(scores)));
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        for bytes in [
            &b""[..],
            b"\x00",
            b"\x00\x05abc",
            b"\x00\x01ab",
            b"\x01\x00",
            b"\x02\x02\x01a\x01a",
            b"\x04\x02\x01a\x01b\x01a\x01c",
            b"\x05\x01\x01a\0\0\0\0\0\0\xf8\x7f",
            b"\x01\x80\xff\xff\xff\xff\x01a",
            b"\x01\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01a",
            b"\x00\xc3\x02\x80\x03\xff\xff\xff\x00a",
            b"\x00\xc3\x03\x09\x20\x00\x00",
            b"\x0b\x0a\x02\0\0\0\x02\0\0\0\x01\x00",
            b"\x0b\x0a\x03\0\0\0\x01\0\0\0\x01\x00",
            b"\x10\x0a\x0a\0\0\0\x01\0\x81a\x02\xff",
            b"\x10\x07\x08\0\0\0\0\0\xff",
            b"\x0f\x00",
            b"\x18\x01",
        ] {
            let read = DumpedValue::of(&sealed(bytes)).map(|_| ());
            assert_eq!(read, Err(BadPayload::Content), "{bytes:x?}");
        }
        let mut newer = b"\x00\x01a\x0d\x00".to_vec();
        newer.extend(CHECKSUM.checksum(&newer).to_le_bytes());
        for bytes in [&b""[..], b"123456789", &newer, &sealed(b"\x05\x01a")[1..]] {
            assert_eq!(DumpedValue::of(bytes), Err(BadPayload::Seal), "{bytes:x?}");
        }
    }

    proptest! {
        #[test]
        fn strings_are_read_as_they_were_written(bytes in vec(any::<u8>(), 0..300), number: i64) {
            for bytes in [bytes, number.to_string().into(), (number as i16).to_string().into()] {
                let mut out = vec![STRING];
                put_string(&bytes, &mut out);
                let (dump, value) = (sealed(&out), DumpedValue::String(bytes.into()));
                prop_assert_eq!(DumpedValue::of(&dump), Ok(value));
            }
        }

        #[test]
        fn noise_is_an_error_and_no_more(kind in 0..25_u8, bytes in vec(any::<u8>(), 0..200)) {
            _ = DumpedValue::of(&sealed(&[&[kind], &*bytes].concat()));
            _ = DumpedValue::of(&bytes);
            // In one piece, whose length is right.
            let piece = [&bytes[..], b"\xff"].concat();
            for head in [6, 10] {
                let len = (piece.len() + head) as u32;
                let whole = [&len.to_le_bytes(), &vec![0; head - 4][..], &piece].concat();
                _ = packed::listpack(&whole, 1000);
                _ = packed::ziplist(&whole, 1000);
            }
            _ = packed::intset(&bytes, 1000);
            _ = packed::decompressed(&bytes, bytes.len() * 3);
        }
    }
}
