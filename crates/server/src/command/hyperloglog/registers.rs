//! The registers of a HyperLogLog, in the format of Redis: a head, and the registers in one of two
//! forms.
//!
//! | bytes of the head | what |
//! | --- | --- |
//! | 4 | `HYLL` |
//! | 1 | the form: 0 dense, 1 sparse |
//! | 3 | nothing |
//! | 8, little-endian | the number of elements as of the last count; invalid with the highest bit |
//!
//! The dense form has 6 bits of each register, the lowest ones first. The sparse form has runs of
//! equal registers, in one or two bytes:
//!
//! | bits of a run | what |
//! | --- | --- |
//! | `00llllll` | `l` + 1 registers of 0 |
//! | `01llllll llllllll` | `l` + 1 registers of 0 |
//! | `1vvvvvll` | `l` + 1 registers of `v` + 1 |

/// Number of registers, and the bits of a hash that name one.
pub const REGISTERS: usize = 1 << REGISTER_BITS;
const REGISTER_BITS: u32 = 14;

/// Bits of a hash behind those, whose first zeros a register counts.
const COUNTED_BITS: u32 = 64 - REGISTER_BITS;

const HEAD_LEN: usize = 16;

/// Where the head has the form.
const FORM: usize = 4;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;

/// Where the head has the number of elements, and the bit of its last byte that says that it has
/// none.
const COUNT: std::ops::Range<usize> = 8..HEAD_LEN;
const IS_UNKNOWN: u8 = 0x80;

const DENSE_LEN: usize = HEAD_LEN + REGISTERS * 6 / 8;
const DENSE_MAX: u8 = 63;

/// Most bytes of the sparse form: `hll-sparse-max-bytes` of Redis.
const SPARSE_LEN_MAX: usize = 3000;
const SPARSE_MAX: u8 = 32;

/// Most registers of a run of zeros in one byte, and of other values.
const ZEROS_MAX: usize = 64;
const EQUAL_MAX: usize = 4;

/// Runs that are looked at for equal neighbours behind a change.
const MERGED_AMONG: usize = 5;

/// The registers have no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedSketch;

/// The values of all registers.
pub struct Registers(Box<[u8]>);

impl Default for Registers {
    fn default() -> Self {
        Self(vec![0; REGISTERS].into())
    }
}

impl Registers {
    /// Takes the greater one of each register.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own = (*own).max(*other));
    }

    /// The registers with their places.
    pub fn values(&self) -> impl Iterator<Item = (usize, u8)> {
        self.0.iter().copied().enumerate()
    }

    /// About how many elements there are, by Ertl's estimate (arXiv:1702.01284).
    pub fn count(&self) -> u64 {
        let mut histogram = [0_u32; DENSE_MAX as usize + 1];
        self.0.iter().for_each(|value| histogram[usize::from(value & DENSE_MAX)] += 1);
        let (all, of) = (REGISTERS as f64, |value: u32| f64::from(histogram[value as usize]));
        let mut sum = all * tau((all - of(COUNTED_BITS + 1)) / all);
        for value in (1..=COUNTED_BITS).rev() {
            sum = (sum + of(value)) * 0.5;
        }
        sum += all * sigma(of(0) / all);
        // Half of 1 / ln(2), with the digits that Redis has of it.
        let factor = 0.721_347_520_444_481_7;
        (factor * all * all / sum).round() as u64
    }
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * y;
        y += y;
        if sum == before {
            return sum;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        y *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * y;
        if sum == before {
            return sum / 3.0;
        }
    }
}

/// A run of equal registers of the sparse form.
struct RegisterRun {
    value: u8,
    registers: usize,
    bytes: usize,
}

impl RegisterRun {
    /// The run that begins at a place.
    fn at(bytes: &[u8], at: usize) -> Option<Self> {
        let first = *bytes.get(at)?;
        let low = usize::from(first & 0x3f);
        Some(match first >> 6 {
            0 => Self { value: 0, registers: low + 1, bytes: 1 },
            1 => {
                let registers = (low << 8 | usize::from(*bytes.get(at + 1)?)) + 1;
                Self { value: 0, registers, bytes: 2 }
            }
            _ => {
                let value = (first >> 2 & 0x1f) + 1;
                Self { value, registers: usize::from(first & 3) + 1, bytes: 1 }
            }
        })
    }
}

