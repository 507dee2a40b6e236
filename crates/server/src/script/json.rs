//! The library `cjson`: values as JSON.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::given::Given;
use super::thrown::Thrown;
use super::values::{Bytes, MEMORY_MAX, out_of_memory};
use super::watch::ScriptWatch;
use crate::resp::reply::general;

/// What scripts may choose, with the defaults.
struct JsonSettings {
    watch: Rc<ScriptWatch>,
    encode_depth: Cell<i64>,
    decode_depth: Cell<i64>,
    digits: Cell<i64>,
    /// Whether numbers that JSON does not have are encoded.
    invalid_numbers: Cell<bool>,
    /// Whether arrays with many gaps become objects, else they are errors; how many items fewer
    /// than places they may have; and up to which place they never count as such.
    sparse_convert: Cell<bool>,
    sparse_ratio: Cell<i64>,
    sparse_safe: Cell<i64>,
    /// Chosen without an effect.
    keep_buffer: Cell<bool>,
}

impl JsonSettings {
    fn new(watch: Rc<ScriptWatch>) -> Self {
        Self {
            watch,
            encode_depth: Cell::new(1000),
            decode_depth: Cell::new(1000),
            digits: Cell::new(14),
            invalid_numbers: Cell::new(false),
            sparse_convert: Cell::new(false),
            sparse_ratio: Cell::new(2),
            sparse_safe: Cell::new(10),
            keep_buffer: Cell::new(true),
        }
    }
}

/// The functions, and `null`.
pub(super) fn library(lua: &Lua, watch: &Rc<ScriptWatch>) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let settings = Rc::new(JsonSettings::new(watch.clone()));
    let add = |name: &'static str, chooses: bool, run: JsonFunction| {
        let settings = settings.clone();
        let function = lua.create_function(move |lua, given: MultiValue| {
            if chooses {
                settings.watch.spend();
            }
            run(&settings, lua, &Given::new(lua, &given, name))
        });
        function.and_then(|function| library.set(name, function))
    };
    let of = |name, run| add(name, false, run);
    of("encode", |settings, lua, given| {
        let mut encoder = JsonWriter { lua, settings, json: Vec::new() };
        encoder.value(given.value(0), 0)?;
        lua.pack(Bytes(&encoder.json))
    })?;
    of("decode", decode)?;
    let of = |name, run| add(name, true, run);
    of("encode_max_depth", |settings, _, given| number(&settings.encode_depth, given, 0))?;
    of("decode_max_depth", |settings, _, given| number(&settings.decode_depth, given, 0))?;
    of("encode_number_precision", |settings, _, given| match given.integer_or(0, 14)? {
        1..=14 => number(&settings.digits, given, 0),
        _ => Err(given.wrong(0, "expected integer between 1 and 14")),
    })?;
    of("encode_invalid_numbers", |settings, _, given| yes(&settings.invalid_numbers, given))?;
    of("encode_keep_buffer", |settings, _, given| yes(&settings.keep_buffer, given))?;
    of("encode_sparse_array", |settings, _, given| {
        number(&settings.sparse_ratio, given, 1)?;
        number(&settings.sparse_safe, given, 2)?;
        yes(&settings.sparse_convert, given)
    })?;
    library.set("null", Value::NULL)?;
    Ok(library)
}

/// A function of the library.
type JsonFunction = fn(&JsonSettings, &Lua, &Given<'_>) -> mlua::Result<Value>;

/// Changes a setting, if there is something to set, and returns it.
fn number(setting: &Cell<i64>, given: &Given<'_>, at: usize) -> mlua::Result<Value> {
    let number = given.integer_or(at, setting.get())?;
    let most = i64::from(i32::MAX);
    if !(0..=most).contains(&number) {
        return Err(given.wrong(at, &format!("expected integer between 0 and {most}")));
    }
    setting.set(number);
    Ok(Value::Number(number as f64))
}

fn yes(setting: &Cell<bool>, given: &Given<'_>) -> mlua::Result<Value> {
    match given.value(0) {
        Value::Nil => {}
        Value::Boolean(yes) => setting.set(*yes),
        _ => setting.set(match &*given.text(0)?.as_bytes() {
            b"on" => true,
            b"off" => false,
            _ => return Err(given.wrong(0, "invalid option: on and off are there")),
        }),
    }
    Ok(Value::Boolean(setting.get()))
}

/// Makes JSON of values.
struct JsonWriter<'a> {
    lua: &'a Lua,
    settings: &'a JsonSettings,
    json: Vec<u8>,
}

