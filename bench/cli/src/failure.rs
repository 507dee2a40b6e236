//! What stops a measurement, as a failure of a command.

use cleavedb_bench::BenchError;
use cleavedb_cli::failure::Failure;

/// The failure of a command that `error` ended.
pub fn failed(error: BenchError) -> Failure {
    match error {
        BenchError::Usage(why) => Failure::Usage(why),
        BenchError::Io { action, path, source } => Failure::File { action, path, source },
        error => Failure::Bench(error.to_string()),
    }
}
