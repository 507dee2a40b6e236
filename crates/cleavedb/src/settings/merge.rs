//! Merges: changes of values that are written without a read, and the operators that apply them.
//!
//! A merge writes an *operand* and the name of its operator under a key. What is there then is what
//! the operator makes of the value before it and of the operand: reads compute that, and flushes
//! and compactions replace operands by fewer ones, or by the value. Where that cannot be done,
//! since the value lies outside the index, or not soon, since none is due, merges write the value
//! anew (decision 0048).

mod builtin;
mod long_chains;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use cleavedb_base::key::split_encoded_key;
use cleavedb_base::limits::{OPERAND_LEN_MAX, OPERATOR_NAME_MAX, VALUE_LEN_MAX};
use cleavedb_base::sync::RwLock;
use cleavedb_base::{Error, ErrorKind, Result, StoredOperand};
use cleavedb_index::MergeRule;

use self::long_chains::LongChains;
pub(crate) use self::long_chains::{ChainLength, OPERANDS_COUNTED};

/// What a merge does to a value: see [`crate::Keyspace::merge`].
///
/// Calls come from readers and from background threads, for the same operands any number of times,
/// so the result must depend on nothing but the arguments, and none may panic.
pub trait MergeOperator: Send + Sync {
    /// The name of the operator, of 1 to 64 bytes, which is stored with each operand: an open that
    /// does not know the name cannot read the keys that have such operands. It must never mean
    /// anything else.
    fn name(&self) -> &str;

    /// The value of `key` after `operand`; `value` is the one before, if there is one. `None` if
    /// the operand cannot be applied to it: reads of the key then fail with [`ErrorKind::Merge`]
    /// until it is put or deleted, and nothing is lost:
    /// [`crate::Keyspace::get_below_failed_merge`] returns that value.
    fn apply(&self, key: &[u8], value: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>>;

    /// One operand that does what `older` and then `newer` do, whatever the value before; `None` if
    /// there is none. Without it all operands are kept until they meet the value. Default: `None`.
    fn combine(&self, _key: &[u8], _older: &[u8], _newer: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// The value of `key` after `operands`, the oldest first; there is at least one. `None` as for
    /// [`MergeOperator::apply`], which makes the same of them one by one. Worth code of its own
    /// where that costs less: a read applies all at once. Default: neighbours are combined, as far
    /// as they can be, and then applied.
    fn apply_all(&self, key: &[u8], value: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let mut made: Option<Vec<u8>> = None;
        for operand in combined(self, key, operands) {
            made = Some(self.apply(key, made.as_deref().or(value), &operand)?);
        }
        made
    }

    /// Whether an operand is well-formed: others are refused when they are written. Default: all
    /// are.
    fn accepts(&self, _operand: &[u8]) -> bool {
        true
    }
}

/// An operand of a merge and the operator that applies it.
///
/// Three operators are always there. [`Operand::add`] adds to a whole number that is stored as
/// decimal text, [`Operand::append`] appends to a value, and [`Operand::max`] keeps the greater of
/// two values in the order of their bytes. [`Operand::new`] names any other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operand {
    operator: String,
    bytes: Vec<u8>,
}

impl Operand {
    /// An operand of the operator of this name.
    pub fn new(operator: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { operator: operator.into(), bytes: bytes.into() }
    }

    /// Adds to a whole number, of 64 bits with a sign, that is stored as decimal text; a key that
    /// is not there counts as 0. A sum beyond the ends wraps round.
    pub fn add(number: i64) -> Self {
        Self::new(builtin::ADD, number.to_string())
    }

    /// Appends to the value; to nothing, if the key is not there.
    pub fn append(bytes: impl Into<Vec<u8>>) -> Self {
        Self::new(builtin::APPEND, bytes)
    }

    /// Replaces the value, if it is greater than that in the order of bytes, or if the key is not
    /// there.
    pub fn max(bytes: impl Into<Vec<u8>>) -> Self {
        Self::new(builtin::MAX, bytes)
    }

    /// The name of its operator.
    pub fn operator(&self) -> &str {
        &self.operator
    }

