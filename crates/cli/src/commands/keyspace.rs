//! `keyspace`: lists, creates and drops keyspaces.

use cleavedb::{Db, Error, ErrorKind, KeyspaceOptions};
use serde::Serialize;

use crate::args::{KeyspaceCommand, Within};
use crate::console::Console;
use crate::failure::{Exit, Result};
use crate::global::Global;
use crate::keyspaces::StoredOptions;
use crate::progress::Progress;
use crate::{interrupt, store, watch};

#[derive(Serialize)]
struct KeyspaceLine<'a> {
    keyspace: &'a str,
    #[serde(flatten)]
    options: StoredOptions,
}

pub(super) fn run(command: &KeyspaceCommand, global: &Global, console: &Console) -> Result<Exit> {
    match command {
        KeyspaceCommand::List => {
            let db = store::open_or_follow(global, console)?;
            let listed = list(&db, console);
            store::closed(db, listed)?;
        }
        KeyspaceCommand::Create { name, min_separated, ttl, compression } => {
            let db = store::open_or_create(global, console)?;
            let options = KeyspaceOptions {
                min_separated: *min_separated,
                ttl: *ttl,
                compression: *compression,
            };
            let created = db.create_keyspace(name, options).map(drop);
            store::closed(db, created.map_err(Into::into))?;
        }
        KeyspaceCommand::Train { name } => {
            let db = store::open_existing(global, console)?;
            let trained = train(&db, name);
            store::closed(db, trained)?;
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

fn train(db: &Db, name: &str) -> Result<()> {
    let keyspace = store::find_keyspace(db, &Within { keyspace: Some(name.to_owned()) })?;
    if keyspace.train_dictionary()? {
        return Ok(());
    }
    let what = "no dictionary was made: there must be 512 KiB of values of up to 16 KiB outside \
                the index, and they must have something in common";
    Err(Error::new(ErrorKind::InvalidArgument, what).with("keyspace", name).into())
}

/// Prints the names of all but the default one, and their options.
pub(super) fn list(db: &Db, console: &Console) -> Result<()> {
    for keyspace in db.keyspaces()? {
        let (name, options) = (keyspace.name(), StoredOptions::from(keyspace.stored_options()?));
        match console.json() {
            true => console.json_line(&KeyspaceLine { keyspace: name, options })?,
            false => console.line(format_args!("{}{options}", console.shown(name.as_bytes())))?,
        }
    }
    Ok(())
}
