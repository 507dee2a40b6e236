//! Puts files of some classes on another disk, which the database remembers.
//!
//! `cargo run -p cleavedb --example several_disks`

use cleavedb::{Db, FileClass, Options, Volume};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (fast, large) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let path = fast.path().join("photos.db");
    // Groups of values go to the large disk, the log and the index stay on the fast one.
    let values = [FileClass::Groups, FileClass::Survivors];
    let volumes = vec![Volume::new(large.path().join("values"), values)];
    let db = Db::open(&path, Options { volumes, ..Options::default() })?;
    db.put(b"cat", [0xff; 100_000])?;
    db.flush()?;
    for directory in db.directories()? {
        println!("{}: {} files, {} bytes", directory.path, directory.files, directory.bytes);
    }
    db.close()?;
    // The second disk need not be named again.
    let db = Db::open(&path, Options::default())?;
    assert_eq!(db.get(b"cat")?.map(|value| value.len()), Some(100_000));
    Ok(())
}
