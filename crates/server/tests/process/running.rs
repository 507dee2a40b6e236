//! The program, started and asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The program, which is killed when this is dropped.
pub struct Server {
    /// The process.
    pub child: Child,
    /// The address where it listens.
    pub address: String,
}

impl Server {
    /// A server of the store in `dir`, with more arguments.
    pub fn start(dir: &Path, more: &[&str]) -> Self {
        Self::listening(dir, &[&["--listen", "127.0.0.1:0"], more].concat())
    }

    /// As [`Server::start`], at the addresses that `more` has.
    pub fn listening(dir: &Path, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cleave-server"));
        command.arg("--dir").arg(dir).args(more);
        Self::ready(command.stdout(Stdio::piped()).spawn().unwrap())
    }

    /// The server of a program that was started, once it says that it is ready.
    pub fn ready(mut child: Child) -> Self {
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let (_, address) = ready.trim().split_once(" -h ").unwrap();
        Self { address: address.replace(" -p ", ":"), child }
    }

    /// A new connection.
    pub fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).unwrap()
    }

    /// The replies to these lines, behind which the connection ends.
    pub fn ask(&self, lines: &str) -> String {
        let mut client = self.connect();
        client.write_all(format!("{lines}\r\nQUIT\r\n").as_bytes()).unwrap();
        let mut replies = String::new();
        client.read_to_string(&mut replies).unwrap();
        replies.strip_suffix("+OK\r\n").expect("the reply of QUIT").to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
