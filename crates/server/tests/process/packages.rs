//! What packages need of the program: a service manager, a health check, files that fit.

use std::io::{Error, ErrorKind};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::configuration::said;
use crate::running::Server;

/// A file of the repository.
fn contrib(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib").join(name)
}

#[test]
fn the_service_manager_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let manager = UnixDatagram::bind(dir.path().join("notify")).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let told = || {
        let mut text = [0; 1000];
        // A process that was halted for a while gets an error that says so.
        let is_halt = |e: &Error| e.kind() == ErrorKind::Interrupted;
        let mut told = std::iter::repeat_with(|| manager.recv(&mut text));
        let len = told.find(|told| !told.as_ref().is_err_and(is_halt)).unwrap().unwrap();
        String::from_utf8(text[..len].to_vec()).unwrap()
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_cleave-server"));
    command.args(["--listen", "127.0.0.1:0"]).current_dir(&dir).stdout(Stdio::piped());
    command.env("NOTIFY_SOCKET", dir.path().join("notify")).env("WATCHDOG_USEC", "3000000");
    let server = Server::ready(command.spawn().unwrap());
    assert_eq!(told(), "STATUS=opening the store\n");
    let status = format!("STATUS=serving: redis-cli -h {}", server.address.replace(':', " -p "));
    let (ready, mut is_ready, mut lives) = (format!("READY=1\n{status}\n"), false, 0);
    // Signs of life may come before.
    while !is_ready || lives < 2 {
        match told() {
            text if text == ready => is_ready = true,
            text => {
                assert_eq!(text, "WATCHDOG=1\n");
                lives += 1;
            }
        }
    }
    server.ask("SHUTDOWN");
    while told() != "STOPPING=1\n" {}
}

#[test]
fn a_server_is_asked_how_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("store"), &["--requirepass", "secret"]);
    let health = |listen: &str| said(dir.path(), &["--health", "--listen", listen], &[]);
    assert!(health(&server.address).status.success());
    let port = server.address.rsplit(':').next().unwrap();
    assert!(health(&format!("0.0.0.0:{port}")).status.success());
    let address = server.address.clone();
    drop(server);
    let gone = health(&address);
    assert_eq!(gone.status.code(), Some(1), "{gone:?}");
}

#[test]
fn the_example_is_a_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let example = contrib("cleave.toml");
    let plain = std::fs::read_to_string(&example).unwrap();
    // What is commented out is one, too.
    let option = |line: &str| line.starts_with("# [") || line.contains(" = ");
    let uncommented = |line: &str| match line.strip_prefix("# ").filter(|_| option(line)) {
        Some(rest) => rest.to_owned(),
        None => line.to_owned(),
    };
    let all = plain.lines().map(uncommented).collect::<Vec<_>>().join("\n");
    let [users, cert] = ["/var/lib/cleavedb/users.acl", "/etc/cleavedb/server"];
    let all = all.replace(users, "users.acl").replace(cert, "server");
    std::fs::write(dir.path().join("all.toml"), &all).unwrap();
    std::fs::write(dir.path().join("users.acl"), "").unwrap();
    crate::tls::Authority::new().sign(dir.path(), "server");
    for file in [example.to_str().unwrap(), "all.toml"] {
        let said = said(dir.path(), &["--config", file, "--check-config"], &[]);
        assert!(said.status.success() && said.stderr.is_empty(), "{said:?}");
    }
}

#[test]
fn the_unit_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let unit = std::fs::read_to_string(contrib("cleave-server.service")).unwrap();
    let unit = unit.replace("/usr/bin/cleave-server", env!("CARGO_BIN_EXE_cleave-server"));
    let path = dir.path().join("cleave-server.service");
    std::fs::write(&path, unit).unwrap();
    let Ok(said) = Command::new("systemd-analyze").arg("verify").arg(&path).output() else {
        println!("NOT CHECKED: there is no systemd-analyze");
        return;
    };
    let complaints = String::from_utf8(said.stderr).unwrap();
    let own: Vec<_> = complaints.lines().filter(|line| line.contains("cleave-server")).collect();
    assert!(own.is_empty(), "{own:#?}");
}
