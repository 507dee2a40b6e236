//! The disk: the only crate of CleaveDB that knows files exist.
//!
//! [`api`] is the trait that everything above goes through; [`Disk`] is the real one, [`Sim`]
//! records every operation and enumerates the states a crash may leave, [`Faulty`] fails chosen
//! calls, [`Placed`] spreads classes of files over several directories, [`Limited`] bounds what
//! they take together, [`Reserving`] has some space left when the disk is full, and [`Modelled`]
//! takes the time of another device. On top of the trait stand the log and the segments. Modules
//! are listed bottom first; a module uses only those above it.

pub mod process;
pub mod prefetch;
pub mod pages;
pub mod name;
pub mod class;
mod window_header;
mod mapping;
mod memory;
pub mod api;
mod left_window;
pub mod window;
pub mod reaper;
pub mod niceness;
pub mod aligned;
pub mod log;
pub mod segment;
pub mod disk;
pub mod placed;
pub mod limited;
pub mod reserve;
pub mod modelled;
pub mod sim;
pub mod faulty;

#[cfg(all(test, feature = "loom"))]
mod loom_tests;

pub use api::{Access, File, Lock, Mode, Pace, Storage};
pub use class::FileClass;
pub use disk::lock::{DirLock, Holder};
pub use disk::{Disk, open_files};
pub use faulty::Faulty;
pub use left_window::{FoundWindow, LeftWindow};
pub use limited::Limited;
pub use mapping::{Mapping, WindowMemory, WindowObserver};
pub use modelled::Modelled;
pub use name::{FileKind, Name};
pub use placed::{Directory, Placed};
pub use reaper::{Hole, Reaper};
pub use reserve::{Borrower, Reserve, Reserving, Wanted};
pub use sim::Sim;
pub use window::Window;
pub use window_header::{HEADER_LEN as WINDOW_HEADER_LEN, Watermark, WindowIdentity};
