//! The crash loop: every point of a recording, every kind of crash, many images of each.
//!
//! States are counted once per distinct image. Some of the recovered states are explored further:
//! their recovery, and a few operations after it, are recorded and crash as well.

use std::collections::HashSet;

use cleavedb_storage_sim::sim::{DirectoryOrder, Image, PowerLoss, Rng};

use crate::check::{Bounds, Oracle};
use crate::disks::{Images, Replays, hash_of};
use crate::generator::{Generator, Profile};
use crate::recording::{Crash, Recording};
use crate::setup::Setup;
use crate::state::State;

/// Of this number of power losses one is that of the disk alone.
const DETACHED_ONE_IN: u64 = 4;

/// How much of the space of crashes is explored.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Most images of one power loss.
    pub images_max: usize,
    /// One in this number of states is checked thoroughly.
    pub thorough_one_in: u64,
    /// One in this number of states is recovered on a recording disk and crashes again.
    pub deeper_one_in: u64,
    /// Crashes in a row.
    pub depth: usize,
    /// Number of points of the first recording, approximately; none for all.
    pub points: Option<usize>,
    /// Number of points of a later recording, approximately.
    pub deeper_points: usize,
    /// Number of operations between a recovery and the next crash.
    pub profile: Profile,
    /// Number of operations between a recovery and the next crash.
    pub deeper_ops: usize,
    /// Setups of the opens after the first crash, the second and so on, in turn; if empty, the
    /// setup stays the same.
    pub recover_with: Vec<Setup>,
    /// Seed of all choices.
    pub seed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            images_max: 10,
            thorough_one_in: 20,
            deeper_one_in: 500,
            depth: 3,
            points: None,
            deeper_points: 40,
            profile: Profile::crash(),
            deeper_ops: 6,
            recover_with: Vec::new(),
            seed: 0,
        }
    }
}

/// Counts of an exploration.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Distinct states, by depth: images that were new, in any recording.
    pub states: Vec<u64>,
    /// Recoveries that were checked: the same image may be checked against several promises.
    pub checked: u64,
    /// States checked thoroughly.
    pub thorough: u64,
    /// Images that were not new.
    pub repeated: u64,
}

impl Totals {
    /// Distinct states of all depths.
    pub fn distinct(&self) -> u64 {
        self.states.iter().sum()
    }
}

/// Explores recordings.
pub struct Explorer {
    plan: Plan,
    rng: Rng,
    images: HashSet<u64>,
    /// Images of the current recording with the promises that they were checked against.
    seen: HashSet<(u64, Bounds)>,
    /// Counts so far.
    pub totals: Totals,
}

impl Explorer {
    /// An explorer without visited states.
    pub fn new(plan: Plan) -> Self {
        let rng = Rng::new(plan.seed);
        let (images, seen) = (HashSet::new(), HashSet::new());
        Self { plan, rng, images, seen, totals: Totals::default() }
    }

    /// Makes the further choices a function of `seed` alone.
    pub fn reseed(&mut self, seed: u64) {
        self.plan.seed = seed;
        self.rng = Rng::new(seed);
    }

    /// Explores the crashes of a recording; fails with a description of the first failed recovery.
    pub fn explore(&mut self, recording: &Recording) -> Result<(), String> {
        self.explore_from(recording, 0)
    }

    /// As [`Explorer::explore`], from a point of the history on.
    pub fn explore_from(&mut self, recording: &Recording, point: usize) -> Result<(), String> {
        self.seen.clear();
        self.explore_at(recording, point, 1)
    }

    fn explore_at(
        &mut self,
        recording: &Recording,
        from: usize,
        depth: usize,
    ) -> Result<(), String> {
        let mut replay = recording.disks.replay();
        let last = recording.disks.time();
        let points = if depth == 1 { self.plan.points } else { Some(self.plan.deeper_points) };
        let stride = points.map_or(1, |points| last / points.max(1)).max(1);
        let mut point = from + self.rng.index(stride);
        while point <= last {
            replay.advance(point);
            self.kills(recording, &replay, depth)?;
            for directory in [DirectoryOrder::Prefix, DirectoryOrder::Subset] {
                self.power_losses(recording, &replay, directory, depth)?;
            }
            point += stride;
        }
        Ok(())
    }

