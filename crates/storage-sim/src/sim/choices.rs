//! The independent choices that a power loss makes, and the image that they amount to.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ops::Range;

use cleavedb_storage::Name;

use super::content::Content;
use super::event::FileId;
use super::image::Image;
use super::pending::{Pending, Version};
use super::replay::Replay;
use super::rng::Rng;

/// How the directory keeps the order of its changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryOrder {
    /// Changes survive up to some point, as on file systems with a journal.
    Prefix,
    /// Each change survives or not, on its own: the strictest reading of POSIX.
    Subset,
}

/// One thing that chance decides: option 0 is what is durable, the last one the latest.
enum Slot<'a> {
    /// The content of the unit at an offset of a file.
    Unit(usize, &'a [Version]),
    /// Whether a range of a file was given back.
    Punch(usize, usize, usize),
    /// The length of a file, with the time it was reached.
    Length(&'a [(usize, usize)]),
    /// How many changes of the directory survive.
    NamePrefix,
    /// Whether one change of the directory survives.
    Name(usize),
    /// What the parts of files hold that grew but were not written.
    Fill,
}

/// What was never written.
const ZEROS: usize = 0;
const NOISE: usize = 1;
const FILLS: usize = 3;

/// One step from an option of a slot to the next; to take some of the steps is to let some of the
/// pending work survive.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) slot: usize,
    pub(super) option: usize,
}

/// The choices about one file that is not certain.
struct FileChoices {
    slots: Range<usize>,
    /// By fill: the durable content, extended to the greatest length. Images share it.
    grown: [OnceCell<Content>; FILLS],
    /// Seed of the noise.
    seed: u64,
}

/// All choices at one crash point.
pub(super) struct Choices<'a> {
    replay: &'a Replay,
    slots: Vec<Slot<'a>>,
    /// The choices about each file.
    by_file: BTreeMap<FileId, FileChoices>,
    /// Slot of the fill; `None` if no file grew.
    pub(super) fill: Option<usize>,
}

impl<'a> Choices<'a> {
    /// The choices, with noise that `seed` decides.
    pub(super) fn new(replay: &'a Replay, order: DirectoryOrder, seed: u64) -> Self {
        let mut slots = Vec::new();
        let mut by_file = BTreeMap::new();
        let mut grew = false;
        for (id, file) in replay.files.iter().filter(|(_, file)| !file.is_certain()) {
            let first = slots.len();
            let units = file.units.iter();
            slots
                .extend(units.map(|(number, versions)| Slot::Unit(number * replay.unit, versions)));
            slots.extend(file.punches.iter().map(|(time, at, len)| Slot::Punch(*time, *at, *len)));
            if !file.lengths.is_empty() {
                slots.push(Slot::Length(&file.lengths));
            }
            grew |= file.longest() > file.durable.len();
            let (slots, seed) = (first..slots.len(), seed ^ id.0);
            by_file.insert(*id, FileChoices { slots, grown: Default::default(), seed });
        }
        match order {
            _ if replay.name_changes.is_empty() => {}
            DirectoryOrder::Prefix => slots.push(Slot::NamePrefix),
            DirectoryOrder::Subset => {
                slots.extend((0..replay.name_changes.len()).map(Slot::Name));
            }
        }
        let fill = grew.then_some(slots.len());
        slots.extend(grew.then_some(Slot::Fill));
        Self { replay, slots, by_file, fill }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Number of options of a slot, at least 2.
    pub(super) fn options(&self, slot: usize) -> usize {
        match self.slots[slot] {
            Slot::Unit(_, versions) => versions.len() + 1,
            Slot::Length(lengths) => lengths.len() + 1,
            Slot::NamePrefix => self.replay.name_changes.len() + 1,
            Slot::Name(_) | Slot::Punch(..) => 2,
            Slot::Fill => FILLS,
        }
    }

    /// The slot of the length of the file that the unit `slot` is part of.
    pub(super) fn length_beside(&self, slot: usize) -> Option<usize> {
        if !matches!(self.slots[slot], Slot::Unit(..)) {
            return None;
        }
        let last = self.by_file.values().find(|file| file.slots.contains(&slot))?.slots.end - 1;
        matches!(self.slots[last], Slot::Length(_)).then_some(last)
    }

    /// All steps but those of the fill, in the order in which the work was done.
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (slot, what) in self.slots.iter().enumerate() {
            let mut step = |time: usize, position: usize, option: usize| {
                steps.push(((time, position), Step { slot, option }));
            };
            match what {
                Slot::Unit(start, versions) => {
                    versions.iter().enumerate().for_each(|(i, v)| step(v.time, *start, i + 1));
                }
                Slot::Length(lengths) => {
                    let reached = lengths.iter().enumerate();
                    reached.for_each(|(i, (time, len))| step(*time, *len, i + 1));
                }
                Slot::NamePrefix => {
                    let changes = self.replay.name_changes.iter();
                    changes.enumerate().for_each(|(i, (time, _))| step(*time, 0, i + 1));
                }
                Slot::Punch(time, offset, _) => step(*time, *offset, 1),
                Slot::Name(i) => step(self.replay.name_changes[*i].0, 0, 1),
                Slot::Fill => {}
            }
        }
        steps.sort_by_key(|(when, _)| *when);
        steps.into_iter().map(|(_, step)| step).collect()
    }

