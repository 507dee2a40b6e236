//! What the machine says about a run: processor, memory, bytes moved, space taken.
//!
//! Linux only, through `/proc`, `/sys` and `getrusage`. A number that the system does not give is
//! `None`, never zero.

pub mod usage;
pub mod caches;
pub mod eviction;
pub mod device;
pub mod disk;
pub mod machine;
pub mod memory_limit;
pub mod process;

pub use caches::{available_memory, drop_caches, fetch_files, sync_file_system};
pub use device::{Device, DeviceBytes};
pub use disk::DiskLimits;
pub use eviction::Eviction;
pub use memory_limit::MemoryLimit;
pub use process::{Cpu, ProcessBytes};
pub use usage::Usage;
