//! Replies as values of Lua, and values of Lua as replies.

use mlua::{IntoLua, Lua, MultiValue, Table, Value};

use super::given::truncated;
use crate::resp::reply::{Protocol, Reply, decimal, double};

/// How deep arrays in a reply may lie, and most bytes of a reply: a table may hold itself.
const DEPTH_MAX: usize = 1000;
const BYTES_MAX: usize = 256 << 20;

/// Most bytes of the Lua of a script, and of what a function makes in it.
pub const MEMORY_MAX: usize = 64 << 20;

/// Most values that a function returns: the stack of Lua has room for about as many.
pub(super) const RESULTS_MAX: usize = 7_990;

/// What each value in a reply counts besides its bytes.
const VALUE_BYTES: usize = 256;

/// Bytes as a string of Lua.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl IntoLua for Bytes<'_> {
    fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        lua.create_string(self.0).map(Value::String)
    }
}

/// The error of a function that makes too much.
pub(super) fn out_of_memory() -> mlua::Error {
    mlua::Error::MemoryError("not enough memory".to_owned())
}

/// The arguments of a command that a script calls, or what is wrong with them.
pub(super) fn arguments(given: &MultiValue) -> Result<Vec<Vec<u8>>, &'static str> {
    if given.is_empty() {
        return Err("ERR Please specify at least one argument for this redis lib call");
    }
    let argument = |value: &Value| match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Integer(number) => Ok(double(*number as f64).into_bytes()),
        Value::Number(number) => Ok(double(*number).into_bytes()),
        _ => Err("ERR Lua redis lib command arguments must be strings or integers"),
    };
    given.iter().map(argument).collect()
}

/// The value of a reply, in the version of the protocol that the script has chosen.
pub(super) fn to_lua(lua: &Lua, reply: &Reply, protocol: Protocol) -> mlua::Result<Value> {
    let is_old = protocol == Protocol::Two;
    let field = |name: &str, value: Value| lua.create_table_from([(name, value)]).map(Value::Table);
    let text = |bytes: &[u8]| lua.create_string(bytes).map(Value::String);
    match reply {
        Reply::Status(words) => field("ok", text(words.as_bytes())?),
        Reply::Line(words) => field("ok", text(words)?),
        Reply::Error(words) => field("err", text(words)?),
        Reply::Integer(number) => Ok(Value::Number(*number as f64)),
        Reply::Bulk(bytes) => text(bytes),
        Reply::Nil | Reply::NilArray if is_old => Ok(Value::Boolean(false)),
        Reply::Nil | Reply::NilArray | Reply::Silence => Ok(Value::Nil),
        Reply::Array(items) | Reply::Push(items) | Reply::Several(items) => {
            list(lua, items, protocol)
        }
        Reply::Set(items) if is_old => list(lua, items, protocol),
        Reply::Set(items) => {
            let set = lua.create_table()?;
            for item in items {
                set.raw_set(to_lua(lua, item, protocol)?, true)?;
            }
            field("set", Value::Table(set))
        }
        Reply::Map(pairs) | Reply::Pairs(pairs) if is_old => {
            let flat = pairs.iter().flat_map(|(key, value)| [key, value]);
            list(lua, flat, protocol)
        }
        Reply::Map(pairs) | Reply::Keyed(pairs) if !is_old => {
            let map = lua.create_table()?;
            for (key, value) in pairs {
                map.raw_set(to_lua(lua, key, protocol)?, to_lua(lua, value, protocol)?)?;
            }
            field("map", Value::Table(map))
        }
        Reply::Map(pairs) | Reply::Pairs(pairs) | Reply::Keyed(pairs) => {
            let items = lua.create_table()?;
            for (at, (key, value)) in pairs.iter().enumerate() {
                items.raw_set(at + 1, list(lua, [key, value], protocol)?)?;
            }
            Ok(Value::Table(items))
        }
        Reply::Double(number) if is_old => text(double(*number).as_bytes()),
        Reply::Decimal(number) if is_old => text(decimal(*number).as_bytes()),
        Reply::Double(number) | Reply::Decimal(number) => field("double", Value::Number(*number)),
        Reply::Bool(yes) if is_old => Ok(Value::Number(f64::from(u8::from(*yes)))),
        Reply::Bool(yes) => Ok(Value::Boolean(*yes)),
        Reply::BigNumber(digits) if is_old => text(digits),
        Reply::BigNumber(digits) => field("big_number", text(digits)?),
        Reply::Text(words) | Reply::Marked(_, words) if is_old => text(words),
        Reply::Text(words) => marked(lua, b"txt", words),
        Reply::Marked(format, words) => marked(lua, format, words),
        Reply::Fixed(protocol, reply) => to_lua(lua, reply, *protocol),
    }
}

fn marked(lua: &Lua, format: &[u8], words: &[u8]) -> mlua::Result<Value> {
    let parts = [("string", Bytes(words)), ("format", Bytes(format))];
    let parts = lua.create_table_from(parts)?;
    lua.create_table_from([("verbatim_string", parts)]).map(Value::Table)
}

