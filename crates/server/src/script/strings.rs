//! The functions of Lua's library of strings that take patterns.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use memchr::memmem;
use mlua::{Function, IntoLuaMulti, Lua, LuaString, MultiValue, Table, Value};

use super::given::Given;
use super::pattern::{Capture, Matcher, PatternError, SPECIAL};
use super::thrown::Thrown;
use super::values::{Bytes, MEMORY_MAX, out_of_memory};
use super::watch::ScriptWatch;

/// The name of Lua's `pcall` in the registry.
const PCALL: &str = "pcall";

/// The functions.
pub(super) fn library(lua: &Lua, watch: &Rc<ScriptWatch>) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    // What a function throws is to be thrown again as it is: only Lua's own call returns it so.
    lua.set_named_registry_value(PCALL, lua.globals().get::<Value>("pcall")?)?;
    let of = |run: fn(&StringSearch<'_>, &MultiValue) -> mlua::Result<MultiValue>| {
        let watch = watch.clone();
        lua.create_function(move |lua, given: MultiValue| {
            run(&StringSearch { lua, watch: &watch }, &given)
        })
    };
    library.set("find", of(|search, given| search.find(given, "find"))?)?;
    library.set("match", of(|search, given| search.find(given, "match"))?)?;
    library.set("gsub", of(|search, given| search.replace(given))?)?;
    let watch = watch.clone();
    library.set(
        "gmatch",
        lua.create_function(move |lua, given: MultiValue| all_matches(lua, &given, watch.clone()))?,
    )?;
    Ok(library)
}

/// A search in the strings of a script.
struct StringSearch<'a> {
    lua: &'a Lua,
    watch: &'a ScriptWatch,
}

