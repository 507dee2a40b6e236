//! Merges in tests: operands of an operator that can combine them and of one that cannot, both of
//! which tell in which order, and how often, they were applied.

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
    match operand.operator() {
        "append" => [value.unwrap_or_default(), operand.bytes()].concat(),
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
