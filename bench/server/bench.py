"""Measures CleaveDB's server beside RocksDB behind the same server, and beside Redis.

    python bench.py --rounds 3 --out results.json     measures, and prints the tables
    python bench.py --report results.json

With data twice the memory: each server in a memory cgroup of its own, which counts the page cache;
all are filled, then take turns. Redis keeps its data in memory, so it takes no part there. Beside
it: commands over data that memory holds, and writes that are synced before their replies. Needs
root, redis-server, redis-benchmark, and the programs that `bench/peers/README.md` builds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ROOT / "bench/target/release/server-clients"
JEMALLOC = Path("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2")
MIB = 1 << 20
#: Memory of a server, and of its engine where it is told.
LIMIT, ENGINE = 512 * MIB, 256 * MIB
PORT = 7660
#: Seconds without a write after which a server has nothing left to do.
STILL = 2.0
COMMANDS = {
    "cleave": [ROOT / "target/release/cleave-server", "--memory", ENGINE],
    "rocksdb": [ROOT / "bench/target/release/rocks-server"],
    "redis": ["redis-server", "--save", "", "--appendonly", "yes"],
}
#: Tests of redis-benchmark, with the one that adds what each takes away.
TESTS = {
    **dict.fromkeys(("set", "get", "incr", "hset", "lpush", "lrange_100", "sadd", "zadd")),
    **{"lpop": "lpush", "spop": "sadd", "zpopmin": "zadd"},
}


class Cgroup:
    """A limit of memory, of either version of the interface."""

    def __init__(self, name: str, limit: int) -> None:
        base, file = Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"
        if not base.is_dir():
            base, file = base.parent, "memory.max"
        self.path = base / f"cleave-bench-{name}-{os.getpid()}"
        self.path.mkdir()
        (self.path / file).write_text(str(limit))

    def enter(self) -> None:
        (self.path / "cgroup.procs").write_text(str(os.getpid()))


class Server:
    """A server that runs over a new store, under a limit of memory or without one."""

    def __init__(self, name: str, folder: Path, limit: int | None, *options: str) -> None:
        self.name, self.port = name, PORT + list(COMMANDS).index(name)
        self.store = folder / name
        self.store.mkdir()
        self.cgroup = limit and Cgroup(name, limit)
        address = f"127.0.0.1:{self.port}"
        where = ["--dir", self.store, "--listen", address]
        if name == "redis":
            where = ["--dir", self.store, "--port", self.port]
        environment = dict(os.environ)
        if name == "rocksdb" and JEMALLOC.exists():
            environment["LD_PRELOAD"] = str(JEMALLOC)
        self.process = subprocess.Popen(
            [str(part) for part in COMMANDS[name] + where + list(options)],
            stdout=subprocess.DEVNULL,
            env=environment,
            preexec_fn=self.cgroup and self.cgroup.enter,
        )
        self.clients = [CLIENTS, "--server", address]
        ping = ["redis-cli", "-p", str(self.port), "ping"]
        while subprocess.run(ping, capture_output=True).stdout != b"PONG\n":
            if self.process.poll() is not None:
                self.close()
                raise SystemExit(f"{name} does not start")
            time.sleep(0.1)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.store)
        if self.cgroup:
            self.cgroup.path.rmdir()

    def told(self, file: str) -> dict[str, int]:
        """Numbers of a file of `/proc/PID`, by their names."""
        lines = Path(f"/proc/{self.process.pid}/{file}").read_text().splitlines()
        words = (line.replace(":", " ").split() for line in lines)
        return {word[0]: int(word[1]) for word in words if len(word) > 1 and word[1].isdigit()}

    def seconds(self) -> float:
        """Processor time so far."""
        parts = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")

    def switches(self) -> int:
        """How often a thread has waited."""
        threads = os.listdir(f"/proc/{self.process.pid}/task")
        told = (self.told(f"task/{thread}/status") for thread in threads)
        return sum(each["voluntary_ctxt_switches"] for each in told)

    def settle(self) -> None:
        """Waits until the server has written nothing for some seconds."""
        still, before = 0.0, -1
        while still < STILL:
            now = self.told("io")["write_bytes"]
            still, before = (still + 0.25, now) if now == before else (0.0, now)
            time.sleep(0.25)

    def counted(self, operations: int, run: Any) -> dict[str, float]:
        """What `run` tells of that many operations, and what they have cost the server."""
        cpu, io = self.seconds(), self.told("io")
        told = run()
        cpu, after = self.seconds() - cpu, self.told("io")
        told["cpu us"] = cpu / operations * 1e6
        told["read B"] = (after["read_bytes"] - io["read_bytes"]) / operations
        return told

    def benchmark(
        self, test: str, operations: int, pipeline: int, records: int
    ) -> dict[str, float]:
        """`redis-benchmark` with 50 clients."""

        def run() -> dict[str, float]:
            command = ["redis-benchmark", "-p", self.port, "--csv", "-c", 50, "-t", test]
            command += ["-n", operations, "-r", records, "-d", 1024, "-P", pipeline]
            lines = subprocess.check_output([str(part) for part in command]).decode().splitlines()
            fields = [float(field.strip('"')) for field in lines[-1].split(",")[1:]]
            return {"op/s": fields[0], "p50 ms": fields[3], "p99 ms": fields[5]}

        return self.counted(operations, run)

    def fill(self, records: int) -> dict[str, float]:
        """Sets every key once."""
        told = subprocess.check_output([*self.clients, "--records", str(records), "fill"])
        return {"op/s": records / json.loads(told)["seconds"]}

    def written(self, operations: int, run: Any) -> dict[str, float]:
        """As `counted`, with what `run` leaves the server to do, and the bytes that both write."""

        def settled() -> dict[str, float]:
            begun = time.monotonic()
            told = run()
            self.settle()
            told["settled op/s"] = operations / (time.monotonic() - begun - STILL)
            return told

        before = self.told("io")["write_bytes"]
        told = self.counted(operations, settled)
        told["written B"] = (self.told("io")["write_bytes"] - before) / operations
        used = sum(file.stat().st_blocks * 512 for file in self.store.rglob("*"))
        return told | {"space MiB": used / MIB}

    def pace(self, records: int, rate: float, seconds: float) -> dict[str, float]:
        """Reads at a rate; times count from when a read was due."""

        def run() -> dict[str, float]:
            command = [*self.clients, "--records", records, "pace"]
            command += ["--rate", rate, "--seconds", seconds]
            told = json.loads(subprocess.check_output([str(part) for part in command]))
            times = {f"{part} ms": told[part] / 1000 for part in ("p50", "p99", "p999")}
            return {"op/s": rate * seconds / told["seconds"]} | times

        return self.counted(int(rate * seconds), run)

    def idle(self, seconds: float) -> dict[str, float]:
        """Memory and wake-ups of a server that has nothing to do, also with a thousand clients."""
        time.sleep(3)
        told = {"MiB": self.told("status")["VmRSS"] / 1024}
        before = self.switches()
        time.sleep(seconds)
        told["wake-ups/s"] = (self.switches() - before) / seconds
        command = [*self.clients, "--clients", "1000", "idle"]
        clients = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        time.sleep(3)
        told["KiB/client"] = self.told("status")["VmRSS"] * 1.024 - told["MiB"] * 1.024 * 1024
        told["KiB/client"] /= 1000
        before = self.switches()
        time.sleep(seconds)
        told["wake-ups/s, 1,000 clients"] = (self.switches() - before) / seconds
        clients.communicate()
        return told


def larger(arguments: argparse.Namespace, folder: Path, draw: random.Random) -> dict[str, Any]:
    """Data twice the memory: all servers in turn, in a drawn order for each step."""
    found: dict[str, Any] = {}
    servers: list[Server] = []

    def each(step: str, run: Any) -> None:
        for server in draw.sample(servers, len(servers)):
            found.setdefault(step, {})[server.name] = run(server)

    records, count = arguments.records, arguments.operations

    def updates(server: Server, pipeline: int) -> dict[str, float]:
        run = lambda: server.benchmark("set", count, pipeline, records)
        return server.written(count, run)

    try:
        servers += [Server(name, folder, LIMIT) for name in ("cleave", "rocksdb")]
        each("fill, -P 16", lambda it: it.written(records, lambda: it.fill(records)))
        each("warm-up", lambda it: it.benchmark("get", count, 16, records))
        each("GET -P 1", lambda it: it.benchmark("get", count, 1, records))
        each("GET -P 16", lambda it: it.benchmark("get", count, 16, records))
        rate = min(told["op/s"] for told in found["GET -P 1"].values()) / 2
        each("GET paced", lambda it: it.pace(records, rate, arguments.seconds))
        each("SET -P 1", lambda it: updates(it, 1))
        each("SET -P 16", lambda it: updates(it, 16))
    finally:
        for server in servers:
            server.close()
    return found


def in_turn(
    arguments: argparse.Namespace,
    folder: Path,
    draw: random.Random,
    options: dict[str, list[str]],
    tests: list[tuple[str, int]],
) -> dict[str, Any]:
    """Tests of redis-benchmark, each with a length of pipelines, by servers with these options."""
    found: dict[str, Any] = {}
    servers: list[Server] = []
    keys, count = arguments.keys, arguments.operations
    try:
        servers += [Server(name, folder, None, *more) for name, more in options.items()]
        for test, pipeline in tests:
            for server in draw.sample(servers, len(servers)):
                if added := TESTS[test]:
                    server.benchmark(added, count + count // 10, 16, keys)
                told = server.benchmark(test, count, pipeline, keys)
                found.setdefault(f"{test.upper()} -P {pipeline}", {})[server.name] = told
    finally:
        for server in servers:
            server.close()
    return found


def beside(arguments: argparse.Namespace, folder: Path, draw: random.Random) -> dict[str, Any]:
    """Data that memory holds, beside Redis without persistence."""
    options = {"cleave": [], "redis": ["--appendonly", "no"]}
    tests = [(test, pipeline) for test in TESTS for pipeline in (1, 16)]
    found = in_turn(arguments, folder, draw, options, tests)
    return {f"in memory, {step}": told for step, told in found.items()}


def always(arguments: argparse.Namespace, folder: Path, draw: random.Random) -> dict[str, Any]:
    """Writes that survive a loss of power before their replies."""
    options = ["--appendfsync", "always"]
    found = in_turn(
        arguments, folder, draw, {"cleave": options, "redis": options}, [("set", 1), ("set", 16)]
    )
    return {f"always, {step}": told for step, told in found.items()}


def idle(arguments: argparse.Namespace, folder: Path, draw: random.Random) -> dict[str, Any]:
    """Servers with nothing to do, one after another."""
    found = {}
    for name in draw.sample(list(COMMANDS), len(COMMANDS)):
        server = Server(name, folder, None)
        try:
            found[name] = server.idle(arguments.seconds)
        finally:
            server.close()
    return {"idle": found}


PARTS = {"larger": larger, "beside": beside, "always": always, "idle": idle}


def shown(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def report(rounds: list[dict[str, Any]]) -> str:
    """Medians, with the least and the most."""
    lines = [f"{platform.machine()}, {os.cpu_count()} processors, {len(rounds)} rounds"]
    for step in dict.fromkeys(step for found in rounds for step in found):
        all_found = [found[step] for found in rounds if step in found]
        measures = list(next(iter(all_found[0].values())))
        lines += ["", f"| {step} | {' | '.join(measures)} |", "| --- |" + " ---: |" * len(measures)]
        for name in COMMANDS:
            told = [found[name] for found in all_found if name in found]
            cells = []
            for measure in measures if told else ():
                values = [each[measure] for each in told]
                least, middle, most = min(values), statistics.median(values), max(values)
                cells.append(f"{shown(middle)} ({shown(least)} to {shown(most)})")
            lines += [f"| {name} | {' | '.join(cells)} |"] if told else []
    return "\n".join(lines)


def main() -> None:
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100_000, help="beside Redis")
    parser.add_argument("--operations", type=int, default=200_000, help="of each step")
    parser.add_argument("--seconds", type=float, default=10, help="of what is paced or idle")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--dir", type=Path, help="where stores are made")
    parser.add_argument("--out", type=Path, help="adds the rounds to a file")
    parser.add_argument("--report", type=Path, help="prints the tables of a file")
    arguments = parser.parse_args()
    if arguments.report:
        print(report(json.loads(arguments.report.read_text())))
        return
    draw = random.Random()
    is_begun = arguments.out and arguments.out.exists()
    rounds = json.loads(arguments.out.read_text()) if is_begun else []
    for _ in range(arguments.rounds):
        found: dict[str, Any] = {}
        for part in arguments.parts:
            with tempfile.TemporaryDirectory(dir=arguments.dir, prefix="cleave-bench-") as folder:
                found |= PARTS[part](arguments, Path(folder), draw)
        rounds.append(found)
        if arguments.out:
            arguments.out.write_text(json.dumps(rounds, indent=1))
    print(report(rounds))


if __name__ == "__main__":
    main()
