//! Operands of merges that were found, and the values of keys that they have changed, from what
//! was found below them.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleavedb_base::key::split_encoded_key;
use cleavedb_base::{Lasting, Result, SeqNo};

use super::VisitEncoded;
use crate::settings::merge::MergeOperators;
use crate::settings::time::{SystemClock, Time};

/// Stored operands of a key, by their sequence numbers.
#[derive(Default)]
pub(super) struct FoundMerges {
    by_seq: BTreeMap<SeqNo, Vec<u8>>,
    /// The newest operand in a table. Older ones in records are in tables, too: there they may
    /// have been combined.
    in_tables: SeqNo,
}

impl FoundMerges {
    /// Adds that of an entry of a table; tables come from the youngest place to the oldest. What a
    /// younger place has repeated may lie combined in an older one.
    pub(super) fn add_of_table(&mut self, seq: SeqNo, stored: &[u8]) {
        let oldest = self.by_seq.first_key_value();
        if oldest.is_none_or(|(oldest, _)| seq < *oldest) {
            self.by_seq.insert(seq, stored.to_vec());
            self.in_tables = self.in_tables.max(seq);
        }
    }

    /// Adds that of a record, when all tables were read.
    pub(super) fn add_of_record(&mut self, seq: SeqNo, stored: &[u8]) {
        if seq > self.in_tables {
            self.by_seq.insert(seq, stored.to_vec());
        }
    }

    /// Keeps those for which `keeps` holds.
    pub(super) fn retain(&mut self, keeps: impl Fn(SeqNo) -> bool) {
        self.by_seq.retain(|seq, _| keeps(*seq));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_seq.is_empty()
    }

    /// Operands above the version `seq`, newest first.
    fn above(mut self, seq: SeqNo) -> Vec<Vec<u8>> {
        self.by_seq.split_off(&(seq + 1)).into_values().rev().collect()
    }
}

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

    /// Adds a key with what was found above its version `seq`. Returns whether it has some.
    pub(super) fn add(&mut self, encoded_key: &[u8], found: FoundMerges, seq: SeqNo) -> bool {
        let operands = found.above(seq);
        let is_merged = !operands.is_empty();
        if is_merged {
            self.operands.insert(encoded_key.to_vec(), operands);
        }
        is_merged
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
