"""Compares key-value stores for Python: one process for each store and round, in a drawn order.

    python bench.py --rounds 5 --out results.json     measures, and prints the table
    python bench.py --report results.json --chart chart.svg

Each store holds the same pairs with keys in a random order, and writes of all survive the same: the
death of the process, or (`sync`) a loss of power. What is not installed is left out, and said.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stores import STORES, Store, size_of, version_of

BATCH = 100
SCAN = 100
KEY = "user%012d"
#: What is measured, in the order of the table, and what one operation is.
PHASES = {
    "put": "one put",
    "put, sync": "one put that survives a loss of power",
    "batch": f"one pair of a batch of {BATCH}",
    "get": "one get, of a random key in memory",
    "get, one view": "one get of a snapshot, or within one transaction",
    "iterate": "one pair of a walk through all",
    "scan": f"one pair of a range of {SCAN} from a random key",
}


class Timer:
    """Nanoseconds of wall clock and of processor time, of all threads, for one operation."""

    def __init__(self) -> None:
        self.phases: dict[str, dict[str, float]] = {}

    def run(self, phase: str, count: int, body: Callable[[], object]) -> None:
        gc.collect()
        gc.disable()
        cpu, wall = time.process_time_ns(), time.perf_counter_ns()
        body()
        wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
        gc.enable()
        self.phases[phase] = {"wall": wall / count, "cpu": cpu / count}


def measure(name: str, records: int, length: int, folder: Path) -> dict[str, Any]:
    """Runs all phases against one store."""
    draw = random.Random(51)
    noise = draw.randbytes(1 << 20)
    keys = [(KEY % number).encode() for number in range(records)]
    draw.shuffle(keys)
    starts = [draw.randrange(len(noise) - length) for _ in keys]
    values = [noise[start : start + length] for start in starts]
    pairs = list(zip(keys, values))
    asked = draw.choices(keys, k=records)
    timer = Timer()

    def put_all(store: Store, pairs: list[tuple[bytes, bytes]]) -> None:
        put = store.put
        for key, value in pairs:
            put(key, value)

    def batch_all(store: Store) -> None:
        for at in range(0, records, BATCH):
            store.batch(pairs[at : at + BATCH])

    def get_all(get: Callable[[bytes], bytes]) -> None:
        for key in asked:
            if len(get(key)) != length:
                raise SystemExit(f"{name}: a wrong value of {key!r}")

    def walk(store: Store) -> None:
        count = 0
        for _key, _value in store.items():
            count += 1
        if count != records:
            raise SystemExit(f"{name}: {count} pairs, not {records}")

    def scan_all(store: Store) -> None:
        for key in asked[: records // SCAN]:
            store.scan(key, SCAN)

    store = STORES[name](folder / "put", sync=False)
    timer.run("put", records, lambda: put_all(store, pairs))
    store.close()
    few = pairs[: max(records // 100, 100)]
    store = STORES[name](folder / "sync", sync=True)
    timer.run("put, sync", len(few), lambda: put_all(store, few))
    store.close()
    store = STORES[name](folder / "batch", sync=False)
    timer.run("batch", records, lambda: batch_all(store))
    store.close()
    # Reads find the store as an application does that opens it: nothing waits to be sorted.
    store = STORES[name](folder / "batch", sync=False)
    get_all(store.get)
    timer.run("get", records, lambda: get_all(store.get))
    timer.run("iterate", records, lambda: walk(store))
    if type(store).scan is not Store.scan:
        timer.run("scan", records // SCAN * SCAN, lambda: scan_all(store))
        get = store.view()
        timer.run("get, one view", records, lambda: get_all(get))
    store.close()
    return {"phases": timer.phases, "space": size_of(folder / "batch") / (records * (length + 16))}


def rounds(args: argparse.Namespace) -> dict[str, Any]:
    """Runs each store once in each round, in a process of its own."""
    names, missing = [], []
    for name in STORES:
        try:
            version_of(name)
            names.append(name)
        except ModuleNotFoundError:
            missing.append(name)
    if missing:
        print("NOT MEASURED, not installed:", ", ".join(missing), file=sys.stderr)
    results: dict[str, Any] = {
        "machine": f"{os.cpu_count()} processors, {platform.system()}, Python {platform.python_version()}",
        "versions": {name: version_of(name) for name in names},
        "records": args.records,
        "rounds": args.rounds,
        "values": {},
    }
    draw = random.Random()
    for length in args.values:
        runs: dict[str, list[Any]] = {name: [] for name in names}
        for number in range(args.rounds):
            draw.shuffle(names)
            for name in names:
                print(f"{length} B, round {number + 1} of {args.rounds}: {name}", file=sys.stderr)
                folder = Path(tempfile.mkdtemp(prefix="bench-", dir=args.directory))
                try:
                    command = [sys.executable, __file__, "--one", name, "--records", str(args.records)]
                    command += ["--values", str(length), "--directory", str(folder)]
                    run = subprocess.run(command, stdout=subprocess.PIPE, check=True)
                    runs[name].append(json.loads(run.stdout))
                finally:
                    shutil.rmtree(folder)
        results["values"][str(length)] = runs
    return results


def figures(runs: list[Any], phase: str, of: str) -> list[float]:
    return [run["phases"][phase][of] for run in runs if phase in run["phases"]]


def report(results: dict[str, Any]) -> str:
    """Tables in Markdown: nanoseconds of an operation, medians, the least and the most behind them."""
    lines = [f"{results['records']:,} pairs, {results['rounds']} rounds, {results['machine']}; "]
    lines[0] += ", ".join(f"{name} {v}" for name, v in results["versions"].items() if "," not in name)
    for of, what in [("wall", "nanoseconds"), ("cpu", "processor time, nanoseconds, of all threads")]:
        for length, runs in results["values"].items():
            lines += ["", f"Values of {length} bytes: {what}, median (least to most)", ""]
            lines += ["| store | " + " | ".join(PHASES) + " | bytes on disk for each byte |"]
            lines += ["| --- |" + " ---: |" * (len(PHASES) + 1)]
            for name in [name for name in STORES if name in runs]:
                cells = []
                for phase in PHASES:
                    some = figures(runs[name], phase, of)
                    cells.append(
                        f"{statistics.median(some):,.0f} ({min(some):,.0f} to {max(some):,.0f})"
                        if some
                        else ""
                    )
                cells.append(f"{statistics.median(run['space'] for run in runs[name]):.2f}")
                lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def chart(results: dict[str, Any], path: Path) -> None:
    """Draws the medians of the longest values as bars. Synced puts are left out: the device's time."""
    import matplotlib

    matplotlib.use("svg" if path.suffix == ".svg" else "agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bench", "font.size": 8})
    from matplotlib import pyplot

    length, runs = max(results["values"].items(), key=lambda item: int(item[0]))
    names = [name for name in STORES if name in runs][::-1]
    figure, axes = pyplot.subplots(2, 3, figsize=(9, 4.4), layout="constrained", sharey=True)
    for phase, axis in zip((phase for phase in PHASES if "sync" not in phase), axes.flat):
        for name in names:
            if times := figures(runs[name], phase, "wall"):
                median = statistics.median(times)
                bar = axis.barh(name, median, color="#c2410c" if "cleavedb" in name else "#94a3b8")
                axis.bar_label(bar, [f" {median:,.0f}"], fontsize=7)
            else:
                axis.barh(name, 0)
        axis.margins(x=0.2)
        axis.set_xticks([])
        axis.set_title(phase, fontsize=9)
        axis.spines[["top", "right", "bottom"]].set_visible(False)
    figure.suptitle(f"Nanoseconds, values of {int(length):,} bytes: shorter is better", fontsize=9)
    unsaid = dict.fromkeys(["Creator", "Date", "Format", "Type"])
    figure.savefig(path, metadata=unsaid if path.suffix == ".svg" else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000, help="pairs of each store")
    parser.add_argument("--values", type=int, nargs="+", default=[100, 1024], help="lengths of values")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each store")
    parser.add_argument("--directory", type=Path, default=Path(), help="where the stores lie meanwhile")
    parser.add_argument("--out", type=Path, help="the file of the results")
    parser.add_argument("--report", type=Path, help="print the tables of these results, and measure nothing")
    parser.add_argument("--chart", type=Path, help="draw the results into this file (SVG)")
    parser.add_argument("--one", choices=list(STORES), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        json.dump(measure(args.one, args.records, args.values[0], args.directory), sys.stdout)
        return
    results = json.loads(args.report.read_text()) if args.report else rounds(args)
    if args.out:
        args.out.write_text(json.dumps(results, indent=1) + "\n")
    print(report(results))
    if args.chart:
        chart(results, args.chart)


if __name__ == "__main__":
    main()