    /// What the operator applies.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// As it is stored. Fails if it is too long.
    pub(crate) fn stored(&self) -> Result<Vec<u8>> {
        if !(1..=OPERATOR_NAME_MAX).contains(&self.operator.len()) {
            let what = "the name of a merge operator has 1 to 64 bytes";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let stored = StoredOperand { operator: &self.operator, operand: &self.bytes }.encode();
        if stored.len() > OPERAND_LEN_MAX {
            let what = "an operand of a merge, with the name of its operator, is longer than \
                        64 KiB; use an update, or several merges";
            return Err(Error::new(ErrorKind::InvalidArgument, what).with("bytes", stored.len()));
        }
        Ok(stored)
    }
}

/// The merge operators that an open database knows, by their names. The default ones are those of
/// [`Operand::add`], [`Operand::append`] and [`Operand::max`].
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use cleavedb::{Db, MergeOperator, MergeOperators, Operand, Options};
///
/// /// Keeps the last bytes of what is appended, 16 of them.
/// struct Tail;
///
/// impl MergeOperator for Tail {
///     fn name(&self) -> &str {
///         "tail"
///     }
///
///     fn apply(&self, _: &[u8], value: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
///         let all = [value.unwrap_or_default(), operand].concat();
///         Some(all[all.len().saturating_sub(16)..].to_vec())
///     }
///
///     fn combine(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
///         self.apply(key, Some(older), newer)
///     }
/// }
///
/// let merge_operators = MergeOperators::default().with(Tail);
/// let db = Db::open(dir.path().join("db"), Options { merge_operators, ..Options::default() })?;
/// db.merge("log", &Operand::new("tail", "the first words, "))?;
/// db.merge("log", &Operand::new("tail", "the last words"))?;
/// assert_eq!(db.get("log")?.unwrap(), ", the last words");
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Clone)]
pub struct MergeOperators(Vec<Arc<dyn MergeOperator>>);

impl Default for MergeOperators {
    fn default() -> Self {
        Self(builtin::all())
    }
}

impl fmt::Debug for MergeOperators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|it| it.name())).finish()
    }
}

impl MergeOperators {
    /// The operators so far and `operator`. An open with two of one name fails with
    /// [`ErrorKind::InvalidOptions`].
    #[must_use]
    pub fn with(mut self, operator: impl MergeOperator + 'static) -> Self {
        self.0.push(Arc::new(operator));
        self
    }

    /// None at all: operands stay as they are.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// What is wrong with them.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let names: Vec<&str> = self.0.iter().map(|it| it.name()).collect();
        if names.iter().any(|name| !(1..=OPERATOR_NAME_MAX).contains(&name.len())) {
            return Some("the name of a merge operator must have 1 to 64 bytes");
        }
        let twice = |at: usize| names[..at].contains(&names[at]);
        (0..names.len()).any(twice).then_some("two merge operators must not have the same name")
    }

    fn find(&self, name: &str) -> Option<&dyn MergeOperator> {
        self.0.iter().map(|it| &**it).find(|it| it.name() == name)
    }

    fn known(&self, name: &str) -> Result<&dyn MergeOperator> {
        self.find(name).ok_or_else(|| {
            let what = "this open does not know a merge operator; give it to \
                        Options::merge_operators";
            Error::new(ErrorKind::Merge, what).with("operator", name)
        })
    }

    /// Fails unless the operator of a stored operand is known and accepts it.
    pub(crate) fn check_stored(&self, stored: &[u8]) -> Result<()> {
        let StoredOperand { operator, operand } = StoredOperand::decode(stored)?;
        if self.known(operator)?.accepts(operand) {
            return Ok(());
        }
        let what = "the merge operator does not accept the operand";
        Err(Error::new(ErrorKind::InvalidArgument, what).with("operator", operator))
    }

    /// The value of the tree key `encoded_key` after stored operands, the newest first, where
    /// `value` was before them.
    pub(crate) fn value(
        &self,
        encoded_key: &[u8],
        value: Option<&[u8]>,
        operands: &[impl AsRef<[u8]>],
    ) -> Result<Vec<u8>> {
        let key = user_key(encoded_key);
        let decoded = operands.iter().rev().map(|stored| StoredOperand::decode(stored.as_ref()));
        let decoded: Vec<StoredOperand<'_>> = decoded.collect::<Result<_>>()?;
        let mut made: Option<Vec<u8>> = None;
        for of_one in decoded.chunk_by(|older, newer| older.operator == newer.operator) {
            let operator = of_one[0].operator;
            let operands: Vec<&[u8]> = of_one.iter().map(|it| it.operand).collect();
            let before = made.as_deref().or(value);
            let after = self.known(operator)?.apply_all(key, before, &operands);
            let after = after.filter(|value| value.len() <= VALUE_LEN_MAX);
            made = Some(after.ok_or_else(|| cannot_apply(operator, key))?);
        }
        Ok(made.unwrap_or_default())
    }

    /// The value of the tree key `encoded_key` below the first of the stored operands, the newest
    /// first, that cannot be applied, where `value` was before them; `None` if none was there.
    pub(crate) fn value_below(
        &self,
        encoded_key: &[u8],
        value: Option<&[u8]>,
        operands: &[impl AsRef<[u8]>],
    ) -> Result<Option<Vec<u8>>> {
        let mut made = value.map(<[u8]>::to_vec);
        for stored in operands.iter().rev() {
            let StoredOperand { operator, operand } = StoredOperand::decode(stored.as_ref())?;
            let apply = |operator: &dyn MergeOperator| {
                operator.apply(user_key(encoded_key), made.as_deref(), operand)
            };
            let after = self.find(operator).and_then(apply);
            let Some(after) = after.filter(|value| value.len() <= VALUE_LEN_MAX) else { break };
            made = Some(after);
        }
        Ok(made)
    }
}