/// Appends a run to others, if it has registers.
fn push_run(value: u8, registers: usize, out: &mut Vec<u8>) {
    match (value, registers) {
        (_, 0) => {}
        (0, 1..=ZEROS_MAX) => out.push(registers as u8 - 1),
        (0, _) => {
            let [high, low] = (registers as u16 - 1).to_be_bytes();
            out.extend([high | 0x40, low]);
        }
        _ => out.push(0x80 | (value - 1) << 2 | (registers as u8 - 1)),
    }
}

/// A HyperLogLog as it is stored.
pub struct Sketch(Vec<u8>);

impl Default for Sketch {
    fn default() -> Self {
        let mut bytes = [&b"HYLL"[..], &[0; HEAD_LEN - 4]].concat();
        bytes[FORM] = SPARSE;
        push_run(0, REGISTERS, &mut bytes);
        Self(bytes)
    }
}

impl Sketch {
    /// The HyperLogLog of a string, if it looks like one.
    pub fn of(bytes: Vec<u8>) -> Option<Self> {
        let is_one = bytes.len() >= HEAD_LEN
            && bytes.starts_with(b"HYLL")
            && match bytes[FORM] {
                DENSE => bytes.len() == DENSE_LEN,
                form => form == SPARSE,
            };
        is_one.then_some(Self(bytes))
    }

    /// The string.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Whether all registers are written out.
    pub fn is_dense(&self) -> bool {
        self.0[FORM] == DENSE
    }

    /// The number of elements as of the last count, if none was added since.
    pub fn kept_count(&self) -> Option<u64> {
        let count = self.0[COUNT].try_into().map(u64::from_le_bytes).ok();
        count.filter(|_| self.0[COUNT.end - 1] & IS_UNKNOWN == 0)
    }

    /// Keeps a number of elements.
    pub fn keep_count(&mut self, count: u64) {
        self.0[COUNT].copy_from_slice(&count.to_le_bytes());
    }

    /// Says that the kept number of elements is not right any more.
    pub fn forget_count(&mut self) {
        self.0[COUNT.end - 1] |= IS_UNKNOWN;
    }

    /// The registers.
    pub fn registers(&self) -> Result<Registers, DamagedSketch> {
        let mut found = Registers::default();
        if self.is_dense() {
            (0..REGISTERS).for_each(|index| found.0[index] = self.dense(index));
            return Ok(found);
        }
        let (mut at, mut first) = (HEAD_LEN, 0);
        while at < self.0.len() {
            let run = RegisterRun::at(&self.0, at).ok_or(DamagedSketch)?;
            let end = first + run.registers;
            found.0.get_mut(first..end).ok_or(DamagedSketch)?.fill(run.value);
            (at, first) = (at + run.bytes, end);
        }
        if first == REGISTERS { Ok(found) } else { Err(DamagedSketch) }
    }

    /// Adds an element; whether a register has changed.
    pub fn add(&mut self, element: &[u8]) -> Result<bool, DamagedSketch> {
        let hash = murmur(element);
        let index = hash as usize % REGISTERS;
        let zeros = (hash >> REGISTER_BITS | 1 << COUNTED_BITS).trailing_zeros();
        self.raise(index, zeros as u8 + 1)
    }

    /// Gives a register at least a value; whether it had less.
    pub fn raise(&mut self, index: usize, value: u8) -> Result<bool, DamagedSketch> {
        if self.is_dense() {
            return Ok(self.raise_dense(index, value));
        }
        let has_changed = match value {
            ..=SPARSE_MAX => self.raise_sparse(index, value)?,
            _ => None,
        };
        match has_changed {
            Some(has_changed) => Ok(has_changed),
            None => {
                self.make_dense()?;
                Ok(self.raise_dense(index, value))
            }
        }
    }

    /// Writes all registers out.
    pub fn make_dense(&mut self) -> Result<(), DamagedSketch> {
        if !self.is_dense() {
            let registers = self.registers()?;
            self.0.truncate(HEAD_LEN);
            self.0.resize(DENSE_LEN, 0);
            self.0[FORM] = DENSE;
            registers.values().for_each(|(index, value)| _ = self.raise_dense(index, value));
        }
        Ok(())
    }

