//! Writes many operations as one: all of them are there after a crash, or none.
//!
//! `cargo run -p cleavedb --example batch`

use cleavedb::{Db, Options, WriteBatch};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path().join("accounts.db"), Options::default())?;
    db.put(b"alice", b"100")?;
    db.put(b"bob", b"0")?;

    let mut transfer = WriteBatch::new();
    transfer.put(b"alice", b"70")?.put(b"bob", b"30")?;
    // The batch survives a loss of power once this returns; `write_with` takes another durability.
    db.write(&transfer)?;

    for value in db.multi_get(&["alice", "bob"]) {
        println!("{:?}", value?);
    }
    Ok(())
}
