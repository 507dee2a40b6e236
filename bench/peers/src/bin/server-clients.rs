//! Clients of a server that speaks the protocol of Redis, for what `redis-benchmark` does not do:
//! fill a store with every key once, and read at a rate that does not wait for the server.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};

/// Commands that are sent before their replies are read while a store is filled.
const PIPELINE: u64 = 16;

/// Shuffles the numbers of keys: with no factor in common with their count, it meets each once.
const STRIDE: u64 = 0x9E37_79B1;

/// A number that looks drawn (the finish of SplitMix64).
fn mixed(number: u64) -> u64 {
    let mut it = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    it = (it ^ it >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    it = (it ^ it >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    it ^ it >> 31
}

/// Clients of a server that speaks the protocol of Redis.
#[derive(Parser)]
struct Arguments {
    /// The server
    #[arg(long, global = true, default_value = "127.0.0.1:6379")]
    server: SocketAddr,
    /// Keys, named as those of redis-benchmark with as many for -r
    #[arg(long, global = true, default_value_t = 1_000_000)]
    records: u64,
    /// Bytes of a value
    #[arg(long, global = true, default_value_t = 1024)]
    value_size: usize,
    /// Connections, each with a thread of its own
    #[arg(long, global = true, default_value_t = 50)]
    clients: u64,
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Copy, Subcommand)]
enum Action {
    /// Set every key once, in no order, 16 at a time
    Fill,
    /// Read keys in no order, each at its time, and count the time of a reply from there
    Pace {
        /// Reads a second of all clients
        #[arg(long)]
        rate: f64,
        /// Seconds for which it is read
        #[arg(long, default_value_t = 10.0)]
        seconds: f64,
    },
    /// Connect, and do nothing until standard input ends
    Idle,
}

fn main() -> io::Result<()> {
    let arguments = Arguments::parse();
    let begun = Instant::now();
    let mut times = thread::scope(|scope| {
        let run = |number| {
            let arguments = &arguments;
            scope.spawn(move || Client::connect(arguments)?.run(number, begun))
        };
        let clients: Vec<_> = (0..arguments.clients).map(run).collect();
        let ended = clients.into_iter().map(|client| client.join().expect("no client panics"));
        ended.collect::<io::Result<Vec<_>>>()
    })?
    .concat();
    times.sort_unstable();
    let seconds = begun.elapsed().as_secs_f64();
    let part = |share: f64| times.get((times.len() as f64 * share) as usize).copied();
    let micros = |share| part(share).unwrap_or_default().as_micros();
    let (p50, p99, p999) = (micros(0.5), micros(0.99), micros(0.999));
    println!(r#"{{"seconds": {seconds:.3}, "p50": {p50}, "p99": {p99}, "p999": {p999}}}"#);
    Ok(())
}

/// The connection of a client.
struct Client<'a> {
    arguments: &'a Arguments,
    socket: BufReader<TcpStream>,
    /// What values are cut from.
    noise: Vec<u8>,
}

impl<'a> Client<'a> {
    fn connect(arguments: &'a Arguments) -> io::Result<Self> {
        let socket = TcpStream::connect(arguments.server)?;
        socket.set_nodelay(true)?;
        let mut state = 1_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        let noise = (0..arguments.value_size + (64 << 10)).map(|_| draw()).collect();
        Ok(Self { arguments, socket: BufReader::new(socket), noise })
    }

    /// Does what is asked for as client `number`; the times of replies at a rate.
    fn run(mut self, number: u64, begun: Instant) -> io::Result<Vec<Duration>> {
        match self.arguments.action {
            Action::Fill => self.fill(number).map(|()| Vec::new()),
            Action::Pace { rate, seconds } => self.pace(number, begun, rate, seconds),
            Action::Idle => io::stdin().read_to_end(&mut Vec::new()).map(|_| Vec::new()),
        }
    }

    fn value(&self, key: u64) -> &[u8] {
        let begin = (key % (64 << 10)) as usize;
        &self.noise[begin..begin + self.arguments.value_size]
    }

    /// Sets each of the client's keys once.
    fn fill(&mut self, number: u64) -> io::Result<()> {
        let Arguments { records, clients, .. } = *self.arguments;
        let (mut sent, mut line) = (Vec::new(), String::new());
        let places: Vec<_> = (number..records).step_by(clients as usize).collect();
        for places in places.chunks(PIPELINE as usize) {
            sent.clear();
            for place in places {
                let key = place * STRIDE % records;
                let value = self.value(key);
                write!(sent, "*3\r\n$3\r\nSET\r\n$16\r\nkey:{key:012}\r\n${}\r\n", value.len())?;
                sent.extend_from_slice(value);
                sent.extend_from_slice(b"\r\n");
            }
            self.socket.get_ref().write_all(&sent)?;
            for _ in places {
                line.clear();
                self.socket.read_line(&mut line)?;
                if line != "+OK\r\n" {
                    return Err(io::Error::other(format!("the reply of a SET: {line}")));
                }
            }
        }
        Ok(())
    }

    /// Reads at a part of the rate, and checks what comes.
    fn pace(
        &mut self,
        number: u64,
        begun: Instant,
        rate: f64,
        seconds: f64,
    ) -> io::Result<Vec<Duration>> {
        let Arguments { records, clients, .. } = *self.arguments;
        let (mut times, mut line, mut found) = (Vec::new(), String::new(), Vec::new());
        for turn in (number..(rate * seconds) as u64).step_by(clients as usize) {
            let due = begun + Duration::from_secs_f64(turn as f64 / rate);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let key = mixed(turn) % records;
            let sent = format!("*2\r\n$3\r\nGET\r\n$16\r\nkey:{key:012}\r\n");
            self.socket.get_ref().write_all(sent.as_bytes())?;
            line.clear();
            self.socket.read_line(&mut line)?;
            found.resize(self.arguments.value_size + 2, 0);
            self.socket.read_exact(&mut found)?;
            times.push(due.elapsed());
            if found.strip_suffix(b"\r\n") != Some(self.value(key)) {
                return Err(io::Error::other(format!("key:{key:012} has another value: {line}")));
            }
        }
        Ok(times)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::mixed;

    #[test]
    fn reads_are_of_many_keys() {
        let keys: HashSet<_> = (0..100_000).map(|turn| mixed(turn) % 1_000_000).collect();
        // Of drawn ones there would be 95,163.
        assert!((94_000..96_500).contains(&keys.len()), "{}", keys.len());
    }
}
