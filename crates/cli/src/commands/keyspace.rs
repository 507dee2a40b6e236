//! `keyspace`: lists, creates and drops keyspaces.

use cleavedb::{Db, KeyspaceOptions};
use serde::Serialize;

use crate::args::KeyspaceCommand;
use crate::console::Console;
use crate::failure::{Exit, Result};
use crate::global::Global;
use crate::progress::Progress;
use crate::{interrupt, store, watch};

#[derive(Serialize)]
struct Named<'a> {
    keyspace: &'a str,
}

pub(super) fn run(command: &KeyspaceCommand, global: &Global, console: &Console) -> Result<Exit> {
    match command {
        KeyspaceCommand::List => {
            let db = store::open_or_follow(global, console)?;
            let listed = list(&db, console);
            store::closed(db, listed)?;
        }
        KeyspaceCommand::Create { name, min_separated, ttl } => {
            let db = store::open_or_create(global, console)?;
            let options = KeyspaceOptions { min_separated: *min_separated, ttl: *ttl };
            let created = db.create_keyspace(name, options).map(drop);
            store::closed(db, created.map_err(Into::into))?;
        }
        KeyspaceCommand::Drop { name, collect } => {
            interrupt::watch(console)?;
            let db = store::open_existing(global, console)?;
            let dropped = drop_it(&db, name, *collect, console);
            store::closed(db, dropped)?;
        }
    }
    Ok(Exit::Done)
}

fn drop_it(db: &Db, name: &str, collect: bool, console: &Console) -> Result<()> {
    let keyspace = db.find_keyspace(name)?;
    db.drop_keyspace(name)?;
    let Some(keyspace) = keyspace.filter(|_| collect) else { return Ok(()) };
    let progress = Progress::new(console, "collect", None);
    watch::run(db, &progress, watch::rewritten, move |_| keyspace.collect_range(..))
}

fn list(db: &Db, console: &Console) -> Result<()> {
    for keyspace in db.keyspaces()? {
        let name = keyspace.name();
        match console.json() {
            true => console.json_line(&Named { keyspace: name })?,
            false => console.line(console.shown(name.as_bytes()))?,
        }
    }
    Ok(())
}
