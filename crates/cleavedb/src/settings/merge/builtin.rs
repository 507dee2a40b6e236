//! The merge operators that every database knows.

use std::sync::Arc;

use super::MergeOperator;

/// Names, as stored.
pub(super) const ADD: &str = "add";
pub(super) const APPEND: &str = "append";
pub(super) const MAX: &str = "max";

/// All of them.
pub(super) fn all() -> Vec<Arc<dyn MergeOperator>> {
    vec![Arc::new(Add), Arc::new(Concat), Arc::new(Max)]
}

/// Adds whole numbers, as decimal text. Sums wrap round: otherwise the result would depend on which
/// of them a job has added up before.
struct Add;

fn number(text: &[u8]) -> Option<i64> {
    str::from_utf8(text).ok()?.parse().ok()
}

impl MergeOperator for Add {
    fn name(&self) -> &str {
        ADD
    }

    fn apply(&self, _: &[u8], value: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        let before = value.map_or(Some(0), number)?;
        Some(before.wrapping_add(number(operand)?).to_string().into_bytes())
    }

    fn apply_all(&self, _: &[u8], value: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let before = value.map_or(Some(0), number)?;
        let sum = operands
            .iter()
            .try_fold(before, |sum: i64, operand| Some(sum.wrapping_add(number(operand)?)));
        Some(sum?.to_string().into_bytes())
    }

    fn combine(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.apply(key, Some(older), newer)
    }

    fn accepts(&self, operand: &[u8]) -> bool {
        number(operand).is_some()
    }
}

struct Concat;

impl MergeOperator for Concat {
    fn name(&self) -> &str {
        APPEND
    }

    fn apply(&self, _: &[u8], value: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        Some([value.unwrap_or_default(), operand].concat())
    }

    fn apply_all(&self, _: &[u8], value: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let len = operands.iter().map(|operand| operand.len()).sum::<usize>();
        let mut made = Vec::with_capacity(value.map_or(0, <[u8]>::len).saturating_add(len));
        made.extend_from_slice(value.unwrap_or_default());
        operands.iter().for_each(|operand| made.extend_from_slice(operand));
        Some(made)
    }

    fn combine(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.apply(key, Some(older), newer)
    }
}

struct Max;

impl MergeOperator for Max {
    fn name(&self) -> &str {
        MAX
    }

    fn apply(&self, _: &[u8], value: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        Some(value.map_or(operand, |value| value.max(operand)).to_vec())
    }

    fn apply_all(&self, _: &[u8], value: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        operands.iter().copied().chain(value).max().map(<[u8]>::to_vec)
    }

    fn combine(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.apply(key, Some(older), newer)
    }
}
