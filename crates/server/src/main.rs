//! The program `cleave-server`.

use std::io::Write;
use std::process::ExitCode;

use cleavedb_server::{Config, start};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let config = Config::read(std::env::args_os()).unwrap_or_else(|error| error.exit());
    config.notes.iter().for_each(|note| eprintln!("cleave-server: {note}"));
    if config.check_config {
        print!("{}", config.holds);
        return ExitCode::SUCCESS;
    }
    let ran = start(config).map_err(|error| error.to_string()).and_then(|server| {
        server.stop_at_signals().map_err(|error| error.to_string())?;
        let page = server.http_address().map(|it| format!("page: http://{it}\n"));
        let lines = server.examples().into_iter().map(|it| format!("ready: {it}\n")).chain(page);
        // A reader that has gone is no reason to stop.
        let _ = std::io::stdout().write_all(lines.collect::<String>().as_bytes());
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
