//! Why a measurement could not go on, in words that say what to do about it.

use std::path::{Path, PathBuf};

/// The result of anything that can stop a run.
pub type Result<T, E = BenchError> = std::result::Result<T, E>;

/// What stopped a run. A wrong or missing value does not: it is counted and shown in the result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// An engine refused or failed an operation.
    #[error("{engine}: {action} failed: {cause}")]
    Engine {
        /// Name of the engine.
        engine: String,
        /// The operation, as a verb: "put", "open".
        action: &'static str,
        /// An error of the engine.
        cause: String,
    },
    /// A client thread panicked, in the engine or in the harness.
    #[error("a client thread panicked: {0}")]
    Panicked(String),
    /// A file or directory that the harness itself needs.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb: "create".
        action: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The arguments do not fit together.
    #[error("{0}")]
    Usage(String),
}

impl BenchError {
    /// An engine's error, in its own words.
    pub fn engine(engine: &str, action: &'static str, cause: impl ToString) -> Self {
        Self::Engine { engine: engine.to_owned(), action, cause: cause.to_string() }
    }

    /// Returns a closure for `map_err` on an I/O call of the harness.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