impl JsonWriter<'_> {
    fn failed<T>(&self, value: &Value, why: &str) -> mlua::Result<T> {
        let kind = match value.type_name() {
            "integer" => "number",
            "lightuserdata" => "userdata",
            kind => kind,
        };
        Err(Thrown::placed(self.lua, format!("Cannot serialise {kind}: {why}")))
    }

    fn value(&mut self, value: &Value, depth: i64) -> mlua::Result<()> {
        if self.json.len() > MEMORY_MAX {
            return Err(out_of_memory());
        }
        match value {
            Value::String(text) => self.text(&text.as_bytes()),
            Value::Integer(number) => self.number(value, *number as f64)?,
            Value::Number(number) => self.number(value, *number)?,
            Value::Boolean(yes) => self.json.extend(yes.to_string().bytes()),
            Value::Table(table) => self.table(value, table, depth + 1)?,
            value if *value == Value::Nil || *value == Value::NULL => self.json.extend(b"null"),
            _ => return self.failed(value, "type not supported"),
        }
        Ok(())
    }

    fn text(&mut self, text: &[u8]) {
        self.json.push(b'"');
        for byte in text {
            match byte {
                b'"' | b'\\' | b'/' => self.json.extend([b'\\', *byte]),
                0x08 => self.json.extend(b"\\b"),
                b'\t' => self.json.extend(b"\\t"),
                b'\n' => self.json.extend(b"\\n"),
                0x0c => self.json.extend(b"\\f"),
                b'\r' => self.json.extend(b"\\r"),
                0..0x20 | 0x7f => self.json.extend(format!("\\u{byte:04x}").bytes()),
                _ => self.json.push(*byte),
            }
        }
        self.json.push(b'"');
    }

    fn number(&mut self, value: &Value, number: f64) -> mlua::Result<()> {
        if !number.is_finite() && !self.settings.invalid_numbers.get() {
            return self.failed(value, "must not be NaN or Inf");
        }
        let text = match number.is_nan() {
            true => "nan".to_owned(),
            false => general(number, self.settings.digits.get() as u16),
        };
        self.json.extend(text.bytes());
        Ok(())
    }

    fn table(&mut self, value: &Value, table: &Table, depth: i64) -> mlua::Result<()> {
        if depth > self.settings.encode_depth.get() {
            let why = format!("Cannot serialise, excessive nesting ({depth})");
            return Err(Thrown::placed(self.lua, why));
        }
        self.settings.watch.look(self.lua)?;
        let mut between = b"".as_slice();
        if let Some(len @ 1..) = self.array_len(value, table)? {
            self.json.push(b'[');
            for at in 1..=len {
                self.json.extend(std::mem::replace(&mut between, b","));
                self.value(&table.raw_get(at)?, depth)?;
            }
            self.json.push(b']');
            return Ok(());
        }
        self.json.push(b'{');
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            self.json.extend(std::mem::replace(&mut between, b","));
            match &key {
                Value::String(text) => self.text(&text.as_bytes()),
                Value::Integer(number) => self.text(number.to_string().as_bytes()),
                Value::Number(number) => {
                    self.json.push(b'"');
                    self.number(&key, *number)?;
                    self.json.push(b'"');
                }
                _ => return self.failed(&key, "table key must be a number or string"),
            }
            self.json.push(b':');
            self.value(&value, depth)?;
        }
        self.json.push(b'}');
        Ok(())
    }

    /// The length of a table that is an array: all its keys are places.
    fn array_len(&self, value: &Value, table: &Table) -> mlua::Result<Option<i64>> {
        let (mut last, mut count) = (0, 0);
        for pair in table.pairs::<Value, Value>() {
            let Value::Integer(place @ 1..) = pair?.0 else { return Ok(None) };
            last = last.max(place);
            count += 1;
        }
        let settings = self.settings;
        let ratio = settings.sparse_ratio.get();
        if ratio > 0 && last > count * ratio && last > settings.sparse_safe.get() {
            if !settings.sparse_convert.get() {
                return self.failed(value, "excessively sparse array");
            }
            return Ok(None);
        }
        Ok(Some(last))
    }
}

/// `cjson.decode`
fn decode(settings: &JsonSettings, lua: &Lua, given: &Given<'_>) -> mlua::Result<Value> {
    let text = given.text(0)?;
    let text = text.as_bytes();
    let mut json = serde_json::Deserializer::from_slice(&text);
    json.disable_recursion_limit();
    let decoder = JsonReader { lua, left: settings.decode_depth.get() };
    let value = decoder.deserialize(&mut json);
    value
        .and_then(|value| json.end().map(|()| value))
        .map_err(|why| Thrown::placed(lua, format!("Expected a value in JSON: {why}")))
}

/// Makes values of JSON, with the levels that are `left`.
#[derive(Clone, Copy)]
struct JsonReader<'a> {
    lua: &'a Lua,
    left: i64,
}

impl JsonReader<'_> {
    fn inner<E: Error>(self) -> Result<Self, E> {
        match self.left {
            0 => Err(E::custom("found too many nested data structures")),
            left => Ok(Self { left: left - 1, ..self }),
        }
    }
}

impl<'de> DeserializeSeed<'de> for JsonReader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonReader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::NULL)
    }

    fn visit_bool<E: Error>(self, yes: bool) -> Result<Value, E> {
        Ok(Value::Boolean(yes))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number as f64))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number as f64))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Number(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.lua.pack(Bytes(text.as_bytes())).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let (table, inner) = (self.lua.create_table().map_err(Error::custom)?, self.inner()?);
        let mut at = 0;
        while let Some(item) = items.next_element_seed(inner)? {
            at += 1;
            table.raw_set(at, item).map_err(Error::custom)?;
        }
        Ok(Value::Table(table))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let (table, inner) = (self.lua.create_table().map_err(Error::custom)?, self.inner()?);
        while let Some((key, item)) = items.next_entry_seed(inner, inner)? {
            table.raw_set(key, item).map_err(Error::custom)?;
        }
        Ok(Value::Table(table))
    }
}
