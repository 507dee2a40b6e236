//! Small collections in one piece, as Redis keeps them: what is read is trusted in nothing.

use std::borrow::Cow;

/// Why bytes are no dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPayload {
    /// The version or the checksum is another one.
    Seal,
    /// The value has no meaning, or is too large.
    Content,
}

/// Bytes, or why there are none.
pub type Unpacked<T> = Result<T, BadPayload>;

/// Elements of a collection in one piece.
pub type Elements<'a> = Vec<Cow<'a, [u8]>>;

/// Bytes that are read from their begin.
pub struct ByteReader<'a>(pub &'a [u8]);

impl<'a> ByteReader<'a> {
    /// The next bytes.
    pub fn take(&mut self, len: usize) -> Unpacked<&'a [u8]> {
        self.0.split_off(..len).ok_or(BadPayload::Content)
    }

    /// The next bytes, of a known number.
    pub fn array<const LEN: usize>(&mut self) -> Unpacked<[u8; LEN]> {
        self.take(LEN)?.try_into().map_err(|_| BadPayload::Content)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Unpacked<u8> {
        self.array().map(|[byte]| byte)
    }

    /// An integer of three bytes.
    fn three(&mut self) -> Unpacked<i64> {
        let [low, middle, high] = self.array()?;
        Ok((i32::from_le_bytes([0, low, middle, high]) >> 8).into())
    }
}

/// The text of an integer.
pub fn text<'a>(number: impl Into<i64>) -> Cow<'a, [u8]> {
    Cow::Owned(itoa::Buffer::new().format(number.into()).as_bytes().to_vec())
}

/// Reads elements up to the byte that ends them, of which there are at most `most`.
fn all<'a>(
    bytes: &'a [u8],
    head: usize,
    most: usize,
    element: impl Fn(&mut ByteReader<'a>, u8) -> Unpacked<Cow<'a, [u8]>>,
) -> Unpacked<Elements<'a>> {
    let mut rest = ByteReader(bytes);
    let is_whole = u32::from_le_bytes(rest.array()?) as usize == bytes.len();
    rest.take(head - size_of::<u32>())?;
    let mut found = Vec::new();
    loop {
        match rest.byte()? {
            u8::MAX if rest.0.is_empty() && is_whole => return Ok(found),
            u8::MAX => return Err(BadPayload::Content),
            _ if found.len() == most => return Err(BadPayload::Content),
            first => found.push(element(&mut rest, first)?),
        }
    }
}

/// The elements of a listpack, of which there are at most `most`: a head of 6 bytes, and of each
/// element its kind with its length, the element, and its length once more.
pub fn listpack(bytes: &[u8], most: usize) -> Unpacked<Elements<'_>> {
    all(bytes, 6, most, |rest, first| {
        let before = rest.0.len();
        let low = |bits: u8| usize::from(first & ((1 << bits) - 1));
        let found = match first {
            0..0x80 => text(first),
            0x80..0xc0 => rest.take(low(6))?.into(),
            0xc0..0xe0 => {
                let number = (low(5) << 8 | usize::from(rest.byte()?)) as i16;
                text(number << 3 >> 3)
            }
            0xe0..0xf0 => {
                let len = low(4) << 8 | usize::from(rest.byte()?);
                rest.take(len)?.into()
            }
            0xf0 => {
                let len = u32::from_le_bytes(rest.array()?);
                rest.take(len as usize)?.into()
            }
            0xf1 => text(i16::from_le_bytes(rest.array()?)),
            0xf2 => text(rest.three()?),
            0xf3 => text(i32::from_le_bytes(rest.array()?)),
            0xf4 => text(i64::from_le_bytes(rest.array()?)),
            _ => return Err(BadPayload::Content),
        };
        rest.take(match before - rest.0.len() + 1 {
            0..=0x7f => 1,
            0x80..0x3fff => 2,
            0x3fff..0x1f_ffff => 3,
            0x1f_ffff..0xfff_ffff => 4,
            _ => 5,
        })?;
        Ok(found)
    })
}

/// The elements of a ziplist, of which there are at most `most`: a head of 10 bytes, and of each
/// element the length of the one before, its kind with its length, and the element.
pub fn ziplist(bytes: &[u8], most: usize) -> Unpacked<Elements<'_>> {
    all(bytes, 10, most, |rest, before| {
        if before == 0xfe {
            rest.take(size_of::<u32>())?;
        }
        let first = rest.byte()?;
        let low = usize::from(first & 0x3f);
        Ok(match first {
            0..0x40 => rest.take(low)?.into(),
            0x40..0x80 => {
                let len = low << 8 | usize::from(rest.byte()?);
                rest.take(len)?.into()
            }
            0x80 => {
                let len = u32::from_be_bytes(rest.array()?);
                rest.take(len as usize)?.into()
            }
            0xc0 => text(i16::from_le_bytes(rest.array()?)),
            0xd0 => text(i32::from_le_bytes(rest.array()?)),
            0xe0 => text(i64::from_le_bytes(rest.array()?)),
            0xf0 => text(rest.three()?),
            0xf1..=0xfd => text(first - 0xf1),
            0xfe => text(i8::from_le_bytes(rest.array()?)),
            _ => return Err(BadPayload::Content),
        })
    })
}

/// The members of a set of integers, of which there are at most `most`: the bytes of each, their
/// number, and the integers.
pub fn intset(bytes: &[u8], most: usize) -> Unpacked<Elements<'_>> {
    let mut rest = ByteReader(bytes);
    let size = u32::from_le_bytes(rest.array()?) as usize;
    let len = u32::from_le_bytes(rest.array()?) as usize;
    if len > most || !matches!(size, 2 | 4 | 8) || size * len != rest.0.len() {
        return Err(BadPayload::Content);
    }
    let number = |bytes: &[u8]| {
        let sign = if bytes.last().is_some_and(|last| *last > 0x7f) { u8::MAX } else { 0 };
        let mut whole = [sign; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        text(i64::from_le_bytes(whole))
    };
    Ok(rest.0.chunks_exact(size).map(number).collect())
}

/// What LZF has made shorter, which was `len` bytes long.
pub fn decompressed(bytes: &[u8], len: usize) -> Unpacked<Vec<u8>> {
    // Three bytes stand for at most 264.
    if len / 88 > bytes.len() {
        return Err(BadPayload::Content);
    }
    let (mut rest, mut out) = (ByteReader(bytes), Vec::with_capacity(len));
    while !rest.0.is_empty() {
        let first = usize::from(rest.byte()?);
        if first < 32 {
            out.extend_from_slice(rest.take(first + 1)?);
        } else {
            let mut copied = (first >> 5) + 2;
            if copied == 9 {
                copied += usize::from(rest.byte()?);
            }
            let back = ((first & 0x1f) << 8 | usize::from(rest.byte()?)) + 1;
            let from = out.len().checked_sub(back).ok_or(BadPayload::Content)?;
            // What is copied may be part of what is copied.
            for at in from..from + copied {
                out.push(out[at]);
            }
        }
        if out.len() > len {
            return Err(BadPayload::Content);
        }
    }
    if out.len() == len { Ok(out) } else { Err(BadPayload::Content) }
}
