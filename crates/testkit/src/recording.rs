//! A recorded workload on simulated disks, with the time of each acknowledgement.

use std::collections::BTreeSet;

use cleavedb::Durability;
use cleavedb_storage_sim::sim::Image;

use crate::check::Bounds;
use crate::disks::Disks;
use crate::op::Op;
use crate::read::Checked;
use crate::session::Session;
use crate::setup::Setup;
use crate::state::State;

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process dies; everything that it wrote survives.
    Kill,
    /// The power fails; only synced data is certain to survive.
    Power,
    /// The power of the disk alone fails, while the machine runs on.
    Detached,
}

/// From this point on, this number of commits must survive such a crash.
#[derive(Clone, Copy, Debug)]
struct Promise {
    at: usize,
    commits: usize,
    durability: Durability,
}

/// The state before a recording began.
#[derive(Default)]
struct Past {
    states: Vec<State>,
    /// Commits that must survive a kill, and a power loss.
    least: [usize; 2],
    keys: BTreeSet<Vec<u8>>,
}

/// A workload that was run, with its disks and the promises made to it.
pub struct Recording {
    /// How the store was opened.
    pub setup: Setup,
    /// The disks.
    pub disks: Disks,
    /// Hash of the state after each number of commits, from 0 on, as of the end of the recording.
    pub hashes: Vec<u64>,
    states: Vec<State>,
    /// Every key of the first state, and every key that was written.
    pub keys: Vec<Vec<u8>>,
    /// For each commit, the number of disk operations before it began.
    begun: Vec<usize>,
    /// The number of disk operations after each operation of the workload.
    after: Vec<usize>,
    promises: Vec<Promise>,
}

impl Recording {
    /// Runs `ops` on an empty disk.
    pub fn first(setup: &Setup, ops: &[Op]) -> Checked<Self> {
        let past = Past { states: vec![State::default()], ..Past::default() };
        Self::run(&setup.at(setup.now()), Disks::new(setup), State::default(), past, ops)
    }

    /// Runs `ops` on the disks `images` that a crash of this recording left, in which `survived`
    /// commits, with the content `state`, survived; `setup` says how they are opened. Until the
    /// open has made them durable, another crash may lose what the first crash could have lost.
    pub fn next(
        &self,
        setup: &Setup,
        images: &[Image],
        (survived, state): (usize, State),
        bounds: [Bounds; 2],
        ops: &[Op],
    ) -> Checked<Self> {
        let past = Past {
            states: self.states[..=survived].to_vec(),
            least: bounds.map(|bounds| bounds.least),
            keys: self.keys.iter().cloned().collect(),
        };
        // Time goes on in the new recording, and not in this one.
        let setup = &setup.at(self.setup.now());
        Self::run(setup, Disks::from_images(images, setup), state, past, ops)
    }

    fn run(setup: &Setup, disks: Disks, state: State, past: Past, ops: &[Op]) -> Checked<Self> {
        let Past { states, least, mut keys } = past;
        let [kill, power] = least;
        let mut recording = Self {
            setup: setup.clone(),
            disks: disks.clone(),
            keys: Vec::new(),
            begun: vec![0; states.len() - 1],
            after: Vec::new(),
            hashes: Vec::new(),
            states,
            promises: vec![
                Promise { at: 0, commits: kill, durability: Durability::Os },
                Promise { at: 0, commits: power, durability: Durability::Sync },
            ],
        };
        let mut session = Session::on(&disks, setup, state)?;
        // An open makes the content that it found durable.
        recording.promise(Durability::Sync);
        for op in ops {
            if let Op::Write(writes, _) | Op::Load(writes) = op {
                keys.extend(writes.iter().map(|write| write.key.clone()));
                recording.begun.push(recording.disks.time());
            }
            session.run(op)?;
            recording.ran(op, &session);
            recording.after.push(recording.disks.time());
        }
        session.leave(false)?;
        let now = setup.now();
        recording.states.iter_mut().for_each(|state| state.pass_until(now));
        recording.hashes = recording.states.iter().map(State::hash).collect();
        recording.keys = keys.into_iter().collect();
        Ok(recording)
    }

    fn promise(&mut self, durability: Durability) {
        let (at, commits) = (self.disks.time(), self.states.len() - 1);
        self.promises.push(Promise { at, commits, durability });
    }

    fn ran(&mut self, op: &Op, session: &Session) {
        match op {
            Op::Write(_, durability) => {
                self.states.push(session.model().clone());
                self.promise(*durability);
            }
            Op::Load(_) => {
                self.states.push(session.model().clone());
                self.promise(Durability::Sync);
            }
            Op::Flush | Op::Compact | Op::Collect | Op::Sync | Op::Reopen | Op::Kill => {
                self.promise(Durability::Sync);
            }
            _ => {}
        }
    }

    /// The point of the history right after operation `op` of the workload.
    pub fn after(&self, op: usize) -> usize {
        self.after[op]
    }

    /// The commits that may have survived a crash at `point`.
    pub fn bounds(&self, point: usize, crash: Crash) -> Bounds {
        let covers = |promise: &&Promise| {
            promise.at <= point
                && match crash {
                    Crash::Kill => promise.durability >= Durability::Os,
                    Crash::Power | Crash::Detached => promise.durability == Durability::Sync,
                }
        };
        let least = self.promises.iter().filter(covers).map(|promise| promise.commits).max();
        let most = self.begun.partition_point(|begun| *begun <= point);
        Bounds { least: least.unwrap_or(0), most }
    }
}
