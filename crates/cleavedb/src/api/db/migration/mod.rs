//! The change of a database's preset: all that it holds is copied to a database beside it, compared
//! with that, and then exchanged for it in one step.

mod compared;
mod copied;

use std::io;
use std::path::Path;
use std::sync::Arc;

use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_storage::{Disk, Storage};

use super::{Db, random_id};
use crate::control::gate::Intent;
use crate::control::progress::Progress;
use crate::copies::destroy::COPY;
use crate::copies::{checkpoint, migration};
use crate::open::directories::OpenDirectory;
use crate::open::recovery::stored_options;
use crate::settings::merge::MergeOperators;
use crate::settings::options::{Durability, Options, Preset};
use crate::settings::time::ManualTime;
use crate::store::manifest::Current;
use compared::check_same;
use copied::copy_missing;

/// What [`Db::migrate`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrateReport {
    /// The preset that the database had.
    pub from: Preset,
    /// The preset that it has now.
    pub to: Preset,
    /// Keys that this call has copied. None if both presets keep values in the same way.
    pub copied: u64,
    /// Keys that an earlier call, which did not come to its end, had copied.
    pub found: u64,
    /// Bytes of keys and values, of those that were found, too.
    pub bytes: u64,
}

impl MigrateReport {
    fn begun(from: Preset, to: Preset) -> Self {
        Self { from, to, copied: 0, found: 0, bytes: 0 }
    }
}

impl Db {
    /// Makes the database in the directory `path`, of whatever preset, one of the preset, or the
    /// layout, of `options`, as a new one with these would be. It must not be open.
    ///
    /// Where both keep values in the same way, as `KtStore` and `Cleave` do, only the name of the
    /// preset changes. Otherwise all is copied to a database in the subdirectory
    /// `cleavedb-migration`, read again, compared, and exchanged in one step: after an error, a
    /// crash or a loss of power the directory holds either the old database or the new one, whole.
    /// The next call goes on with what was copied, unless anything was written since. A migration
    /// to the preset that the database has removes a copy that is not wanted any more; so does
    /// [`Db::destroy`].
    ///
    /// *What goes over*: keys and values, also in files of their own, when they expire, operands
    /// that cannot be applied, keyspaces with their options, a stored space limit, threshold and
    /// retention of changes; a threshold only where the new layout separates values. The new
    /// database has an id of its own: readers beside it are told so, changes are kept anew, and
    /// backups go to another directory.
    ///
    /// *What it takes*: as much free space as the data, twice [`Options::memory_bytes`], and the
    /// time to read all, write all, and read both. Nothing expires meanwhile, and
    /// [`Options::filter`] is not asked.
    ///
    /// Fails with [`ErrorKind::NotADatabase`] if there is none, [`ErrorKind::Locked`] if it is
    /// open, [`ErrorKind::InvalidOptions`] if it has volumes, or `options` name some,
    /// [`ErrorKind::NoSpace`] if the disk is too full, and [`ErrorKind::Corruption`] if a part of
    /// the old database cannot be read, which [`crate::Salvage`] leaves out.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("db");
    /// use cleavedb::{Db, Options, Preset};
    ///
    /// let db = Db::open(&path, Options::preset(Preset::WiscKey))?;
    /// db.put("key", "value")?;
    /// db.close()?;
    /// assert_eq!(Db::migrate(&path, Options::preset(Preset::Lsm))?.copied, 1);
    /// let db = Db::builder(&path).open()?;
    /// assert_eq!(db.options().preset, Some(Preset::Lsm));
    /// assert_eq!(db.get("key")?.unwrap(), "value");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn migrate(path: impl AsRef<Path>, options: Options) -> Result<MigrateReport> {
        Self::migrate_with(path, options, &Progress::default())
    }

    /// As [`Db::migrate`]; through `progress` other threads see how many bytes are copied, and then
    /// compared, and stop it behind the next key: the next call goes on there.
    pub fn migrate_with(
        path: impl AsRef<Path>,
        options: Options,
        progress: &Progress,
    ) -> Result<MigrateReport> {
        let path = path.as_ref();
        let opened = Disk::open(path, false).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => no_database(),
            _ => Error::io("open the directory", e),
        });
        let mut open = |path: &Path, create: bool| {
            let disk: Arc<dyn Storage> = Arc::new(Disk::open(path, create)?);
            Ok(disk)
        };
        let migrated = opened.and_then(|own| {
            Migration { own: Arc::new(own), path, options, progress }.run(&mut open)
        });
        migrated.map_err(|e| e.with("path", path.display()))
    }

    /// As [`Db::migrate_with`], in `storage`; `open` opens the subdirectory, or a volume by its
    /// absolute path, and creates a missing one if the second argument is true. For tests and tools
    /// that bring their own storage.
    #[doc(hidden)]
    pub fn migrate_beside(
        storage: Arc<dyn Storage>,
        mut open: impl FnMut(&Path, bool) -> io::Result<Arc<dyn Storage>>,
        options: Options,
        progress: &Progress,
    ) -> Result<MigrateReport> {
        let migration = Migration { own: storage, path: Path::new(""), options, progress };
        migration.run(&mut open)
    }
}

