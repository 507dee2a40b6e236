//! The images that a power loss may leave, enumerated.
//!
//! All of them, where they are few. Otherwise the families that find ordering bugs in linear time:
//! nothing survived, everything did, each prefix of the pending work, everything but one step, one
//! step only; and random subsets. Each with zeros, noise and stale data in the gaps.

use std::collections::HashSet;

use super::choices::{Choices, DirectoryOrder, Step};
use super::image::Image;
use super::replay::Replay;
use super::rng::Rng;

/// Greatest number of states of which all are visited.
const EXHAUSTIVE_MAX: usize = 4096;

/// Random states tried at a crash point with more states than that.
const RANDOM_STATES: usize = 30;

/// Chances, in percent, that a step survives in a random state.
const CHANCES: [u64; 3] = [10, 50, 90];

/// How a power loss is enumerated.
#[derive(Clone, Copy, Debug)]
pub struct PowerLoss {
    /// How the directory keeps the order of its changes.
    pub directory: DirectoryOrder,
    /// Most states tried at one crash point; at least 2.
    pub states_max: usize,
    /// Seed of everything random.
    pub seed: u64,
}

impl Default for PowerLoss {
    fn default() -> Self {
        Self { directory: DirectoryOrder::Subset, states_max: EXHAUSTIVE_MAX, seed: 0 }
    }
}

impl Replay {
    /// What the disk may hold if the power fails at this point: distinct images, the more telling
    /// ones first.
    pub fn power_loss(&self, options: &PowerLoss) -> States<'_> {
        States::new(self, options)
    }
}

/// Which of the pending steps survive.
#[derive(Clone, Copy)]
enum Survivors {
    None,
    All,
    Prefix(usize),
    AllBut(usize),
    Only(usize),
    Random(u64),
}

/// What is still to be visited.
enum Plan {
    /// Every combination, counted like a number with one digit a slot; `None` at the end.
    Exhaustive(Option<Vec<usize>>),
    /// Survivors and what fills the gaps, last one first.
    Families { steps: Vec<Step>, remaining: Vec<(Survivors, usize)> },
}

/// Iterator over distinct images.
pub struct States<'a> {
    choices: Choices<'a>,
    plan: Plan,
    seen: HashSet<u64>,
    rng: Rng,
}

impl<'a> States<'a> {
    fn new(replay: &'a Replay, options: &PowerLoss) -> Self {
        let choices = Choices::new(replay, options.directory, options.seed);
        let mut rng = Rng::new(options.seed ^ (replay.point() as u64).rotate_left(32));
        let limit = options.states_max.max(2);
        let count = (0..choices.len())
            .try_fold(1usize, |count, slot| count.checked_mul(choices.options(slot)));
        let plan = if count.is_some_and(|count| count <= limit.min(EXHAUSTIVE_MAX)) {
            Plan::Exhaustive(Some(vec![0; choices.len()]))
        } else {
            let steps = choices.steps();
            let fills = choices.fill.map_or(1, |slot| choices.options(slot));
            let remaining = families(steps.len(), fills, limit, &mut rng);
            Plan::Families { steps, remaining }
        };
        Self { choices, plan, seen: HashSet::new(), rng }
    }

    /// The next combination, distinct or not.
    fn next_choice(&mut self) -> Option<Vec<usize>> {
        match &mut self.plan {
            Plan::Exhaustive(next) => {
                let chosen = next.take()?;
                *next = successor(&chosen, &self.choices);
                Some(chosen)
            }
            Plan::Families { steps, remaining } => {
                let (survivors, fill) = remaining.pop()?;
                let mut chosen = choose(survivors, steps, &self.choices, &mut self.rng);
                if let Some(slot) = self.choices.fill {
                    chosen[slot] = fill;
                }
                Some(chosen)
            }
        }
    }
}

impl Iterator for States<'_> {
    type Item = Image;

    fn next(&mut self) -> Option<Image> {
        loop {
            let chosen = self.next_choice()?;
            let image = self.choices.image(&chosen);
            if self.seen.insert(image.hash()) {
                return Some(image);
            }
        }
    }
}

/// The combination after `chosen`; `None` after the last.
fn successor(chosen: &[usize], choices: &Choices<'_>) -> Option<Vec<usize>> {
    let mut next = chosen.to_vec();
    for (slot, option) in next.iter_mut().enumerate() {
        *option += 1;
        if *option < choices.options(slot) {
            return Some(next);
        }
        *option = 0;
    }
    None
}

/// At most `limit` members of the families, in the reverse of the order of visits.
fn families(steps: usize, fills: usize, limit: usize, rng: &mut Rng) -> Vec<(Survivors, usize)> {
    let mut linear: Vec<(Survivors, usize)> = (0..steps)
        .flat_map(|i| [Survivors::Prefix(i), Survivors::AllBut(i), Survivors::Only(i)])
        .flat_map(|survivors| (0..fills).map(move |fill| (survivors, fill)))
        .collect();
    let room = limit - 2;
    let random = RANDOM_STATES.min(room / 4);
    if linear.len() > room - random {
        rng.shuffle(&mut linear);
        linear.truncate(room - random);
    }
    let mut plan: Vec<_> = (0..random)
        .map(|i| (Survivors::Random(CHANCES[i % CHANCES.len()]), rng.index(fills)))
        .collect();
    plan.append(&mut linear);
    plan.extend([(Survivors::None, 0), (Survivors::All, 0)]);
    plan
}

/// The options that `survivors` amounts to.
fn choose(
    survivors: Survivors,
    steps: &[Step],
    choices: &Choices<'_>,
    rng: &mut Rng,
) -> Vec<usize> {
    let mut chosen = vec![0; choices.len()];
    // A later step of a slot replaces an earlier one.
    let mut take = |step: &Step| chosen[step.slot] = chosen[step.slot].max(step.option);
    match survivors {
        Survivors::None => {}
        Survivors::All => steps.iter().for_each(take),
        Survivors::Prefix(end) => steps[..end].iter().for_each(take),
        Survivors::Only(i) => {
            take(&steps[i]);
            // One sector of an append shows only if the file also became longer.
            if let Some(slot) = choices.length_beside(steps[i].slot) {
                chosen[slot] = choices.options(slot) - 1;
            }
        }
        Survivors::Random(chance) => {
            steps.iter().filter(|_| rng.chance(chance)).for_each(take);
        }
        Survivors::AllBut(i) => {
            steps.iter().for_each(take);
            chosen[steps[i].slot] = steps[i].option - 1;
        }
    }
    chosen
}
