//! Chains of operands that have become long: writes of operands put their values anew.

use cleavedb_base::checksum::hash64;
use cleavedb_base::{Error, ErrorKind, Result};

use super::Db;
use crate::background::operand_chains::chain_in_memory;
use crate::engine::Engine;
use crate::operations::catalog::KeyspaceRef;
use crate::reads::read::operands;
use crate::settings::merge::OPERANDS_COUNTED;
use crate::settings::time::Lifetime;

impl Db {
    /// Puts the values of keys that were noted because they have many operands: a fair part of them
    /// for a commit of `operations` operations.
    #[inline]
    pub(crate) fn shorten_chains(&self, engine: &Engine, operations: usize) -> Result<()> {
        for _ in 0..=operations / OPERANDS_COUNTED {
            let Some(noted) = engine.merges.long_chains.take() else { return Ok(()) };
            self.shorten_chain(engine, &noted)?;
        }
        Ok(())
    }

    #[cold]
    fn shorten_chain(&self, engine: &Engine, encoded_key: &[u8]) -> Result<()> {
        let visible = engine.commit.visible();
        let done = self.write_anew(engine, encoded_key);
        if done.as_ref().is_ok_and(|written| *written) {
            return Ok(());
        }
        let hash = hash64(encoded_key, 0);
        let chain = chain_in_memory(engine, encoded_key, hash);
        engine.merges.long_chains.failed(hash, visible, chain);
        // The operand itself is written; the next write meets what is wrong, and reports it.
        let is_passing = |e: &Error| e.kind() != ErrorKind::Closed;
        done.map(drop).or_else(|e| if is_passing(&e) { Ok(()) } else { Err(e) })
    }

    /// Puts the value of a tree key of any keyspace, unless it changes meanwhile, or is too long
    /// for its operands. Returns whether it did.
    fn write_anew(&self, engine: &Engine, encoded_key: &[u8]) -> Result<bool> {
        let Some((keyspace, key)) = engine.catalog.find(encoded_key) else { return Ok(false) };
        let mut transaction = self.transaction()?;
        let mut within = transaction.keyspace(KeyspaceRef(keyspace));
        let (chain, below) = operands::chain(engine, encoded_key, within.read_point()?)?;
        if !chain.outweighs(below.value) {
            return Ok(false);
        }
        let Some(value) = within.get(key)? else { return Ok(false) };
        // The value of a blob is longer than its record.
        if !chain.outweighs(value.len()) {
            return Ok(false);
        }
        within.put_living(key, &value, Lifetime::Until(below.until))?;
        transaction.commit()?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