    fn dense(&self, index: usize) -> u8 {
        let (byte, shift) = (HEAD_LEN + index * 6 / 8, index * 6 % 8);
        let next = self.0.get(byte + 1).copied().unwrap_or_default();
        (u16::from_le_bytes([self.0[byte], next]) >> shift) as u8 & DENSE_MAX
    }

    fn raise_dense(&mut self, index: usize, value: u8) -> bool {
        if self.dense(index) >= value {
            return false;
        }
        let (byte, shift) = (HEAD_LEN + index * 6 / 8, index * 6 % 8);
        let places = self.0[byte..].iter_mut().take(2);
        let masks = (u16::from(DENSE_MAX) << shift).to_le_bytes();
        let bits = (u16::from(value) << shift).to_le_bytes();
        for ((byte, mask), bits) in places.zip(masks).zip(bits) {
            *byte = *byte & !mask | bits;
        }
        true
    }

    /// As [`Self::raise`], in the sparse form; nothing if there is no room for it.
    fn raise_sparse(&mut self, index: usize, value: u8) -> Result<Option<bool>, DamagedSketch> {
        let (mut before, mut at, mut first) = (HEAD_LEN, HEAD_LEN, 0);
        let run = loop {
            let run = RegisterRun::at(&self.0, at).ok_or(DamagedSketch)?;
            if index < first + run.registers {
                break run;
            }
            (before, at, first) = (at, at + run.bytes, first + run.registers);
        };
        if run.value >= value {
            return Ok(Some(false));
        }
        let mut runs = Vec::new();
        push_run(run.value, index - first, &mut runs);
        push_run(value, 1, &mut runs);
        push_run(run.value, first + run.registers - 1 - index, &mut runs);
        if runs.len() > run.bytes && self.0.len() + runs.len() - run.bytes > SPARSE_LEN_MAX {
            return Ok(None);
        }
        self.0.splice(at..at + run.bytes, runs);
        self.merge_runs(before);
        self.forget_count();
        Ok(Some(true))
    }

    /// Makes one run of equal ones, from a place on.
    fn merge_runs(&mut self, mut at: usize) {
        for _ in 0..MERGED_AMONG {
            let Some(run) = RegisterRun::at(&self.0, at) else { return };
            match RegisterRun::at(&self.0, at + run.bytes) {
                Some(next)
                    if run.value > 0
                        && run.value == next.value
                        && run.registers + next.registers <= EQUAL_MAX =>
                {
                    self.0.remove(at);
                    self.0[at] += run.registers as u8;
                }
                _ => at += run.bytes,
            }
        }
    }
}

/// The hash of an element: MurmurHash64A, with the seed of Redis.
fn murmur(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mut hash = 0xadc8_3b19 ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(FACTOR);
        word ^= word >> SHIFT;
        hash = (hash ^ word.wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(FACTOR);
    }
    hash ^= hash >> SHIFT;
    hash = hash.wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_forms_have_equal_registers() {
        let mut rng = Rng::with_seed(7);
        let (mut sparse, mut dense) = (Sketch::default(), Sketch::default());
        dense.make_dense().unwrap();
        let mut longest = 0;
        for _ in 0..5000 {
            let element = rng.u64(..).to_le_bytes();
            assert_eq!(sparse.add(&element), dense.add(&element));
            let [one, other] = [&sparse, &dense].map(|it| it.registers().unwrap());
            assert!(one.0 == other.0);
            longest = if sparse.is_dense() { longest } else { sparse.0.len() };
        }
        assert!(sparse.is_dense() && (SPARSE_LEN_MAX - 4..=SPARSE_LEN_MAX).contains(&longest));
        assert!((4800..5200).contains(&sparse.registers().unwrap().count()));
    }

    proptest! {
        #[test]
        fn damaged_bytes_are_an_error_and_no_more(
            form in 0..3_u8,
            bytes in proptest::collection::vec(any::<u8>(), 0..600),
            elements in proptest::collection::vec(any::<[u8; 3]>(), 0..9),
        ) {
            let bytes = [b"HYLL", &[form, 0, 0, 0][..], &[0; 8], &bytes].concat();
            if let Some(mut sketch) = Sketch::of(bytes) {
                _ = sketch.registers().map(|registers| registers.count());
                elements.iter().for_each(|element| _ = sketch.add(element));
                _ = sketch.make_dense();
            }
        }
    }
}
