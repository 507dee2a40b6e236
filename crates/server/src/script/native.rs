//! The functions of the server that the prelude makes the libraries of scripts of.

use std::cell::Cell;
use std::rc::Rc;

use mlua::{Lua, Table};

use super::digest::sha1_hex;
use super::thrown::{Thrown, line};
use super::watch::ScriptWatch;
use super::{bits, json, message_pack, strings, structs};
use crate::observe::info::REDIS_VERSION;

/// The functions that need no host.
pub(super) fn functions(lua: &Lua, watch: &Rc<ScriptWatch>) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    let sha1 = |_: &Lua, text: mlua::LuaString| Ok(sha1_hex(&text.as_bytes()));
    native.set("sha1hex", lua.create_function(sha1)?)?;
    native.set("line", lua.create_function(|lua, ()| Ok(line(lua)))?)?;
    native.set("seen", lua.create_function(Thrown::seen)?)?;
    native.set("door", lua.create_function(Thrown::door)?)?;
    native.set("version", REDIS_VERSION)?;
    native.set("string", strings::library(lua, watch)?)?;
    let libraries = lua.create_table()?;
    libraries.set("bit", bits::library(lua)?)?;
    libraries.set("cjson", json::library(lua, watch)?)?;
    libraries.set("cmsgpack", message_pack::library(lua, watch)?)?;
    libraries.set("struct", structs::library(lua)?)?;
    native.set("libraries", libraries)?;
    let drawn = Rc::new(Cell::new(fastrand::u64(..)));
    let seeded = drawn.clone();
    native.set("random", lua.create_function(move |_, ()| Ok(next(&drawn)))?)?;
    let seed = move |_: &Lua, seed: f64| {
        seeded.set(u64::from(seed as i64 as u32) << 16 | 0x330e);
        Ok(())
    };
    native.set("seed", lua.create_function(seed)?)?;
    Ok(native)
}

/// The next number below 1 of those that `drand48` of C draws.
fn next(drawn: &Cell<u64>) -> f64 {
    let next = drawn.get().wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & ((1 << 48) - 1);
    drawn.set(next);
    let most = i64::from(i32::MAX);
    ((next >> 17) as i64 % most) as f64 / most as f64
}
