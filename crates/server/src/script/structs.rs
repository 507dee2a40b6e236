//! The library `struct`: values as bytes of a format, such as `>I4s` for a number of four bytes
//! with the highest first, and a string with a zero behind it.

use mlua::{Lua, MultiValue, Table, Value};

use super::given::{Given, truncated};
use super::thrown::Thrown;
use super::values::{Bytes, MEMORY_MAX, RESULTS_MAX, out_of_memory};

/// Most bytes of a number, and the alignment that `!` stands for.
const NUMBER_MAX: usize = 32;
const ALIGNMENT: usize = 8;

/// The functions.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let pack = |lua: &Lua, given: MultiValue| pack(lua, &Given::new(lua, &given, "pack"));
    library.set("pack", lua.create_function(pack)?)?;
    let unpack = |lua: &Lua, given: MultiValue| unpack(lua, &Given::new(lua, &given, "unpack"));
    library.set("unpack", lua.create_function(unpack)?)?;
    let size = |lua: &Lua, given: MultiValue| size(lua, &Given::new(lua, &given, "size"));
    library.set("size", lua.create_function(size)?)?;
    Ok(library)
}

/// An option of a format.
struct FormatOption {
    letter: u8,
    /// Bytes of it; 0 if they are not fixed, or it has none.
    size: usize,
    /// Where it begins, behind what aligns it.
    start: usize,
}

/// Reads the options of a format.
struct Format<'a> {
    lua: &'a Lua,
    given: &'a Given<'a>,
    text: Vec<u8>,
    at: usize,
    is_big: bool,
    alignment: usize,
}

impl<'a> Format<'a> {
    /// The format that is the first argument, up to a zero.
    fn new(lua: &'a Lua, given: &'a Given<'a>) -> mlua::Result<Self> {
        let mut text = given.text(0)?.as_bytes().to_vec();
        text.truncate(text.iter().position(|byte| *byte == 0).unwrap_or(text.len()));
        let is_big = cfg!(target_endian = "big");
        Ok(Self { lua, given, text, at: 0, is_big, alignment: 1 })
    }

    /// The number that comes, or what stands for none.
    fn number(&mut self, default: usize) -> mlua::Result<usize> {
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let digits = &self.text[self.at..][..digits];
        if digits.is_empty() {
            return Ok(default);
        }
        self.at += digits.len();
        let number = str::from_utf8(digits).ok().and_then(|digits| digits.parse::<i32>().ok());
        let number = number.and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| Thrown::placed(self.lua, "integral size overflow"))
    }

    /// The option that begins at a place of the bytes or, where it is to be aligned, behind that.
    fn next(&mut self, start: usize) -> mlua::Result<Option<FormatOption>> {
        let Some(letter) = self.text.get(self.at).copied() else { return Ok(None) };
        self.at += 1;
        let size = match letter {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.number(1)?,
            b'i' | b'I' => self.number(4)?,
            _ => 0,
        };
        if b"iI".contains(&letter) && size > NUMBER_MAX {
            let why = format!("integral size {size} is larger than limit of {NUMBER_MAX}");
            return Err(Thrown::placed(self.lua, why));
        }
        let unit = if letter == b'c' { 1 } else { size.clamp(1, self.alignment) };
        // As Redis has it, a unit need not be a power of 2.
        let padding = (unit - (start & (unit - 1))) & (unit - 1);
        match letter {
            b'>' => self.is_big = true,
            b'<' => self.is_big = false,
            b'!' => {
                self.alignment = self.number(ALIGNMENT)?;
                if !self.alignment.is_power_of_two() {
                    let why = format!("alignment {} is not a power of 2", self.alignment);
                    return Err(Thrown::placed(self.lua, why));
                }
            }
            b' ' | b's' | b'c' | b'i' | b'I' => {}
            _ if size > 0 => {}
            other => {
                let why = format!("invalid format option '{}'", char::from(other));
                return Err(self.given.wrong(0, &why));
            }
        }
        Ok(Some(FormatOption { letter, size, start: start.wrapping_add(padding) }))
    }

    /// Bytes with the lowest first in the order of the format, or the other way round.
    fn ordered<const N: usize>(&self, mut bytes: [u8; N]) -> [u8; N] {
        if self.is_big {
            bytes.reverse();
        }
        bytes
    }
}

