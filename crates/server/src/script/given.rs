//! The arguments of a function, as the libraries of Lua take them.

use mlua::{Lua, LuaString, MultiValue, Value};

use super::thrown::Thrown;

/// The arguments of a function with a name.
pub(super) struct Given<'a> {
    lua: &'a Lua,
    values: &'a MultiValue,
    function: &'static str,
}

impl<'a> Given<'a> {
    /// What a function was given.
    pub(super) fn new(lua: &'a Lua, values: &'a MultiValue, function: &'static str) -> Self {
        Self { lua, values, function }
    }

    /// The argument at a place, counted from 0.
    pub(super) fn value(&self, at: usize) -> &Value {
        self.values.get(at).unwrap_or(&Value::Nil)
    }

    /// An error about an argument.
    pub(super) fn wrong(&self, at: usize, why: &str) -> mlua::Error {
        let (number, function) = (at + 1, self.function);
        Thrown::placed(self.lua, format!("bad argument #{number} to '{function}' ({why})"))
    }

    /// The error of an argument of another type.
    pub(super) fn no(&self, at: usize, wanted: &str) -> mlua::Error {
        let given = self.values.get(at).map_or("no value", Value::type_name);
        let given = if given == "integer" { "number" } else { given };
        self.wrong(at, &format!("{wanted} expected, got {given}"))
    }

    /// A string, or a number as one.
    pub(super) fn text(&self, at: usize) -> mlua::Result<LuaString> {
        let text = self.lua.coerce_string(self.value(at).clone())?;
        text.ok_or_else(|| self.no(at, "string"))
    }

    /// A number, or a string that has one.
    pub(super) fn number(&self, at: usize) -> mlua::Result<f64> {
        let number = self.lua.coerce_number(self.value(at).clone())?;
        number.ok_or_else(|| self.no(at, "number"))
    }

    /// A whole number, or what stands for none.
    pub(super) fn integer_or(&self, at: usize, default: i64) -> mlua::Result<i64> {
        match self.value(at) {
            Value::Nil => Ok(default),
            _ => self.number(at).map(truncated),
        }
    }
}

/// A number as C makes an integer of it.
pub(super) fn truncated(number: f64) -> i64 {
    match number >= -(2f64.powi(63)) && number < 2f64.powi(63) {
        true => number as i64,
        false => i64::MIN,
    }
}
