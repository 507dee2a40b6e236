//! The oracle: the properties of every disk state that a crash may leave.
//!
//! 1. The surviving content is the state after a prefix of the commit order: at least the commits
//!    acknowledged in a mode that covers the crash, at most those begun.
//! 2. Get, scans in both directions and a snapshot agree; the store's own check finds no problem.
//! 3. The files are those that the manifest names.
//! 4. A second open changes nothing; further writes, a collection and another open match the model.

use cleavedb::{Db, Durability};
use cleavedb_storage::FileKind;
use cleavedb_storage_sim::sim::Image;

use crate::disks::Disks;
use crate::generator::value;
use crate::op::{Op, Scan, Write};
use crate::read::{Checked, collect, compare, compare_value, everything};
use crate::session::{Session, open_all};
use crate::setup::Setup;
use crate::state::State;

/// Fewest and most commits that may have survived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Acknowledged commits that the crash must not lose.
    pub least: usize,
    /// Commits that had begun.
    pub most: usize,
}

/// The oracle of the states that are allowed.
pub struct Oracle<'a> {
    /// How the store is opened.
    pub setup: &'a Setup,
    /// Hash of the state after each number of commits.
    pub hashes: &'a [u64],
    /// Every key that was ever written.
    pub keys: &'a [Vec<u8>],
}

impl Oracle<'_> {
    /// Opens `images`, one of each disk, and checks points 1 to 3; `thorough` adds point 4. Returns
    /// the number of commits that survived, and the state.
    pub fn check(
        &self,
        images: &[Image],
        bounds: Bounds,
        thorough: bool,
    ) -> Checked<(usize, State)> {
        let disks = Disks::from_images(images, self.setup);
        if !thorough {
            disks.stop_recording();
        }
        let opened = open_all(&disks.storages(), self.setup);
        let db = opened.map_err(|e| format!("open failed: {e}"))?;
        let (survived, state) = self.content(&db, bounds)?;
        self.agreement(&db, &state)?;
        let report = db.verify().map_err(|e| format!("verify failed: {e}"))?;
        if let Some(problem) = report.problems.first() {
            return Err(format!("verify: {problem}"));
        }
        check_files(&db, &disks)?;
        if thorough {
            self.second_open(&disks.images(), &state)?;
        }
        Ok((survived, state))
    }

    /// Finds the prefix that survived.
    fn content(&self, db: &Db, bounds: Bounds) -> Checked<(usize, State)> {
        let state = everything(db.default_keyspace())?;
        let Bounds { least, most } = bounds;
        let hash = state.hash();
        let found = (least..=most).rev().find(|n| self.hashes[*n] == hash);
        if let Some(survived) = found {
            return Ok((survived, state));
        }
        let elsewhere = self.hashes.iter().rposition(|h| *h == hash);
        Err(match elsewhere {
            Some(n) if n < least => {
                format!("acknowledged writes are lost: {n} commits survived of {least}")
            }
            Some(n) => format!("{n} commits survived, but only {most} were begun"),
            None => format!(
                "the content ({} keys) matches no prefix of {least} to {most} commits",
                state.len()
            ),
        })
    }

    /// Checks that all ways of reading agree.
    fn agreement(&self, db: &Db, state: &State) -> Checked {
        let expected = state.range(None, None);
        let backward = collect(db.range(..), Scan::Backward)?;
        compare("backward scan", &backward, &expected)?;
        let snapshot = db.snapshot();
        for key in self.keys {
            let got = db.get(key).map_err(|e| format!("get failed: {e}"))?;
            compare_value("get", key, got.as_ref(), state.get(key))?;
            let got = snapshot.get(key).map_err(|e| format!("get failed: {e}"))?;
            compare_value("get at a snapshot", key, got.as_ref(), state.get(key))?;
        }
        Ok(())
    }

    /// A second open finds the same state; then the store continues to work.
    fn second_open(&self, images: &[Image], state: &State) -> Checked {
        let disks = Disks::from_images(images, self.setup);
        disks.stop_recording();
        let mut session = Session::on(&disks, self.setup, state.clone())
            .map_err(|failure| format!("second {failure}"))?;
        session.compare_all().map_err(|failure| format!("after the second open: {failure}"))?;
        let further = further_writes(self.keys);
        for op in &further {
            session.run(op).map_err(|failure| format!("after recovery: {failure}"))?;
        }
        session.leave(true)
    }
}

fn further_writes(keys: &[Vec<u8>]) -> Vec<Op> {
    let mut ops = Vec::new();
    for (i, key) in keys.iter().take(6).enumerate() {
        let write = match i % 3 {
            2 => Write::delete(key),
            _ => Write::put(key, value(u64::MAX - i as u64, 300 * (i + 1))),
        };
        ops.push(Op::Write(vec![write], Durability::Os));
        if i == 3 {
            ops.push(Op::Collect);
        }
    }
    ops.extend([Op::Verify, Op::Kill, Op::Verify]);
    ops
}

/// Checks that the directories hold the files of the manifest, and no others.
pub fn check_files(db: &Db, disks: &Disks) -> Checked {
    let metrics = db.metrics();
    let files: Vec<_> = disks.images().iter().flat_map(Image::list).collect();
    let count =
        |kinds: &[FileKind]| files.iter().filter(|(n, _)| kinds.contains(&n.kind())).count();
    let tables: usize = metrics.levels.iter().map(|level| level.tables).sum();
    let found = count(&[FileKind::Table]);
    if found != tables {
        return Err(format!("{found} tables are in the directory, {tables} in the index"));
    }
    let found = count(&FileKind::VALUES);
    let known = metrics.value_files.len() + metrics.retained_log_files;
    if found != known {
        return Err(format!("{found} value files are in the directory, {known} in the ledger"));
    }
    let found = count(&[FileKind::Manifest]);
    if found != 1 || count(&[FileKind::CurrentNew, FileKind::VolumeNew]) != 0 {
        return Err(format!("{found} manifests are in the directory"));
    }
    Ok(())
}
