//! A design of one's own: groups by hash, as in HashKV, from which values that are not updated
//! leave for a log of cold values.
//!
//! `cargo run -p cleavedb --example own_layout`

use cleavedb::layout::{GroupLayout, Partition, SurvivorRoute, ValueLayout};
use cleavedb::{Db, ErrorKind, Options, Preset};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("sessions.db");
    let layout = ValueLayout::grouped(GroupLayout {
        partition: Partition::Hash,
        survivors: SurvivorRoute::Tagged,
        hot: false,
    });
    layout.validate()?;
    // All that is not the layout is tuning: here that of the preset.
    let db = Db::open(&path, Options { layout: Some(layout), ..Options::preset(Preset::HashKv) })?;
    db.put(b"session 1", [7; 1000])?;
    db.close()?;

    // How values are kept is stored: an open that asks for another way is refused, one that asks
    // for none finds it.
    let refused = Db::open(&path, Options::preset(Preset::HashKv)).err();
    assert_eq!(refused.map(|e| e.kind()), Some(ErrorKind::LayoutMismatch));
    let db = Db::open(&path, Options::default())?;
    println!("{}", db.options().layout());
    Ok(())
}
