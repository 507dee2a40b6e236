//! What the server knows about itself, for people and programs that watch it.

mod process;
pub mod times;
pub mod slow_log;
pub mod stalls;
pub mod work;
pub mod history;
mod observer;
mod figures;
pub mod advice;
pub mod prometheus;
pub mod info;

pub use self::figures::ServerFigures;
pub use self::observer::Observer;
pub use self::process::ProcessFigures;