    fn kills(
        &mut self,
        recording: &Recording,
        replay: &Replays,
        depth: usize,
    ) -> Result<(), String> {
        self.visit(recording, replay, &replay.process_kill(), Crash::Kill, depth)?;
        let within = [1, 8, 24, 512, 4096][self.rng.index(5)];
        match replay.process_kill_within(within) {
            Some(images) => self.visit(recording, replay, &images, Crash::Kill, depth),
            None => Ok(()),
        }
    }

    fn power_losses(
        &mut self,
        recording: &Recording,
        replay: &Replays,
        directory: DirectoryOrder,
        depth: usize,
    ) -> Result<(), String> {
        let options =
            PowerLoss { directory, states_max: self.plan.images_max, seed: self.plan.seed };
        for images in replay.power_loss(&options) {
            match hash_of(&images).is_multiple_of(DETACHED_ONE_IN) {
                true => {
                    let images: Images = images.into_iter().map(Image::detached).collect();
                    self.visit(recording, replay, &images, Crash::Detached, depth)?;
                }
                false => self.visit(recording, replay, &images, Crash::Power, depth)?,
            }
        }
        Ok(())
    }

    fn visit(
        &mut self,
        recording: &Recording,
        replay: &Replays,
        images: &[Image],
        crash: Crash,
        depth: usize,
    ) -> Result<(), String> {
        let bounds = recording.bounds(replay.point(), crash);
        let hash = hash_of(images);
        if !self.seen.insert((hash, bounds)) {
            self.totals.repeated += 1;
            return Ok(());
        }
        self.totals.states.resize(self.totals.states.len().max(depth), 0);
        self.totals.states[depth - 1] += u64::from(self.images.insert(hash));
        self.totals.checked += 1;
        let thorough = self.rng.below(self.plan.thorough_one_in) == 0;
        self.totals.thorough += u64::from(thorough);
        let Recording { setup, hashes, keys, .. } = recording;
        let others = &self.plan.recover_with;
        let recovers = others.get((depth - 1) % others.len().max(1)).unwrap_or(setup);
        let mut setup = recovers.at(setup.now());
        // Where the header of the window was never written, there may be anything: also while an
        // open of such a state has not written it yet.
        let may_be_lost = recording.setup.options.accept_lost_window || crash == Crash::Detached;
        setup.options.accept_lost_window |= may_be_lost;
        let setup = &setup;
        let oracle = Oracle { setup, hashes, keys };
        let outcome = oracle.check(images, bounds, thorough).and_then(|survived| {
            let deeper = depth < self.plan.depth && self.rng.below(self.plan.deeper_one_in) == 0;
            if !deeper {
                return Ok(());
            }
            let later = recording.bounds(replay.point(), Crash::Power);
            self.deeper(recording, setup, images, survived, [bounds, later], depth)
        });
        outcome.map_err(|failure| describe(&failure, replay, crash, bounds, depth))
    }

    /// Recovers on a recording disk, runs a few operations, and crashes again.
    fn deeper(
        &mut self,
        recording: &Recording,
        setup: &Setup,
        images: &[Image],
        survived: (usize, State),
        bounds: [Bounds; 2],
        depth: usize,
    ) -> Result<(), String> {
        let seed = self.rng.next_u64() >> 24;
        let ops = Generator::new(seed, self.plan.profile.clone()).take(self.plan.deeper_ops);
        let next = recording.next(setup, images, survived, bounds, &ops)?;
        self.explore_at(&next, 0, depth + 1)
    }
}

fn describe(failure: &str, replay: &Replays, crash: Crash, bounds: Bounds, depth: usize) -> String {
    let recent = replay.before(6);
    format!(
        "{failure}\n{crash:?} at operation {} of the disks, depth {depth}, {bounds:?}; before it, \
         latest first:\n{}",
        replay.point(),
        recent.join("\n")
    )
}