impl StringSearch<'_> {
    fn failed(&self, error: PatternError) -> mlua::Error {
        match error {
            PatternError::Words(words) => Thrown::placed(self.lua, words),
            PatternError::Ended(error) => error,
        }
    }

    /// What one capture of a match has; the first is the whole match where nothing was captured.
    fn capture(
        &self,
        subject: &[u8],
        captures: &[Capture],
        at: usize,
        matched: &Range<usize>,
    ) -> mlua::Result<Value> {
        let bytes = |range: Range<usize>| self.lua.pack(Bytes(&subject[range]));
        match captures.get(at) {
            Some(Capture::Bytes(from, to)) => bytes(*from..*to),
            Some(Capture::Place(at)) => Ok(Value::Number((at + 1) as f64)),
            Some(Capture::Open(_)) => Err(Thrown::placed(self.lua, "unfinished capture")),
            None if at == 0 => bytes(matched.clone()),
            None => Err(Thrown::placed(self.lua, "invalid capture index")),
        }
    }

    /// What all captures of a match have, of which there are `least` at least.
    fn captured(
        &self,
        subject: &[u8],
        captures: &[Capture],
        least: usize,
        matched: &Range<usize>,
    ) -> mlua::Result<Vec<Value>> {
        let count = captures.len().max(least);
        (0..count).map(|at| self.capture(subject, captures, at, matched)).collect()
    }

    /// `string.find` and `string.match`
    fn find(&self, given: &MultiValue, function: &'static str) -> mlua::Result<MultiValue> {
        let arguments = Given::new(self.lua, given, function);
        let (subject, pattern) = (arguments.text(0)?, arguments.text(1)?);
        let (subject, pattern) = (&*subject.as_bytes(), &*pattern.as_bytes());
        let from = match arguments.integer_or(2, 1)? {
            from @ 1.. => from - 1,
            from => (from + subject.len() as i64).max(0) * i64::from(from < 0),
        };
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(subject.len());
        let wants_place = function == "find";
        let is_plain = || {
            let part = pattern.split(|byte| *byte == 0).next().unwrap_or_default();
            let is_asked = !matches!(arguments.value(3), Value::Nil | Value::Boolean(false));
            is_asked || !part.iter().any(|byte| SPECIAL.contains(byte))
        };
        let place =
            |from: usize, to: usize| [Value::Number((from + 1) as f64), Value::Number(to as f64)];
        if wants_place && is_plain() {
            return match memmem::find(&subject[from..], pattern) {
                Some(at) => Ok(place(from + at, from + at + pattern.len()).into_iter().collect()),
                None => Value::Nil.into_lua_multi(self.lua),
            };
        }
        let look = || self.watch.look(self.lua);
        let mut matcher = Matcher::new(subject, pattern, &look);
        let Some((from, to)) = matcher.first(from).map_err(|error| self.failed(error))? else {
            return Value::Nil.into_lua_multi(self.lua);
        };
        Ok(match wants_place {
            true => {
                let captured = self.captured(subject, &matcher.captures, 0, &(from..to))?;
                place(from, to).into_iter().chain(captured).collect()
            }
            false => {
                self.captured(subject, &matcher.captures, 1, &(from..to))?.into_iter().collect()
            }
        })
    }

    /// `string.gsub`
    fn replace(&self, given: &MultiValue) -> mlua::Result<MultiValue> {
        let arguments = Given::new(self.lua, given, "gsub");
        let (subject, pattern) = (arguments.text(0)?, arguments.text(1)?);
        let (subject, pattern) = (&*subject.as_bytes(), &*pattern.as_bytes());
        let by = match arguments.value(2) {
            Value::Table(table) => Replacement::Table(table),
            Value::Function(function) => Replacement::Function(function),
            Value::String(_) | Value::Integer(_) | Value::Number(_) => {
                Replacement::Text(arguments.text(2)?)
            }
            _ => return Err(arguments.wrong(2, "string/function/table expected")),
        };
        let most = arguments.integer_or(3, i64::MAX)?;
        let is_anchored = pattern.first() == Some(&b'^');
        let look = || self.watch.look(self.lua);
        let mut matcher = Matcher::new(subject, pattern, &look);
        let (mut new, mut count, mut at) = (Vec::new(), 0, 0);
        while count < most {
            let end = matcher.at(at, is_anchored.into()).map_err(|error| self.failed(error))?;
            if let Some(end) = end {
                count += 1;
                // Replacements in replacements take memory together.
                let others = self.watch.unfinished.get();
                self.watch.unfinished.set(others + new.len());
                let added = self.add(&by, subject, &matcher.captures, at..end, &mut new);
                self.watch.unfinished.set(others);
                added?;
                if others + new.len() > MEMORY_MAX {
                    return Err(out_of_memory());
                }
            }
            match end {
                Some(end) if end > at => at = end,
                _ if at < subject.len() => {
                    new.push(subject[at]);
                    at += 1;
                }
                _ => break,
            }
            if is_anchored {
                break;
            }
        }
        new.extend_from_slice(&subject[at..]);
        (Bytes(&new), count).into_lua_multi(self.lua)
    }

    /// Adds what stands for a match.
    fn add(
        &self,
        by: &Replacement<'_>,
        subject: &[u8],
        captures: &[Capture],
        matched: Range<usize>,
        new: &mut Vec<u8>,
    ) -> mlua::Result<()> {
        let value = match by {
            Replacement::Text(text) => {
                return self.expand(&text.as_bytes(), subject, captures, &matched, new);
            }
            Replacement::Table(table) => {
                table.get::<Value>(self.capture(subject, captures, 0, &matched)?)?
            }
            Replacement::Function(function) => {
                let mut captured = self.captured(subject, captures, 1, &matched)?;
                captured.insert(0, Value::Function((*function).clone()));
                let called = captured.into_iter().collect::<MultiValue>();
                let pcall: Function = self.lua.named_registry_value(PCALL)?;
                match pcall.call::<(bool, Value)>(called)? {
                    (true, value) => value,
                    (false, thrown) => return Err(Thrown::again(thrown)),
                }
            }
        };
        match value {
            Value::Nil | Value::Boolean(false) => new.extend_from_slice(&subject[matched]),
            Value::String(_) | Value::Integer(_) | Value::Number(_) => {
                let text = self.lua.coerce_string(value)?;
                text.iter().for_each(|text| new.extend_from_slice(&text.as_bytes()));
            }
            other => {
                let words = format!("invalid replacement value (a {})", other.type_name());
                return Err(Thrown::placed(self.lua, words));
            }
        }
        Ok(())
    }

    /// Adds a text in which `%1` stands for the first capture, and `%0` for the match.
    fn expand(
        &self,
        text: &[u8],
        subject: &[u8],
        captures: &[Capture],
        matched: &Range<usize>,
        new: &mut Vec<u8>,
    ) -> mlua::Result<()> {
        let mut bytes = text.iter();
        while let Some(byte) = bytes.next() {
            match (byte, if *byte == b'%' { bytes.next() } else { None }) {
                (b'%', Some(b'0')) => new.extend_from_slice(&subject[matched.clone()]),
                (b'%', Some(digit @ b'1'..=b'9')) => {
                    let at = usize::from(digit - b'1');
                    let value = self.capture(subject, captures, at, matched)?;
                    let text = self.lua.coerce_string(value)?;
                    text.iter().for_each(|text| new.extend_from_slice(&text.as_bytes()));
                }
                (b'%', other) => new.push(other.copied().unwrap_or_default()),
                (other, _) => new.push(*other),
            }
        }
        Ok(())
    }
}

/// What stands for a match.
enum Replacement<'a> {
    Text(LuaString),
    Table(&'a Table),
    Function(&'a Function),
}

/// `string.gmatch`: a function that returns the next match each time.
fn all_matches(lua: &Lua, given: &MultiValue, watch: Rc<ScriptWatch>) -> mlua::Result<Function> {
    let arguments = Given::new(lua, given, "gmatch");
    let (subject, pattern, at) = (arguments.text(0)?, arguments.text(1)?, Cell::new(0));
    lua.create_function(move |lua, _: MultiValue| {
        let search = StringSearch { lua, watch: &watch };
        let (subject, pattern) = (&*subject.as_bytes(), &*pattern.as_bytes());
        let look = || watch.look(lua);
        let mut matcher = Matcher::new(subject, pattern, &look);
        for from in at.get()..=subject.len() {
            if let Some(to) = matcher.at(from, 0).map_err(|error| search.failed(error))? {
                at.set(if to == from { to + 1 } else { to });
                let captured = search.captured(subject, &matcher.captures, 1, &(from..to))?;
                return Ok(captured.into_iter().collect());
            }
        }
        at.set(subject.len() + 1);
        Value::Nil.into_lua_multi(lua)
    })
}
