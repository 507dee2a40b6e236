//! Opens a database, writes, reads, deletes and closes it.
//!
//! `cargo run -p cleavedb --example hello`

use cleavedb::{Db, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path().join("fruit.db"), Options::default())?;
    // It survives power loss once `put` returns: the default durability is `Sync`.
    db.put(b"apple", b"red")?;
    assert_eq!(db.get(b"apple")?.as_deref(), Some(&b"red"[..]));
    db.delete(b"apple")?;
    assert_eq!(db.get(b"apple")?, None);
    // Dropping the last handle closes the database, too; this says whether all went well.
    db.close()?;
    Ok(())
}
