//! Reads ranges of keys, forwards and backwards, with values and without.
//!
//! `cargo run -p cleavedb --example scan`

use cleavedb::{Db, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path().join("log.db"), Options::default())?;
    for day in 1..=30 {
        db.put(format!("2026-11-{day:02}").as_bytes(), format!("entry {day}").as_bytes())?;
    }

    // From a key, which is part of it, up to another, which is not.
    for item in db.range(b"2026-11-10"..b"2026-11-13") {
        let item = item?;
        println!("{:?}: {:?}", item.key, item.value);
    }
    // The last three of a prefix; `with_limit_hint` says how many will be read.
    for item in db.prefix(b"2026-").with_limit_hint(3).rev().take(3) {
        println!("{:?}", item?.key);
    }
    // No value is read.
    assert_eq!(db.range(..).keys_only().count(), 30);
    Ok(())
}
