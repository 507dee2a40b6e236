//! The program `cleave-server`.

use std::process::ExitCode;

use clap::Parser;
use cleavedb_server::{Config, start};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let config = Config::parse();
    let ran = start(config).map_err(|error| error.to_string()).and_then(|server| {
        server.stop_at_signals().map_err(|error| error.to_string())?;
        println!("ready: redis-cli -h {} -p {}", server.address().ip(), server.address().port());
        server.wait().map_err(|error| error.to_string())
    });
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("cleave-server: {why}");
            ExitCode::FAILURE
        }
    }
}
