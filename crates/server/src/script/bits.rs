//! The library `bit`: numbers as 32 bits.

use mlua::{Lua, MultiValue, Table};

use super::given::Given;

/// The functions.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let add = |name: &'static str, run: fn(&[u32]) -> u32, least: usize, most: usize| {
        let function = lua.create_function(move |lua, given: MultiValue| {
            let arguments = Given::new(lua, &given, name);
            let count = given.len().clamp(least, most);
            let bits = (0..count).map(|at| arguments.number(at).map(bits));
            Ok(f64::from(run(&bits.collect::<mlua::Result<Vec<_>>>()?).cast_signed()))
        })?;
        library.set(name, function)
    };
    add("tobit", |bits| bits[0], 1, 1)?;
    add("bnot", |bits| !bits[0], 1, 1)?;
    add("bswap", |bits| bits[0].swap_bytes(), 1, 1)?;
    add("band", |bits| bits.iter().fold(u32::MAX, |all, bits| all & bits), 1, usize::MAX)?;
    add("bor", |bits| bits.iter().fold(0, |all, bits| all | bits), 1, usize::MAX)?;
    add("bxor", |bits| bits.iter().fold(0, |all, bits| all ^ bits), 1, usize::MAX)?;
    add("lshift", |bits| bits[0].wrapping_shl(bits[1]), 2, 2)?;
    add("rshift", |bits| bits[0].wrapping_shr(bits[1]), 2, 2)?;
    add("arshift", |bits| bits[0].cast_signed().wrapping_shr(bits[1]).cast_unsigned(), 2, 2)?;
    add("rol", |bits| bits[0].rotate_left(bits[1] & 31), 2, 2)?;
    add("ror", |bits| bits[0].rotate_right(bits[1] & 31), 2, 2)?;
    let hex = lua.create_function(|lua, given: MultiValue| {
        let arguments = Given::new(lua, &given, "tohex");
        let number = bits(arguments.number(0)?);
        let digits = bits(arguments.integer_or(1, 8)? as f64).cast_signed();
        let shown = match digits < 0 {
            true => format!("{number:08X}"),
            false => format!("{number:08x}"),
        };
        Ok(shown[8 - digits.unsigned_abs().min(8) as usize..].to_owned())
    })?;
    library.set("tohex", hex)?;
    Ok(library)
}

/// The low bits of the whole number next to a number.
fn bits(number: f64) -> u32 {
    // With as much as this in front, the last bits of a number are those below its point.
    (number + 6_755_399_441_055_744.0).to_bits() as u32
}