    /// The image that the options `chosen`, one a slot, amount to.
    pub(super) fn image(&self, chosen: &[usize]) -> Image {
        // What was only in memory is gone.
        let mut image = Image { boots: self.replay.boots + 1, ..Image::default() };
        for (name, id) in self.names(chosen) {
            let file = &self.replay.files[&id];
            let content = match self.by_file.get(&id) {
                None => file.durable.clone(),
                Some(choices) => self.content(file, choices, chosen),
            };
            image.files.insert(name, content);
        }
        image
    }

    fn names(&self, chosen: &[usize]) -> BTreeMap<Name, FileId> {
        let mut names = self.replay.durable_names.clone();
        let changes = &self.replay.name_changes;
        for (slot, option) in self.slots.iter().zip(chosen) {
            match slot {
                Slot::NamePrefix => changes[..*option].iter().for_each(|c| c.1.apply(&mut names)),
                Slot::Name(i) if *option == 1 => changes[*i].1.apply(&mut names),
                _ => {}
            }
        }
        names
    }

    fn content(&self, file: &Pending, choices: &FileChoices, chosen: &[usize]) -> Content {
        let slots = choices.slots.clone();
        let last = slots.end - 1;
        let len = match self.slots[last] {
            Slot::Length(lengths) if chosen[last] > 0 => lengths[chosen[last] - 1].1,
            _ => file.durable.len(),
        };
        let fill = self.fill.map_or(ZEROS, |slot| chosen[slot]);
        let mut content = match len > file.durable.len() {
            true => choices.grown[fill].get_or_init(|| grown(file, fill, choices.seed)).clone(),
            false => file.durable.clone(),
        };
        for (slot, option) in self.slots[slots.clone()].iter().zip(&chosen[slots]) {
            match slot {
                Slot::Unit(start, versions) if *option > 0 && *start < len => {
                    let bytes = &versions[option - 1].bytes;
                    content.write(*start, &bytes[..bytes.len().min(len - start)]);
                }
                Slot::Punch(_, start, range) if *option > 0 => content.punch(*start, *range),
                _ => {}
            }
        }
        content.set_len(len);
        content
    }
}

/// The durable content of `file`, extended to its greatest length with what a disk may show where
/// nothing was written.
fn grown(file: &Pending, fill: usize, seed: u64) -> Content {
    let mut content = file.durable.clone();
    let old_len = content.len();
    if fill == ZEROS {
        content.set_len(file.longest());
        return content;
    }
    let mut bytes = vec![0; file.longest() - old_len];
    match fill {
        NOISE => Rng::new(seed).fill(&mut bytes),
        // Stale data: the file once more, right behind its durable end, so that old records stand
        // where a reader expects new ones.
        _ => {
            let stale = content.to_vec();
            bytes.iter_mut().zip(stale.iter().cycle()).for_each(|(byte, old)| *byte = *old);
        }
    }
    content.write(old_len, &bytes);
    content
}
