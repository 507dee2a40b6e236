//! Prints the figures of the house: `cargo run -p cleavedb-tidy`, from the root of the repository.

use std::path::Path;
use std::process::ExitCode;

use cleavedb_tidy::{Repo, house};

fn main() -> ExitCode {
    match Repo::read(Path::new(".")) {
        Ok(repo) => {
            for (what, count) in house::measures(&repo) {
                println!("{count:>8}  {what}");
            }
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("the repository cannot be read: {e}");
            ExitCode::FAILURE
        }
    }
}
