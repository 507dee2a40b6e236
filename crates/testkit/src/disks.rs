//! The simulated disks of one machine, which crash at the same moment and lose different amounts.
//!
//! The first holds the database's own directory, each other one a volume. They share a clock, so a
//! crash point is one moment for all disks; what survives on one is independent of the others.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleavedb_base::checksum::hash64;
use cleavedb_storage::Storage;
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::{Image, PowerLoss, Replay, Rng, SECTOR};

use crate::setup::Setup;

/// Simulated disks; clones are handles of the same ones.
#[derive(Clone)]
pub struct Disks(Vec<Sim>);

/// The content of each disk of a machine at rest.
pub type Images = Vec<Image>;

/// The path of volume `number`, from 1 on, in setups.
pub fn volume_path(number: usize) -> PathBuf {
    PathBuf::from(format!("/volume/{number}"))
}

/// Finds volumes among `storages`, whose first is the database's own directory.
pub fn volume_of(storages: &[Arc<dyn Storage>], path: &Path) -> io::Result<Arc<dyn Storage>> {
    let found = (1..storages.len()).find(|number| path == volume_path(*number));
    found.map(|number| storages[number].clone()).ok_or(io::ErrorKind::NotFound.into())
}

impl From<&Sim> for Disks {
    fn from(sim: &Sim) -> Self {
        Self(vec![sim.clone()])
    }
}

impl From<&Disks> for Disks {
    fn from(disks: &Disks) -> Self {
        disks.clone()
    }
}

impl Disks {
    /// Empty disks for `setup`: one, and one for each of its volumes.
    pub fn new(setup: &Setup) -> Self {
        Self::from_images(&vec![Image::default(); setup.disks()], setup)
    }

    /// Disks with the content `images`, all of it durable, as after a reboot.
    ///
    /// # Panics
    /// If there is no image.
    pub fn from_images(images: &[Image], setup: &Setup) -> Self {
        let first = Sim::from_image(images[0].clone());
        first.set_window_survives(setup.window_survives);
        // Values are written past the page cache, and after a reboot through it.
        first.set_memory(if images[0].boots() % 2 == 1 { u64::MAX } else { 0 });
        let volumes = images[1..].iter().map(|image| Sim::beside(&first, image.clone()));
        Self(std::iter::once(first.clone()).chain(volumes).collect())
    }

    /// Empty disks without recording: for long runs without crash checks.
    pub fn forgetful(setup: &Setup) -> Self {
        let disks = Self::new(setup);
        disks.stop_recording();
        disks
    }

    /// Stops recording for good.
    pub fn stop_recording(&self) {
        self.0.iter().for_each(Sim::stop_recording);
    }

    /// Each disk, the database's own first.
    pub fn sims(&self) -> &[Sim] {
        &self.0
    }

    /// As storages for the engine.
    pub fn storages(&self) -> Vec<Arc<dyn Storage>> {
        self.0.iter().map(|sim| -> Arc<dyn Storage> { Arc::new(sim.clone()) }).collect()
    }

    /// Kills the process that uses them; see [`Sim::kill`].
    #[must_use]
    pub fn kill(&self) -> Self {
        Self(self.0.iter().map(Sim::kill).collect())
    }

    /// The current content of the disks, durable or not.
    pub fn images(&self) -> Images {
        self.0.iter().map(Sim::image).collect()
    }

    /// Number of operations of all of them so far.
    pub fn time(&self) -> usize {
        self.0[0].time()
    }

    /// A replay of all of them, before the first operation.
    pub fn replay(&self) -> Replays {
        let replays = self.0.iter().map(|sim| sim.replay(SECTOR)).collect();
        Replays { disks: self.clone(), replays, point: 0 }
    }
}

/// Hash of all images together.
pub fn hash_of(images: &[Image]) -> u64 {
    let with_boots = |image: &Image| image.hash() ^ image.boots();
    images.iter().fold(0, |hash, image| hash64(&with_boots(image).to_le_bytes(), hash))
}

/// A moment of a recorded past, on every disk.
pub struct Replays {
    disks: Disks,
    replays: Vec<Replay>,
    point: usize,
}

impl Replays {
    /// The crash point: the number of operations of all disks before it.
    pub fn point(&self) -> usize {
        self.point
    }

    /// Replays up to `point`.
    pub fn advance(&mut self, point: usize) {
        self.point = point;
        for (sim, replay) in self.disks.0.iter().zip(&mut self.replays) {
            replay.advance(sim.point_at(point));
        }
    }

    /// The content of the disks if only the process dies here.
    pub fn process_kill(&self) -> Images {
        self.replays.iter().map(Replay::process_kill).collect()
    }

    /// As [`Replays::process_kill`], in the middle of the next operation, after `len` bytes of it.
    pub fn process_kill_within(&self, len: usize) -> Option<Images> {
        let busy = self
            .disks
            .0
            .iter()
            .zip(&self.replays)
            .position(|(sim, replay)| sim.point_at(self.point + 1) > replay.point())?;
        let mut images = self.process_kill();
        images[busy] = self.replays[busy].process_kill_within(len)?;
        Some(images)
    }

    /// Possible contents if the power fails here: of one disk all that it enumerates; of several
    /// first the most on one and the least on another, then combinations drawn at random.
    pub fn power_loss(&self, options: &PowerLoss) -> Vec<Images> {
        let each: Vec<Images> =
            self.replays.iter().map(|replay| replay.power_loss(options).collect()).collect();
        let [alone] = &each[..] else { return drawn(&each, options, self.point) };
        alone.iter().map(|image| vec![image.clone()]).collect()
    }

    /// The operations before the crash point, latest of each disk first; for messages.
    pub fn before(&self, count: usize) -> Vec<String> {
        let events = self.replays.iter().enumerate().flat_map(|(disk, replay)| {
            replay.before().take(count).map(move |event| format!("  disk {disk}: {event}"))
        });
        events.collect()
    }
}

/// Combinations of the possible contents of each disk: at most as many as for one disk.
fn drawn(each: &[Images], options: &PowerLoss, point: usize) -> Vec<Images> {
    let all: usize = each.iter().map(Vec::len).product();
    let mut rng = Rng::new(options.seed ^ (point as u64).rotate_left(17));
    let mut choices: Vec<Vec<usize>> = Vec::new();
    // A disk's first image has all pending operations or none; its second or last one has the
    // opposite.
    for disk in 0..each.len() {
        for other in [1, usize::MAX] {
            let choose = |at| if at == disk { 0 } else { other };
            choices.push((0..each.len()).map(choose).collect());
        }
    }
    choices.truncate(options.states_max.min(all).max(1));
    while choices.len() < options.states_max.min(all) {
        choices.push(each.iter().map(|images| rng.index(images.len())).collect());
    }
    let image = |(images, at): (&Images, usize)| images[at.min(images.len() - 1)].clone();
    choices.into_iter().map(|choice| each.iter().zip(choice).map(image).collect()).collect()
}
