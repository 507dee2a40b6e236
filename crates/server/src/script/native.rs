//! The functions of the server that the prelude makes the libraries of scripts of.

use std::cell::Cell;
use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value};

use super::digest::sha1_hex;
use super::register::register;
use super::thrown::{Thrown, place};
use super::watch::{Ended, ScriptWatch};
use super::{bits, json, message_pack, strings, structs};
use crate::observe::info::REDIS_VERSION;
use crate::resp::reply::Protocol;

/// What a script has chosen, and the next one does not find.
#[derive(Default)]
pub(super) struct ScriptChoices {
    /// The version of the protocol in which it sees replies.
    pub(super) protocol: Cell<Protocol>,
    /// What numbers are drawn from: by chance without one.
    seed: Cell<Option<u64>>,
}

impl ScriptChoices {
    /// Chooses as a script does that has chosen nothing yet.
    pub(super) fn forget(&self) {
        self.protocol.set(Protocol::Two);
        self.seed.set(None);
    }

    /// The next number below 1 of those that `drand48` of C draws.
    fn next(&self) -> f64 {
        let last = self.seed.get().unwrap_or_else(|| fastrand::u64(..));
        let next = last.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & ((1 << 48) - 1);
        self.seed.set(Some(next));
        let most = i64::from(i32::MAX);
        ((next >> 17) as i64 % most) as f64 / most as f64
    }
}

/// The functions that need no host.
pub(super) fn functions(
    lua: &Lua,
    watch: &Rc<ScriptWatch>,
    choices: &Rc<ScriptChoices>,
) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    let sha1 = |_: &Lua, text: mlua::LuaString| Ok(sha1_hex(&text.as_bytes()));
    native.set("sha1hex", lua.create_function(sha1)?)?;
    native.set("place", lua.create_function(|lua, ()| Ok(place(lua)))?)?;
    let registering =
        |lua: &Lua, (functions, given): (Table, MultiValue)| register(lua, &functions, &given);
    native.set("register", lua.create_function(registering)?)?;
    let of_seen = watch.clone();
    let seen = move |lua: &Lua, caught: Value| match Thrown::is_of_memory(&caught) {
        true => Err(of_seen.end(lua, Ended::Greedy)),
        false => Thrown::seen(lua, caught),
    };
    native.set("seen", lua.create_function(seen)?)?;
    let of_spend = watch.clone();
    let spend = move |_: &Lua, ()| {
        of_spend.spend();
        Ok(())
    };
    native.set("spend", lua.create_function(spend)?)?;
    native.set("door", lua.create_function(Thrown::door)?)?;
    native.set("version", REDIS_VERSION)?;
    native.set("string", strings::library(lua, watch)?)?;
    let libraries = lua.create_table()?;
    libraries.set("bit", bits::library(lua)?)?;
    libraries.set("cjson", json::library(lua, watch)?)?;
    libraries.set("cmsgpack", message_pack::library(lua, watch)?)?;
    libraries.set("struct", structs::library(lua)?)?;
    native.set("libraries", libraries)?;
    let of_random = choices.clone();
    native.set("random", lua.create_function(move |_, ()| Ok(of_random.next()))?)?;
    let of_seed = choices.clone();
    let seed = move |_: &Lua, seed: f64| {
        of_seed.seed.set(Some(u64::from(seed as i64 as u32) << 16 | 0x330e));
        Ok(())
    };
    native.set("seed", lua.create_function(seed)?)?;
    let of_protocol = choices.clone();
    let set_protocol = move |_: &Lua, number: i64| {
        of_protocol.protocol.set(if number == 3 { Protocol::Three } else { Protocol::Two });
        Ok(())
    };
    native.set("set_protocol", lua.create_function(set_protocol)?)?;
    Ok(native)
}