/// A call of [`Db::migrate`].
struct Migration<'a> {
    /// The directory of the database.
    own: Arc<dyn Storage>,
    path: &'a Path,
    /// What the database is to have.
    options: Options,
    progress: &'a Progress,
}

impl Migration<'_> {
    fn run(self, open: &mut OpenDirectory<'_>) -> Result<MigrateReport> {
        check_one_directory(self.options.volumes.is_empty())?;
        let stored = stored_options(&*self.own)?.ok_or_else(no_database)?;
        // Time stands still, so that nothing expires between a look at both.
        let time = Arc::new(ManualTime::new(self.options.time.now()));
        let source = Options {
            memory_bytes: self.options.memory_bytes,
            merge_operators: self.options.merge_operators.clone(),
            accept_lost_window: self.options.accept_lost_window,
            background: self.options.background,
            create_if_missing: false,
            time: time.clone(),
            ..stored.clone()
        };
        let target = Options {
            create_if_missing: false,
            error_if_exists: false,
            durability: Durability::Buffered,
            merge_operators: MergeOperators::none(),
            filter: None,
            time,
            ..self.options.clone()
        };
        let target = target.resolved(None);
        let target = target.within_stored(stored.space_limit, stored.log_kept());
        target.validate()?;
        let own = self.own.clone();
        let source = Db::open_all(own, None, open, source, Intent::Write, random_id())?;
        let mut report = MigrateReport::begun(stored.chosen_preset(), target.chosen_preset());
        let place = self.path.join(COPY);
        if stored.layout() == target.layout() {
            rename_preset(&*self.own, report.to)?;
            // Of a migration to another layout, which is given up, or has ended all but this.
            return match open(&place, false) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(report),
                copy => {
                    let copy =
                        copy.map_err(|e| Error::io("open the directory `cleavedb-migration`", e))?;
                    migration::remove(&*self.own, &*copy).map(|()| report)
                }
            };
        }
        check_one_directory(source.engine().storage.volumes().next().is_none())?;
        let copy = open(&place, true);
        let copy = copy
            .map_err(|e| Error::io("make the directory `cleavedb-migration`", e).with_remedy())?;
        self.check_room(&source, &*copy)?;
        let new = open_copy(&source, &copy, &target)?;
        let copied = copy_missing(&source, &new, self.progress, &mut report)
            .and_then(|()| check_same(&source, &new, self.progress));
        report.bytes = match copied {
            Ok(bytes) => bytes,
            Err(e) => {
                // What was copied stays, and a close that fails loses none of it.
                let _ = new.close();
                return Err(e);
            }
        };
        new.flush()?;
        checkpoint::replace(new.engine(), &self.own)?;
        new.close_now()?;
        source.close_now()?;
        // The open removes what the old database had.
        Db::open_in(self.own.clone(), target, random_id())?.close()?;
        migration::remove(&*self.own, &*copy)?;
        Ok(report)
    }

    /// Fails if the disk has not enough room for the data, less what an earlier call has copied.
    fn check_room(&self, source: &Db, copy: &dyn Storage) -> Result<()> {
        // Where the free space is unknown a full disk shows when it is written.
        let Ok(free) = copy.free_space() else { return Ok(()) };
        let listed = copy.list().map_err(|e| Error::io("list the directory", e))?;
        let there: u64 = listed.iter().map(|(_, len)| len).sum();
        let wanted = source.metrics().data_bytes().saturating_sub(there);
        if wanted <= free {
            return Ok(());
        }
        let what = "the disk has no room for a copy of the data, which a migration needs; free \
                    some, and migrate again";
        let error = Error::new(ErrorKind::NoSpace, what).with("needed", wanted);
        Err(error.with("free", free))
    }
}

/// Fails unless the database is, and is to be, in one directory.
fn check_one_directory(is_one: bool) -> Result<()> {
    if is_one {
        return Ok(());
    }
    let what =
        "a database with volumes cannot be migrated; export it, and import it into a new one";
    Err(Error::new(ErrorKind::InvalidOptions, what))
}

/// Gives the database in `own` another preset of the same layout.
fn rename_preset(own: &dyn Storage, preset: Preset) -> Result<()> {
    match Current::read(own)? {
        Some(current) if current.preset != preset => Current { preset, ..current }.store(own),
        _ => Ok(()),
    }
}

/// The copy of `source` in `storage`, which goes on if it can.
fn open_copy(source: &Db, storage: &Arc<dyn Storage>, options: &Options) -> Result<Db> {
    let open = || Db::open_in(storage.clone(), options.clone(), random_id());
    if migration::can_go_on(source.engine(), &**storage, options) {
        match open() {
            // A copy that cannot be read is made anew.
            Err(e) if e.kind() == ErrorKind::Corruption => {}
            opened => return opened,
        }
    }
    migration::begin(source.engine(), storage, options)?;
    open()
}

fn no_database() -> Error {
    Error::new(ErrorKind::NotADatabase, "there is no database in the directory")
}
