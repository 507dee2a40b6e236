//! What an engine acknowledged survives the death of its process by signal 9, as all of them claim.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use bench_peers::engines::ENGINES;
use bench_peers::settings::PeerArgs;
use clap::Parser;
use cleavedb_bench::{Engine, Result};

const ENGINE: &str = "KILL_ENGINE";
const DIRECTORY: &str = "KILL_DIRECTORY";
/// Records of a run, above what a page or a buffer of a log holds.
const RECORDS: u32 = 2000;
const WRITTEN: &str = "all are acknowledged";

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    peer: PeerArgs,
}

fn open(name: &str, directory: &Path) -> Result<Box<dyn Engine>> {
    let arguments = Arguments::parse_from(["test"]);
    let entry = ENGINES.iter().find(|entry| entry.name == name).unwrap();
    entry.opener(&arguments.peer)?.open(directory)
}

fn record(number: u32) -> ([u8; 4], [u8; 1500]) {
    let mut value = [number as u8; 1500];
    value[..4].copy_from_slice(&number.to_be_bytes());
    (number.to_be_bytes(), value)
}

/// The process that is killed; does nothing unless the test below started it.
#[test]
fn victim() {
    let (Ok(name), Ok(directory)) = (env::var(ENGINE), env::var(DIRECTORY)) else { return };
    let engine = open(&name, Path::new(&directory)).unwrap();
    for number in 0..RECORDS {
        let (key, value) = record(number);
        engine.put(&key, &value).unwrap();
    }
    println!("{WRITTEN}");
    std::io::stdout().flush().unwrap();
    sleep(Duration::from_secs(60));
}

/// Starts the victim on `directory` and kills it once everything is acknowledged.
fn write_and_die(name: &str, directory: &Path) {
    let mut victim = Command::new(env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture"])
        .env(ENGINE, name)
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let written = lines.map_while(|line| line.ok()).any(|line| line.ends_with(WRITTEN));
    assert!(written, "{name}: the victim ended by itself");
    victim.kill().unwrap();
    victim.wait().unwrap();
}

/// Opens the store; a process beside the victim's may need a moment to see that it died.
fn reopen(name: &str, directory: &Path) -> Box<dyn Engine> {
    for _ in 0..50 {
        if let Ok(engine) = open(name, directory) {
            return engine;
        }
        sleep(Duration::from_millis(100));
    }
    open(name, directory).unwrap()
}

#[test]
fn acknowledged_writes_survive_the_death_of_the_process() {
    // Values that lie over another store are lost with their process.
    for entry in ENGINES.iter().filter(|entry| !entry.name.starts_with("hashkv-")) {
        let directory = tempfile::tempdir().unwrap();
        write_and_die(entry.name, directory.path());
        let engine = reopen(entry.name, directory.path());
        for number in 0..RECORDS {
            let (key, value) = record(number);
            let mut right = false;
            engine.get(&key, &mut |found| right = found == value).unwrap();
            assert!(right, "{}: record {number} is lost or wrong", entry.name);
        }
        engine.close().unwrap();
    }
}
