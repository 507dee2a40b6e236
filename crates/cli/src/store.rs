//! Which database a command works on, and whether it may create it.

use std::fs;
use std::io;
use std::path::Path;

use cleavedb::{Db, Options, Preset};

use crate::args::Global;
use crate::failure::{Failure, Result};
use crate::miniature;
use crate::placement;

/// Opens the database, which must be there, with the preset that it was created with.
pub fn open_existing(global: &Global) -> Result<Db> {
    let path = &global.db;
    let stored = stored_preset(path)?;
    // A directory with files in it but without a database is for the engine to explain.
    if stored.is_none() && is_empty(path)? {
        return Err(Failure::NoDatabase(path.clone()));
    }
    let preset = global.preset.or(stored).unwrap_or_default();
    open(path, Options { create_if_missing: false, ..options(global, preset) })
}

/// Opens the database, or creates it.
pub fn open_or_create(global: &Global) -> Result<Db> {
    let preset = match global.preset {
        Some(preset) => preset,
        None => stored_preset(&global.db)?.unwrap_or_default(),
    };
    open(&global.db, options(global, preset))
}

/// The options that the arguments of every command ask for.
pub fn options(global: &Global, preset: Preset) -> Options {
    // The command line takes no placement without a directory.
    let volumes = placement::volumes(&global.place, Path::new(""));
    let usual = Options::preset(preset);
    let level0 = global.level0.unwrap_or(usual.level0);
    let options = Options { volumes, level0, ..usual };
    match global.space_limit {
        Some(limit) => miniature::within(options, limit),
        None => options,
    }
}

/// Opens the database in `path` with `options`.
pub fn open(path: &Path, options: Options) -> Result<Db> {
    Ok(Db::open(path, options)?)
}

/// The preset of the database in `path`, if there is one.
pub fn stored_preset(path: &Path) -> Result<Option<Preset>> {
    Ok(Db::preset_of(path).map_err(|error| error.with("path", path.display()))?)
}

/// Whether there is nothing in the directory, or no directory.
pub fn is_empty(path: &Path) -> Result<bool> {
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(Failure::file("list", path)(error)),
    }
}
