//! Storages for tests and measurements, which no product crate needs.
//!
//! [`Sim`] records every operation and enumerates the states a crash may leave, [`Faulty`] fails
//! chosen calls, and [`SimulatedDevice`] takes the time of another device; [`log`] begins a log in
//! any of them. Modules are listed bottom first; a module uses only those above it.

pub mod log;
pub mod sim;
pub mod modelled;
pub mod faulty;

pub use faulty::{Faulty, FaultyBackups, Unsynced};
pub use modelled::SimulatedDevice;
pub use sim::Sim;
