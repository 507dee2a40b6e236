//! The library `cmsgpack`: values as MessagePack.

use std::rc::Rc;

use mlua::{Lua, LuaString, MultiValue, Table, Value};
use rmp::Marker;
use rmp::encode::{self, ByteBuf};

use super::given::{Given, truncated};
use super::thrown::Thrown;
use super::values::{Bytes, MEMORY_MAX, RESULTS_MAX, out_of_memory};
use super::watch::ScriptWatch;

/// How deep tables are packed: those below are nothing. How deep they are unpacked.
const PACKED_DEPTH: usize = 16;
const UNPACKED_DEPTH: usize = 1000;

/// The functions.
pub(super) fn library(lua: &Lua, watch: &Rc<ScriptWatch>) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let watch = watch.clone();
    let pack = move |lua: &Lua, given: MultiValue| {
        if given.is_empty() {
            let why = "bad argument #0 to 'pack' (MessagePack pack needs input.)";
            return Err(Thrown::placed(lua, why));
        }
        let mut packed = ByteBuf::new();
        for value in &given {
            add((lua, &watch), value, 0, &mut packed)?;
        }
        lua.pack(Bytes(packed.as_slice()))
    };
    library.set("pack", lua.create_function(pack)?)?;
    let unpack = |lua: &Lua, given: MultiValue| {
        unpacked(lua, &Given::new(lua, &given, "unpack").text(0)?, None, 0)
    };
    library.set("unpack", lua.create_function(unpack)?)?;
    let unpack_one = |lua: &Lua, given: MultiValue| {
        let given = Given::new(lua, &given, "unpack_one");
        unpacked(lua, &given.text(0)?, Some(1), given.integer_or(1, 0)?)
    };
    library.set("unpack_one", lua.create_function(unpack_one)?)?;
    let unpack_limit = |lua: &Lua, given: MultiValue| {
        let given = Given::new(lua, &given, "unpack_limit");
        let (text, limit) = (given.text(0)?, truncated(given.number(1)?));
        unpacked(lua, &text, Some(limit), given.integer_or(2, 0)?)
    };
    library.set("unpack_limit", lua.create_function(unpack_limit)?)?;
    Ok(library)
}

/// A state, and what may end its script.
type InScript<'a> = (&'a Lua, &'a ScriptWatch);

/// Adds a value to what is packed.
fn add(
    in_script: InScript<'_>,
    value: &Value,
    depth: usize,
    packed: &mut ByteBuf,
) -> mlua::Result<()> {
    if packed.as_slice().len() > MEMORY_MAX {
        return Err(out_of_memory());
    }
    // Writing to memory does not fail.
    match value {
        Value::String(text) => {
            _ = encode::write_str_len(packed, text.as_bytes().len() as u32)
                .map(|_| packed.as_mut_vec().extend_from_slice(&text.as_bytes()))
        }
        Value::Boolean(yes) => _ = encode::write_bool(packed, *yes),
        Value::Integer(number) => _ = encode::write_sint(packed, *number),
        Value::Number(number) if f64::from(*number as f32) == *number => {
            _ = encode::write_f32(packed, *number as f32);
        }
        Value::Number(number) => _ = encode::write_f64(packed, *number),
        Value::Table(table) if depth < PACKED_DEPTH => {
            add_table(in_script, table, depth + 1, packed)?
        }
        _ => _ = encode::write_nil(packed),
    }
    Ok(())
}

fn add_table(
    in_script: InScript<'_>,
    table: &Table,
    depth: usize,
    packed: &mut ByteBuf,
) -> mlua::Result<()> {
    in_script.1.look(in_script.0)?;
    let (mut last, mut count, mut is_array) = (0, 0, true);
    for pair in table.pairs::<Value, Value>() {
        match pair?.0 {
            Value::Integer(place @ 1..) => last = last.max(place),
            _ => is_array = false,
        }
        count += 1;
    }
    if is_array && last == count {
        let _ = encode::write_array_len(packed, count as u32);
        return (1..=count)
            .try_for_each(|at| add(in_script, &table.raw_get::<Value>(at)?, depth, packed));
    }
    let _ = encode::write_map_len(packed, count as u32);
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        add(in_script, &key, depth, packed)?;
        add(in_script, &value, depth, packed)?;
    }
    Ok(())
}

