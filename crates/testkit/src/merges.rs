//! Merges in tests: operands of operators that can combine them and of one that cannot. `append`
//! and [`Plait`] tell in which order, and how often, they were applied.

use cleavedb::{MergeOperator, Operand};
use cleavedb_storage_sim::sim::Rng;

/// Longest value that [`Plait`] makes of a longer one, in bytes.
const PLAIT_MAX: usize = 3000;

/// An operator that cannot combine operands: the value is shortened, and each of its bytes changed
/// by the operand, which is appended.
pub struct Plait;

impl MergeOperator for Plait {
    fn name(&self) -> &str {
        "plait"
    }

    fn apply(&self, _: &[u8], value: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        let value = value.unwrap_or_default();
        let kept = &value[value.len().saturating_sub(PLAIT_MAX)..];
        let by = operand.first().map_or(1, |byte| byte | 1);
        let changed = kept.iter().map(|byte| byte.rotate_left(1) ^ by);
        Some(changed.chain(operand.iter().copied()).collect())
    }
}

/// The value that `operand` makes of a value.
pub fn apply(value: Option<&[u8]>, operand: &Operand) -> Vec<u8> {
    let number = |text: &[u8]| -> i64 {
        std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).expect("a counter")
    };
    match operand.operator() {
        "append" => [value.unwrap_or_default(), operand.bytes()].concat(),
        "max" => value.map_or(operand.bytes(), |value| value.max(operand.bytes())).to_vec(),
        "add" => {
            let sum = value.map_or(0, number).wrapping_add(number(operand.bytes()));
            sum.to_string().into_bytes()
        }
        _ => Plait.apply(b"", value, operand.bytes()).unwrap_or_default(),
    }
}

/// An operand that contains the number of its write.
pub fn draw(rng: &mut Rng, write: u64) -> Operand {
    let len = [8, 8, 8, 9, 40, 700][rng.index(6)];
    let mut bytes = vec![write as u8; len];
    bytes[..8].copy_from_slice(&write.to_le_bytes());
    if rng.chance(60) { Operand::append(bytes) } else { Operand::new("plait", bytes) }
}

/// Whether a key has numbers as text, to which numbers are added.
pub fn is_counter(key: &[u8]) -> bool {
    key.first() == Some(&b'#')
}

/// An operand of any operator that fits the key.
pub fn draw_any(rng: &mut Rng, key: &[u8], write: u64) -> Operand {
    if is_counter(key) {
        return Operand::add(write as i64);
    }
    let operand = draw(rng, write);
    if rng.chance(25) { Operand::max(operand.bytes()) } else { operand }
}
