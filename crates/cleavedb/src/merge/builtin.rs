//! The merge operators that every database knows.

use std::sync::Arc;

use super::MergeOperator;

/// Names, as stored.
pub(super) const ADD: &str = "add";
pub(super) const APPEND: &str = "append";
pub(super) const MAX: &str = "max";

/// All of them.
pub(super) fn all() -> Vec<Arc<dyn MergeOperator>> {
    vec![Arc::new(Add), Arc::new(Append), Arc::new(Max)]
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

    fn combine(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.apply(key, Some(older), newer)
    }

    fn accepts(&self, operand: &[u8]) -> bool {
        number(operand).is_some()
    }
}

struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        APPEND
    }

    fn apply(&self, _: &[u8], value: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        Some([value.unwrap_or_default(), operand].concat())
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

    fn combine(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.apply(key, Some(older), newer)
    }
}