/// The values of a text; with a `limit` that number of them, from a place on, behind the place of
/// the next one.
fn unpacked(
    lua: &Lua,
    text: &LuaString,
    limit: Option<i64>,
    from: i64,
) -> mlua::Result<MultiValue> {
    let text = text.as_bytes();
    let is_negative = from < 0 || limit.is_some_and(|limit| limit < 0);
    if is_negative {
        let (from, limit) = (from as i32, text.len());
        let why = format!("Invalid request to unpack with offset of {from} and limit of {limit}.");
        return Err(Thrown::placed(lua, why));
    }
    let Some(left) = text.get(from as usize..) else {
        let from = from as i32;
        let why = format!("Start offset {from} greater than input length {}.", text.len());
        return Err(Thrown::placed(lua, why));
    };
    let all = limit.is_none() || limit == Some(0) && from == 0;
    let mut unpacker = Unpacker { lua, left };
    let mut values = MultiValue::new();
    while !unpacker.left.is_empty() && (all || limit.is_some_and(|most| most > values.len() as i64))
    {
        if values.len() == RESULTS_MAX {
            let why = "stack overflow (too many return values at once; use unpack_one or \
                       unpack_limit instead.)";
            return Err(Thrown::placed(lua, why));
        }
        values.push_back(unpacker.value(0)?);
    }
    if !all {
        let place = text.len() - unpacker.left.len();
        let next = if unpacker.left.is_empty() { -1.0 } else { place as f64 };
        values.push_front(Value::Number(next));
    }
    Ok(values)
}

/// Makes values of what is packed.
struct Unpacker<'a> {
    lua: &'a Lua,
    left: &'a [u8],
}

impl<'a> Unpacker<'a> {
    fn take(&mut self, len: usize) -> mlua::Result<&'a [u8]> {
        let Some((taken, left)) = self.left.split_at_checked(len) else {
            return Err(Thrown::placed(self.lua, "Missing bytes in input."));
        };
        self.left = left;
        Ok(taken)
    }

    /// A number of `len` bytes, the highest first.
    fn number(&mut self, len: usize) -> mlua::Result<u64> {
        let bytes = self.take(len)?;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// A number with a sign.
    fn signed(&mut self, len: usize) -> mlua::Result<Value> {
        let unused = 64 - 8 * len as u32;
        let number = (self.number(len)? << unused).cast_signed() >> unused;
        Ok(Value::Number(number as f64))
    }

    fn unsigned(&mut self, len: usize) -> mlua::Result<Value> {
        self.number(len).map(|number| Value::Number(number as f64))
    }

    fn text(&mut self, len: u64) -> mlua::Result<Value> {
        let bytes = self.take(len as usize)?;
        self.lua.pack(Bytes(bytes))
    }

    fn value(&mut self, depth: usize) -> mlua::Result<Value> {
        if depth > UNPACKED_DEPTH {
            return Err(Thrown::placed(self.lua, "Too many nested tables in input."));
        }
        Ok(match Marker::from_u8(self.take(1)?[0]) {
            Marker::FixPos(number) => Value::Number(number.into()),
            Marker::FixNeg(number) => Value::Number(number.into()),
            Marker::U8 => self.unsigned(1)?,
            Marker::U16 => self.unsigned(2)?,
            Marker::U32 => self.unsigned(4)?,
            // As in Redis, which has no larger integers.
            Marker::U64 => self.signed(8)?,
            Marker::I8 => self.signed(1)?,
            Marker::I16 => self.signed(2)?,
            Marker::I32 => self.signed(4)?,
            Marker::I64 => self.signed(8)?,
            Marker::F32 => Value::Number(f32::from_bits(self.number(4)? as u32).into()),
            Marker::F64 => Value::Number(f64::from_bits(self.number(8)?)),
            Marker::Null => Value::Nil,
            Marker::True => Value::Boolean(true),
            Marker::False => Value::Boolean(false),
            Marker::FixStr(len) => self.text(len.into())?,
            Marker::Str8 => self.number(1).and_then(|len| self.text(len))?,
            Marker::Str16 => self.number(2).and_then(|len| self.text(len))?,
            Marker::Str32 => self.number(4).and_then(|len| self.text(len))?,
            Marker::FixArray(len) => self.array(len.into(), depth)?,
            Marker::Array16 => self.number(2).and_then(|len| self.array(len, depth))?,
            Marker::Array32 => self.number(4).and_then(|len| self.array(len, depth))?,
            Marker::FixMap(len) => self.map(len.into(), depth)?,
            Marker::Map16 => self.number(2).and_then(|len| self.map(len, depth))?,
            Marker::Map32 => self.number(4).and_then(|len| self.map(len, depth))?,
            _ => return Err(Thrown::placed(self.lua, "Bad data format in input.")),
        })
    }

    fn array(&mut self, len: u64, depth: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        for at in 1..=len {
            table.raw_set(at, self.value(depth + 1)?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: u64, depth: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let (key, value) = (self.value(depth + 1)?, self.value(depth + 1)?);
            table.raw_set(key, value)?;
        }
        Ok(Value::Table(table))
    }
}