/// Operands of an operator, the oldest first, after neighbours were combined that can be: so what
/// they append is not copied as often as there are operands.
fn combined<'o>(
    operator: &(impl MergeOperator + ?Sized),
    key: &[u8],
    operands: &[&'o [u8]],
) -> Vec<Cow<'o, [u8]>> {
    let mut all: Vec<Cow<'o, [u8]>> = Vec::new();
    for operand in operands {
        let joined = all.last().and_then(|last| operator.combine(key, last, operand));
        match (joined, all.last_mut()) {
            (Some(joined), Some(last)) => *last = joined.into(),
            _ => all.push(Cow::Borrowed(operand)),
        }
    }
    all
}

#[cold]
fn cannot_apply(operator: &str, key: &[u8]) -> Error {
    let what = "a merge operator cannot apply an operand to the value of the key; \
                `cleave get --below KEY` shows the value below it, and a put or a delete of the \
                key mends it";
    let key = key.escape_ascii().to_string();
    Error::new(ErrorKind::Merge, what).with("operator", operator).with("key", key)
}

/// The key of a user in a tree key.
fn user_key(encoded_key: &[u8]) -> &[u8] {
    split_encoded_key(encoded_key).map_or(&[], |(_, key)| key)
}

/// What an open database has for merges.
pub(crate) struct Merges {
    /// How jobs treat operands.
    pub(crate) rule: Arc<JobRule>,
    /// Keys that the next merges write anew.
    pub(crate) long_chains: LongChains,
    /// Shared by merges that read; one that would never come to its end has it alone.
    pub(crate) turn: RwLock<()>,
}

impl Merges {
    /// Jobs make no values of operands that are longer than `value_max` bytes.
    pub(crate) fn new(operators: &MergeOperators, value_max: usize) -> Self {
        let rule = JobRule { operators: operators.clone(), value_max };
        Self { rule: Arc::new(rule), long_chains: LongChains::default(), turn: RwLock::new(()) }
    }

    pub(crate) fn operators(&self) -> &MergeOperators {
        &self.rule.operators
    }
}

/// How jobs combine and apply operands.
pub(crate) struct JobRule {
    operators: MergeOperators,
    /// Longest value that may lie in the index, in bytes.
    value_max: usize,
}

impl MergeRule for JobRule {
    fn combine(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let (older, newer) =
            (StoredOperand::decode(older).ok()?, StoredOperand::decode(newer).ok()?);
        let operator = self.operators.find(older.operator)?;
        if older.operator != newer.operator {
            return None;
        }
        let operand = operator.combine(user_key(key), older.operand, newer.operand)?;
        let stored = StoredOperand { operator: older.operator, operand: &operand }.encode();
        (stored.len() <= OPERAND_LEN_MAX).then_some(stored)
    }

    fn apply(&self, key: &[u8], value: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        let StoredOperand { operator, operand } = StoredOperand::decode(operand).ok()?;
        let made = self.operators.find(operator)?.apply(user_key(key), value, operand)?;
        (made.len() <= self.value_max).then_some(made)
    }
}

#[cfg(test)]
mod tests;
