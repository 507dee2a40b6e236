//! The names of durability modes on the command line.

use clap::ValueEnum;
use cleavedb::Durability;

/// Names of [`Durability`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DurabilityName {
    /// In memory: nothing
    Buffered,
    /// Handed to the operating system: the death of the process
    Os,
    /// Synced: power loss
    Sync,
}

impl From<DurabilityName> for Durability {
    fn from(name: DurabilityName) -> Self {
        match name {
            DurabilityName::Buffered => Self::Buffered,
            DurabilityName::Os => Self::Os,
            DurabilityName::Sync => Self::Sync,
        }
    }
}
