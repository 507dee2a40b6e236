//! The program of README: opens or makes a database, writes, counts its runs and prints all.
//!
//! `cargo run -p cleavedb --example hello`, which leaves `hello.db` where it is run.

use cleavedb::{Db, Operand, Options};

fn main() -> cleavedb::Result<()> {
    let db = Db::open("hello.db", Options::default())?; // the first run makes it
    db.put("apple", "red")?; // survives a loss of power once it returns
    db.merge("runs", &Operand::add(1))?; // counts without a read
    for item in db.range(..) {
        let item = item?;
        println!("{:?} is {:?}", item.key, item.value);
    }
    db.close()?;
    Ok(())
}
