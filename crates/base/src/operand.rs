//! StoredOperand: a change of a value, as a merge writes it, and the operator that applies it.
//!
//! The name of the operator stands in front of the operand, in its record and in its index entry
//! (`docs/format.md`, "Record"): so the data says how it is to be read, and one key may be changed
//! by several operators.

use crate::error::{Error, Result};
use crate::limits::OPERATOR_NAME_MAX;

/// An operand and the name of its operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredOperand<'a> {
    /// The name, of 1 to [`OPERATOR_NAME_MAX`] bytes.
    pub operator: &'a str,
    /// What the operator applies.
    pub operand: &'a [u8],
}

impl<'a> StoredOperand<'a> {
    /// The encoding of the operand: length of the name, name, operand.
    pub fn encode(self) -> Vec<u8> {
        debug_assert!((1..=OPERATOR_NAME_MAX).contains(&self.operator.len()));
        let mut out = Vec::with_capacity(1 + self.operator.len() + self.operand.len());
        out.push(self.operator.len() as u8);
        out.extend_from_slice(self.operator.as_bytes());
        out.extend_from_slice(self.operand);
        out
    }

    /// Reads its encoding.
    pub fn decode(stored: &'a [u8]) -> Result<Self> {
        let parts = || {
            let (len, rest) = stored.split_first()?;
            let (operator, operand) = rest.split_at_checked(usize::from(*len))?;
            let operator = str::from_utf8(operator).ok()?;
            (1..=OPERATOR_NAME_MAX).contains(&operator.len()).then_some(Self { operator, operand })
        };
        parts().ok_or_else(|| Error::corruption("an operand does not name its operator"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_round_trip_and_bad_ones_are_refused() {
        for operand in [&b""[..], b"5", &[0xff; 300]] {
            let stored = StoredOperand { operator: "add", operand };
            assert_eq!(StoredOperand::decode(&stored.encode()).unwrap(), stored);
        }
        let long = [&[65][..], &[b'x'; 65]].concat();
        for bad in [&b""[..], b"\0add", b"\x04add", b"\x01\xff", &long] {
            assert!(StoredOperand::decode(bad).is_err(), "{bad:?}");
        }
    }
}
