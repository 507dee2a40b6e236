//! The program `cleave-server`.

use std::io::{self, Write};
use std::process::ExitCode;

use cleavedb_server::{Config, check, health, start};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The exit code where another process has the store, as that of `cleave` is.
const LOCKED: u8 = 4;

fn main() -> ExitCode {
    let config = Config::read(std::env::args_os()).unwrap_or_else(|error| error.exit());
    config.notes.iter().for_each(|note| eprintln!("cleave-server: {note}"));
    let ran = match (config.check_config, config.health) {
        (true, _) => check(&config).and_then(|()| io::stdout().write_all(config.holds.as_bytes())),
        (_, true) => health(&config),
        _ => run(config),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("cleave-server: {why}");
            let store = why.get_ref().and_then(|why| why.downcast_ref::<cleavedb::Error>());
            match store.is_some_and(|why| why.kind() == cleavedb::ErrorKind::Locked) {
                true => ExitCode::from(LOCKED),
                false => ExitCode::FAILURE,
            }
        }
    }
}

fn run(config: Config) -> io::Result<()> {
    let server = start(config)?;
    server.heed_signals()?;
    let page = server.http_address().map(|it| format!("page: http://{it}\n"));
    let lines = server.examples().iter().map(|it| format!("ready: {it}\n")).chain(page);
    // A reader that has gone is no reason to stop.
    let _ = io::stdout().write_all(lines.collect::<String>().as_bytes());
    server.say_ready();
    server.wait().map_err(io::Error::other)
}
