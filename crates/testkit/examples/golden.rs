//! Writes the golden stores of this release that are not there yet: `cargo run -p cleavedb-testkit
//! --example golden DIR`, where DIR is the directory of those of all releases, `data/golden`.

use std::path::PathBuf;

use cleavedb_testkit::golden::{all, file_of, write};

fn main() -> std::io::Result<()> {
    let dir = PathBuf::from(std::env::args().nth(1).expect("the directory of golden stores"));
    for (preset, left) in all() {
        let file = file_of(&dir, preset, left);
        if !file.exists() {
            write(&file, preset, left)?;
            println!("{} ({} bytes)", file.display(), file.metadata()?.len());
        }
    }
    Ok(())
}
