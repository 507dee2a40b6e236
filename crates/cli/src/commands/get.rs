//! `get`: the value of a key.

use std::ffi::OsStr;

use serde::Serialize;

use crate::args::Global;
use crate::console::Console;
use crate::encoding::{JsonBytes, from_argument, to_hex};
use crate::failure::{Exit, Failure, Result};
use crate::store;

#[derive(Serialize)]
struct Got<'a> {
    key: JsonBytes<'a>,
    value: JsonBytes<'a>,
}

pub(super) fn run(key: &OsStr, global: &Global, console: &Console) -> Result<Exit> {
    let key = from_argument(key, global.hex)?;
    let db = store::open_existing(global)?;
    let value = db.get(&key)?.ok_or(Failure::NotFound)?;
    if console.json() {
        let got = Got { key: console.json_bytes(&key), value: console.json_bytes(&value) };
        console.json_line(&got)?;
    } else if console.hex() {
        console.line(to_hex(&value))?;
    } else {
        console.write(&value)?;
        if console.on_terminal() && !value.ends_with(b"\n") {
            console.write(b"\n")?;
        }
    }
    db.close()?;
    Ok(Exit::Done)
}