/// `struct.pack(format, value, ...)`
fn pack(lua: &Lua, given: &Given<'_>) -> mlua::Result<Value> {
    let (mut format, mut packed, mut argument) = (Format::new(lua, given)?, Vec::new(), 0);
    while let Some(FormatOption { letter, size, start }) = format.next(packed.len())? {
        packed.resize(start, 0);
        argument += usize::from(b"bBhHlLTiIfdcs".contains(&letter));
        match letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let number = given.number(argument)?;
                let number = match number {
                    ..0.0 => number as i64 as u64,
                    number if number < 2f64.powi(64) => number as u64,
                    _ => 0,
                };
                let from = packed.len();
                packed.extend(number.to_le_bytes().into_iter().take(size));
                packed.resize(from + size, 0);
                if format.is_big {
                    packed[from..].reverse();
                }
            }
            b'x' => packed.push(0),
            b'f' => {
                let number = given.number(argument)? as f32;
                packed.extend(format.ordered(number.to_le_bytes()));
            }
            b'd' => packed.extend(format.ordered(given.number(argument)?.to_le_bytes())),
            b'c' | b's' => {
                let text = given.text(argument)?;
                let text = text.as_bytes();
                let size = if size == 0 { text.len() } else { size };
                let part = text.get(..size);
                packed.extend(part.ok_or_else(|| given.wrong(argument + 1, "string too short"))?);
                packed.extend((letter == b's').then_some(0));
            }
            _ => {}
        }
        if packed.len() > MEMORY_MAX {
            return Err(out_of_memory());
        }
    }
    lua.pack(Bytes(&packed))
}

/// `struct.unpack(format, text [, place])`: the values, and the place behind them.
fn unpack(lua: &Lua, given: &Given<'_>) -> mlua::Result<MultiValue> {
    let (mut format, text) = (Format::new(lua, given)?, given.text(1)?);
    let text = text.as_bytes();
    let place = given.integer_or(2, 1)?;
    if place == 0 {
        return Err(given.wrong(2, "offset must be 1 or greater"));
    }
    // A place in front of the first is one behind all.
    let mut at = place.wrapping_sub(1) as usize;
    let short = || given.wrong(1, "data string too short");
    let mut values = MultiValue::new();
    while let Some(FormatOption { letter, mut size, start }) = format.next(at)? {
        if values.len() == RESULTS_MAX {
            return Err(Thrown::placed(lua, "stack overflow (too many results)"));
        }
        let bytes = text.get(start..).ok_or_else(short)?;
        let part = bytes.get(..size).ok_or_else(short)?;
        match letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                values.push_back(Value::Number(number(part, format.is_big, letter)));
            }
            b'f' => {
                let bytes = format.ordered(part.try_into().unwrap_or_default());
                values.push_back(Value::Number(f32::from_le_bytes(bytes).into()));
            }
            b'd' => {
                let bytes = format.ordered(part.try_into().unwrap_or_default());
                values.push_back(Value::Number(f64::from_le_bytes(bytes)));
            }
            b'c' => {
                if size == 0 {
                    let Some(Value::Number(len)) = values.pop_back() else {
                        return Err(Thrown::placed(lua, "format 'c0' needs a previous size"));
                    };
                    size = truncated(len) as usize;
                }
                values.push_back(lua.pack(Bytes(bytes.get(..size).ok_or_else(short)?))?);
            }
            b's' => {
                let end = bytes.iter().position(|byte| *byte == 0);
                let unfinished = || Thrown::placed(lua, "unfinished string in data");
                size = end.ok_or_else(unfinished)?;
                values.push_back(lua.pack(Bytes(&bytes[..size]))?);
                size += 1;
            }
            _ => {}
        }
        at = start + size;
    }
    values.push_back(Value::Number(at.wrapping_add(1).cast_signed() as f64));
    Ok(values)
}

/// The number of bytes; small letters stand for numbers with a sign.
fn number(bytes: &[u8], is_big: bool, letter: u8) -> f64 {
    let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    let number = match is_big {
        true => bytes.iter().fold(0, add),
        false => bytes.iter().rev().fold(0, add),
    };
    let unused = 64u32.saturating_sub(8 * bytes.len() as u32);
    match letter.is_ascii_lowercase() && unused < 64 {
        true => ((number << unused).cast_signed() >> unused) as f64,
        false => number as f64,
    }
}

/// `struct.size(format)`
fn size(lua: &Lua, given: &Given<'_>) -> mlua::Result<f64> {
    let (mut format, mut at) = (Format::new(lua, given)?, 0);
    while let Some(FormatOption { letter, size, start }) = format.next(at)? {
        match letter {
            b's' => return Err(given.wrong(0, "option 's' has no fixed size")),
            b'c' if size == 0 => return Err(given.wrong(0, "option 'c0' has no fixed size")),
            _ => at = start + size,
        }
    }
    Ok(at as f64)
}
