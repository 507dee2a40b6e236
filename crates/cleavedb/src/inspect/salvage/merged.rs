//! The values of keys that merges have changed, from what was found below their operands.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleavedb_base::key::split_encoded_key;
use cleavedb_base::{Lasting, Result};

use super::VisitEncoded;
use crate::settings::merge::MergeOperators;
use crate::settings::time::{SystemClock, Time};

/// Keys that merges have changed.
#[derive(Default)]
pub(super) struct MergedKeys {
    operators: MergeOperators,
    /// The operands of each tree key, newest first.
    operands: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    /// Keys with an operand that cannot be applied to the value below it, which was handed out.
    below: Vec<Vec<u8>>,
    /// Keys with such an operand and no value below it.
    unmade: Vec<Vec<u8>>,
}

impl MergedKeys {
    pub(super) fn new(operators: MergeOperators) -> Self {
        Self { operators, ..Self::default() }
    }

    /// Adds a key with its operands, newest first, if it has some.
    pub(super) fn add(&mut self, encoded_key: Vec<u8>, operands: Vec<Vec<u8>>) {
        if !operands.is_empty() {
            self.operands.insert(encoded_key, operands);
        }
    }

    /// Takes back a key whose value is lost.
    pub(super) fn forget(&mut self, encoded_key: &[u8]) {
        self.operands.remove(encoded_key);
    }

    /// Keys of which the value below an operand was handed out, and those of which none could be.
    pub(super) fn failed(self) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        (self.below, self.unmade)
    }

    /// Hands a value out after the operands of its key, if it has some.
    pub(super) fn visit(
        &mut self,
        encoded_key: &[u8],
        value: Lasting<&[u8]>,
        visit: &mut VisitEncoded<'_>,
    ) -> Result<()> {
        let Some(operands) = self.operands.remove(encoded_key) else {
            return visit(encoded_key, value);
        };
        let is_there = value.is_there(|| Time::new(Arc::new(SystemClock)).millis());
        let value = Some(value.value).filter(|_| is_there);
        self.visit_made(encoded_key, value, &operands, visit).map(drop)
    }

    /// Hands out the keys that have nothing but operands; returns their number.
    pub(super) fn visit_rest(&mut self, visit: &mut VisitEncoded<'_>) -> Result<u64> {
        let mut made = 0;
        for (key, operands) in std::mem::take(&mut self.operands) {
            made += u64::from(self.visit_made(&key, None, &operands, visit)?);
        }
        Ok(made)
    }

    fn visit_made(
        &mut self,
        encoded_key: &[u8],
        value: Option<&[u8]>,
        operands: &[Vec<u8>],
        visit: &mut VisitEncoded<'_>,
    ) -> Result<bool> {
        let made = self.operators.value(encoded_key, value, operands);
        match made {
            Ok(made) => visit(encoded_key, Lasting::for_good(&made)).map(|()| true),
            Err(_) => {
                let key = split_encoded_key(encoded_key).map_or(&[][..], |(_, key)| key).to_vec();
                let below = self.operators.value_below(encoded_key, value, operands)?;
                let Some(below) = below else {
                    self.unmade.push(key);
                    return Ok(false);
                };
                self.below.push(key);
                visit(encoded_key, Lasting::for_good(&below)).map(|()| true)
            }
        }
    }
}
