//! Reads the database as it was, while others write.
//!
//! `cargo run -p cleavedb --example snapshot`

use cleavedb::{Db, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path().join("stock.db"), Options::default())?;
    db.put(b"bolts", b"400")?;

    let snapshot = db.snapshot();
    let writer = db.clone();
    let thread = std::thread::spawn(move || writer.put(b"bolts", b"399"));
    thread.join().expect("the writer does not panic")?;

    let (before, now) = (snapshot.get(b"bolts")?, db.get(b"bolts")?);
    println!("bolts when the snapshot was taken: {before:?}, now: {now:?}");
    assert_eq!(before.as_deref(), Some(&b"400"[..]));
    assert_eq!(now.as_deref(), Some(&b"399"[..]));
    // What it sees takes space until it is dropped.
    drop(snapshot);
    Ok(())
}
