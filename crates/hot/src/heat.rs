//! How often keys that are not hot are accessed: an estimate in a few bytes a key.
//!
//! HoaKV keeps the heat of cold keys in a table on disk (section 3.6), at a write for each read.
//! Here it is a count-min sketch in memory (Cormode and Muthukrishnan, "An improved data stream
//! summary", 2005): each access raises some counters of the key, and the least of them is the
//! estimate. It is too high if other keys share all of them. All counters of a key lie in one cache
//! line.

use cleavedb_base::sync::atomic::{AtomicU64, Ordering};

const WORDS: usize = 8;

/// Keys whose counters are loaded at once.
const AT_ONCE: usize = 16;

/// Bits of a counter, and its greatest value.
const COUNTER_BITS: u32 = 4;
const COUNTER_MAX: u64 = (1 << COUNTER_BITS) - 1;

/// Counters of a key, each in a part of its own of the block: its row.
const ROWS: usize = 4;

/// Bits of a hash that select a counter of a row, of two words.
const ROW_BITS: u32 = 5;

/// Counters of a word.
const PER_WORD: u32 = u64::BITS / COUNTER_BITS;

/// Keys of a block: 4 bytes a key.
const KEYS: usize = 16;

/// One cache line.
#[derive(Default)]
#[repr(align(64))]
struct SketchBlock([AtomicU64; WORDS]);

/// A counter of a block.
#[derive(Clone, Copy)]
struct SketchCounter {
    word: usize,
    /// The lowest of its bits in the word.
    bit: u32,
}

/// How often keys that are not hot were accessed lately (count-min sketch with 4-bit counters in
/// blocks of one cache line).
///
/// Estimates are at most 15, and no less than the number of accesses since the last
/// [`HeatSketch::halve`], but for accesses at the same moment.
pub struct HeatSketch {
    blocks: Box<[SketchBlock]>,
}

impl HeatSketch {
    /// For about `keys` keys that are accessed between two halvings; with more, estimates of rarely
    /// accessed keys come out too high. Takes 8 counters, 4 bytes, a key.
    pub fn new(keys: usize) -> Self {
        Self { blocks: (0..Self::blocks_for(keys)).map(|_| SketchBlock::default()).collect() }
    }

    /// Bytes of memory of a sketch for `keys` keys.
    pub(crate) fn memory_of(keys: usize) -> usize {
        size_of::<Self>() + Self::blocks_for(keys) * size_of::<SketchBlock>()
    }

    fn blocks_for(keys: usize) -> usize {
        keys.div_ceil(KEYS).clamp(1, u32::MAX as usize)
    }

    /// Counts an access to the key with this hash: raises those of its counters that are lowest
    /// (*conservative update*), since the others count accesses to other keys already. Of accesses
    /// to keys that share counters, at the same moment, one may be lost. Returns the new estimate.
    pub fn add(&self, hash: u64) -> u8 {
        let (block, counters) = self.counters_of(hash);
        let counts = counters.map(|counter| block.count(counter));
        let least = counts.into_iter().min().unwrap_or(0);
        let lowest = counters.into_iter().zip(counts).filter(|(_, count)| *count == least);
        lowest.for_each(|(counter, _)| block.raise(counter));
        (least + 1).min(COUNTER_MAX) as u8
    }

    /// As [`HeatSketch::add`] for some keys, each with its number of accesses; passes each new
    /// estimate to `visit`. The counters of several keys are loaded from memory at once.
    pub fn add_all(&self, keys: &[(u64, u64)], mut visit: impl FnMut(u8)) {
        for some in keys.chunks(AT_ONCE) {
            // The processor does not wait for one load before it begins the next.
            let loaded: u8 = some.iter().map(|(hash, _)| self.estimate(*hash)).fold(0, u8::max);
            std::hint::black_box(loaded);
            some.iter().for_each(|(hash, times)| {
                let times = 0..(*times).min(COUNTER_MAX);
                visit(times.fold(0, |_, _| self.add(*hash)));
            });
        }
    }

    /// Accesses to the key with this hash, at most 15.
    pub fn estimate(&self, hash: u64) -> u8 {
        let (block, counters) = self.counters_of(hash);
        let counts = counters.map(|counter| block.count(counter));
        counts.into_iter().min().unwrap_or(0) as u8
    }

    /// Halves all counts.
    pub fn halve(&self) {
        /// All bits of counters but the highest of each.
        const KEPT: u64 = u64::MAX / COUNTER_MAX * (COUNTER_MAX >> 1);
        for word in self.blocks.iter().flat_map(|block| &block.0) {
            // Always an `Ok`: there is a new value for each.
            let halved = |counts| Some(counts >> 1 & KEPT);
            let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, halved);
        }
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.blocks)
    }

    fn counters_of(&self, hash: u64) -> (&SketchBlock, [SketchCounter; ROWS]) {
        let block = ((hash >> 32) * self.blocks.len() as u64) >> 32;
        let counters = std::array::from_fn(|row| {
            let at = (hash >> (ROW_BITS * row as u32)) as u32 % (1 << ROW_BITS);
            let word = row * WORDS / ROWS + (at / PER_WORD) as usize;
            SketchCounter { word, bit: at % PER_WORD * COUNTER_BITS }
        });
        (&self.blocks[block as usize], counters)
    }
}

impl SketchBlock {
    fn count(&self, SketchCounter { word, bit }: SketchCounter) -> u64 {
        self.0[word].load(Ordering::Relaxed) >> bit & COUNTER_MAX
    }

    /// Adds 1 to a counter that is not at its greatest value.
    fn raise(&self, SketchCounter { word, bit }: SketchCounter) {
        let raised =
            |counts: u64| (counts >> bit & COUNTER_MAX < COUNTER_MAX).then(|| counts + (1 << bit));
        // An `Err` is a counter that stays.
        let _ = self.0[word].fetch_update(Ordering::Relaxed, Ordering::Relaxed, raised);
    }
}

#[cfg(test)]
mod tests;
