//! Commands of saves, and those that Redis does not have.

use std::sync::Arc;

use super::changes::changes;
use super::{ClientSession, now};
use crate::command::args::{is, number, syntax};
use crate::exec::{Answer, Halt, failed};
use crate::resp::reply::Reply;
use crate::saves::{self, Saves};
use crate::shared::ServerShared;

/// The error of a job that another client has begun.
fn runs_already(what: &str) -> Halt {
    Halt::error(format!("ERR {what} already in progress"))
}

/// `SAVE` and `BGSAVE [SCHEDULE]`, `BGREWRITEAOF`, `WAITAOF`, and the commands of our own.
pub(super) fn run(
    session: &mut ClientSession,
    shared: &Arc<ServerShared>,
    name: &str,
    args: &[&[u8]],
) -> Answer {
    let (db, saves) = (shared.store.db(), &shared.saves);
    let backup_dir = || shared.config.load().backup_dir.clone();
    match name {
        "save" => match saves.save(db, backup_dir().as_deref(), now()) {
            Ok(true) => Ok(Reply::OK),
            Ok(false) => Err(runs_already("Background save")),
            Err(error) => Err(failed(error)),
        },
        "bgsave" => {
            if args.len() > 2 || args.len() == 2 && !is(args[1], "SCHEDULE") {
                return Err(syntax());
            }
            if saves.is_saving() {
                return Err(runs_already("Background save"));
            }
            let (db, to) = (db.clone(), backup_dir());
            background(saves, "cleave-save", move |saves| {
                // How it ends is told by `INFO`.
                let _ = saves.save(&db, to.as_deref(), now());
            })?;
            Ok(Reply::Status("Background saving started"))
        }
        "bgrewriteaof" => {
            if saves.is_collecting() {
                return Err(runs_already("Background append only file rewriting"));
            }
            let db = db.clone();
            // The failure of a job is a figure of the store.
            background(saves, "cleave-collect", move |saves| _ = saves.collect(&db))?;
            Ok(Reply::Status("Background append only file rewriting started"))
        }
        "waitaof" => wait_for_sync(shared, args),
        "cleave.changes" => changes(&shared.store, args),
        "cleave.durability" => session.choose_durability(args),
        "cleave.compact" => db.compact().map(|()| Reply::OK).map_err(failed),
        "cleave.collect" => match saves.collect(db) {
            Ok(true) => Ok(Reply::OK),
            Ok(false) => Err(runs_already("the collection of dead values is")),
            Err(error) => Err(failed(error)),
        },
        "cleave.check" => {
            let audit = shared.store.audit().map_err(failed)?;
            Ok(Reply::bulks(audit.wrong))
        }
        "cleave.checkpoint" => {
            let place = saves::place(backup_dir().as_deref(), args[1]).map_err(failed)?;
            let folder = place.parent().map_or(Ok(()), std::fs::create_dir_all);
            folder.map_err(|why| Halt::error(format!("ERR {}: {why}", place.display())))?;
            let made = db.checkpoint(&place).map_err(failed)?;
            Ok(Reply::Map(vec![
                (text("path"), text(place.display().to_string())),
                (text("bytes"), Reply::Integer(made.bytes.cast_signed())),
            ]))
        }
        _ => {
            let to = backup_dir()
                .ok_or_else(|| Halt::error("ERR start with --backup-dir to make backups there"))?;
            let made = db.backup(to).map_err(failed)?;
            Ok(Reply::Map(vec![(text("number"), Reply::Integer(made.number.cast_signed()))]))
        }
    }
}

fn text(text: impl Into<bytes::Bytes>) -> Reply {
    Reply::Bulk(text.into())
}

fn background(
    saves: &Arc<Saves>,
    name: &str,
    job: impl FnOnce(&Saves) + Send + 'static,
) -> Answer<()> {
    let begun = saves::in_background(name, saves, job);
    begun.map_err(|why| Halt::error(format!("ERR a thread could not be started: {why}")))
}

/// `WAITAOF numlocal numreplicas timeout`: syncs what was written so far, however long that takes;
/// no copy is there.
fn wait_for_sync(shared: &ServerShared, args: &[&[u8]]) -> Answer {
    let local = number(args[1])?;
    if !(0..=1).contains(&local) {
        return Err(Halt::error("ERR value is out of range, must be between 0 and 1"));
    }
    for text in &args[2..] {
        if number(text)? < 0 {
            return Err(Halt::error("ERR value is out of range, must be positive"));
        }
    }
    let seq = shared.store.written();
    if local == 1 {
        shared.store.db().sync_to(seq).map_err(failed)?;
    }
    let is_synced = shared.store.db().durable_seq() >= seq;
    Ok(Reply::Array(vec![Reply::Integer(is_synced.into()), Reply::Integer(0)]))
}

impl ClientSession {
    /// `CLEAVE.DURABILITY [OS | SYNC | DEFAULT]`: when the writes of this connection survive a loss
    /// of power.
    fn choose_durability(&mut self, args: &[&[u8]]) -> Answer {
        self.syncs = match args.get(1) {
            None => {
                let name = match self.syncs {
                    None => "default",
                    Some(true) => "sync",
                    Some(false) => "os",
                };
                return Ok(text(name));
            }
            Some(word) if is(word, "OS") => Some(false),
            Some(word) if is(word, "SYNC") => Some(true),
            Some(word) if is(word, "DEFAULT") => None,
            Some(_) => return Err(syntax()),
        };
        Ok(Reply::OK)
    }
}