fn list<'a>(
    lua: &Lua,
    items: impl IntoIterator<Item = &'a Reply>,
    protocol: Protocol,
) -> mlua::Result<Value> {
    let list = lua.create_table()?;
    for (at, item) in items.into_iter().enumerate() {
        list.raw_set(at + 1, to_lua(lua, item, protocol)?)?;
    }
    Ok(Value::Table(list))
}

/// The error of a script that has failed, with the place where it has.
pub(super) fn failure(error: &Value, name: &str) -> Reply {
    let Value::Table(error) = error else {
        let why = error.to_string().unwrap_or_default();
        return Reply::error(format!("ERR Error running script {name}, {why}"));
    };
    let field = |of| text_in(error, of);
    let what = field("err").unwrap_or_else(|| b"ERR unknown error".to_vec());
    Reply::error(match (field("source"), field("line")) {
        (Some(source), Some(line)) => {
            let place = [b" script: ", name.as_bytes(), b", on ", &source, b":", &line, b"."];
            [&what, &place.concat()[..]].concat()
        }
        _ => what,
    })
}

/// The text or number of a field.
pub(super) fn text_in(table: &Table, name: &str) -> Option<Vec<u8>> {
    match table.raw_get(name).ok()? {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(number) => Some(number.to_string().into_bytes()),
        Value::Number(number) => Some(number.to_string().into_bytes()),
        _ => None,
    }
}

/// Makes a reply of a value.
pub(super) struct Converter<'a> {
    protocol: Protocol,
    /// Bytes that the reply may still have.
    left: usize,
    /// Whether the script is to end.
    is_over: &'a dyn Fn() -> bool,
}

impl<'a> Converter<'a> {
    /// For a script that has chosen a version of the protocol.
    pub(super) fn new(protocol: Protocol, is_over: &'a dyn Fn() -> bool) -> Self {
        Self { protocol, left: BYTES_MAX, is_over }
    }

    /// The reply of a value; none if it is too long, or the script is to end.
    pub(super) fn reply(&mut self, value: &Value) -> Option<Reply> {
        Some(self.at_depth(value, 0)).filter(|_| self.left > 0)
    }

    fn takes(&mut self, bytes: usize) -> bool {
        self.left = self.left.saturating_sub(bytes + VALUE_BYTES);
        self.left > 0
    }

    fn at_depth(&mut self, value: &Value, depth: usize) -> Reply {
        if !self.takes(0) {
            return Reply::Nil;
        }
        if depth > DEPTH_MAX {
            return Reply::error("ERR reached lua stack limit");
        }
        match value {
            Value::String(text) => {
                let text = text.as_bytes();
                match self.takes(text.len()) {
                    true => Reply::Bulk(text.to_vec().into()),
                    false => Reply::Nil,
                }
            }
            Value::Boolean(yes) if self.protocol == Protocol::Three => Reply::Bool(*yes),
            Value::Boolean(true) => Reply::Integer(1),
            Value::Integer(number) => Reply::Integer(*number),
            Value::Number(number) => Reply::Integer(truncated(*number)),
            Value::Table(table) => self.of_table(table, depth + 1),
            _ => Reply::Nil,
        }
    }

    fn of_table(&mut self, table: &Table, depth: usize) -> Reply {
        if (self.is_over)() {
            self.left = 0;
            return Reply::Nil;
        }
        let field = |name: &str| table.raw_get(name).unwrap_or(Value::Nil);
        // A line ends at a zero, as in Redis.
        let plain = |text: &mlua::LuaString| {
            let text = text.as_bytes();
            let line = text.iter().take_while(|byte| **byte != 0);
            line.map(|byte| if b"\r\n".contains(byte) { b' ' } else { *byte }).collect()
        };
        if let Value::String(text) = field("err") {
            return Reply::Error(plain(&text));
        }
        if let Value::String(text) = field("ok") {
            return Reply::Line(plain(&text));
        }
        match field("double") {
            Value::Integer(number) => return Reply::Double(number as f64),
            Value::Number(number) => return Reply::Double(number),
            _ => {}
        }
        if let Value::String(digits) = field("big_number") {
            return Reply::BigNumber(plain(&digits));
        }
        if let Value::Table(parts) = field("verbatim_string")
            && let (Some(format), Some(text)) =
                (text_in(&parts, "format"), text_in(&parts, "string"))
        {
            let mut letters = [b' '; 3];
            letters.iter_mut().zip(format).for_each(|(letter, of)| *letter = of);
            return Reply::Marked(letters, text.into());
        }
        if let Value::Table(map) = field("map") {
            let pairs = map.pairs::<Value, Value>().flatten();
            let pair = |(key, value): (Value, Value)| {
                (self.at_depth(&key, depth), self.at_depth(&value, depth))
            };
            return Reply::Map(pairs.map(pair).collect());
        }
        if let Value::Table(set) = field("set") {
            let items = set.pairs::<Value, Value>().flatten();
            return Reply::Set(items.map(|(item, _)| self.at_depth(&item, depth)).collect());
        }
        let items = (1..).map(|at| table.raw_get(at).unwrap_or(Value::Nil));
        let items = items.take_while(|item| *item != Value::Nil);
        let mut found = Vec::new();
        for item in items {
            found.push(self.at_depth(&item, depth));
            if self.left == 0 {
                break;
            }
        }
        Reply::Array(found)
    }
}
