"""The stores that the benchmark compares: each opened so that writes survive the same."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

Pair = tuple[bytes, bytes]
#: Bytes that a store may keep in memory of its own, where it has a cache.
CACHE = 64 << 20


class Store:
    """What each store does: `get`, `put` and `items` are its own functions, so that no wrapper is timed."""

    package: str
    get: Any
    put: Any

    def batch(self, pairs: Iterable[Pair]) -> None:
        raise NotImplementedError

    def items(self) -> Iterable[Pair]:
        """All pairs, in the order of keys if the store has one."""
        raise NotImplementedError

    def scan(self, start: bytes, count: int) -> int:
        """Reads up to `count` pairs from `start` on; returns how many there were."""
        raise NotImplementedError

    def view(self) -> Any:
        """A `get` that sees what is stored now, whatever is written later."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


def take(pairs: Iterable[Pair], count: int) -> int:
    """Takes up to `count` pairs, and returns how many."""
    taken = 0
    for _ in pairs:
        taken += 1
        if taken == count:
            break
    return taken


class CleaveDB(Store):
    package = "cleavedb"

    options: dict[str, str] = {}

    def __init__(self, path: Path, sync: bool) -> None:
        import cleavedb

        self.db = cleavedb.open(path, durability="sync" if sync else "os", **self.options)
        self.get, self.put = self.db.get, self.db.put

    def batch(self, pairs: Iterable[Pair]) -> None:
        with self.db.write_batch() as batch:
            for key, value in pairs:
                batch.put(key, value)

    def items(self) -> Iterable[Pair]:
        return self.db.items()

    def scan(self, start: bytes, count: int) -> int:
        return take(self.db.items(start), count)

    def view(self) -> Any:
        return self.db.snapshot().get

    def close(self) -> None:
        self.db.close()


class CleaveDBCached(CleaveDB):
    """With a cache of records that holds all that is read: else values are in the page cache alone."""

    options = {"record_cache_bytes": "256MiB"}


class Plyvel(Store):
    package = "plyvel"

    def __init__(self, path: Path, sync: bool) -> None:
        import plyvel

        self.sync = sync
        self.db = plyvel.DB(str(path), create_if_missing=True, lru_cache_size=CACHE, bloom_filter_bits=10)
        self.get = self.db.get
        self.put = partial(self.db.put, sync=True) if sync else self.db.put

    def batch(self, pairs: Iterable[Pair]) -> None:
        with self.db.write_batch(sync=self.sync) as batch:
            for key, value in pairs:
                batch.put(key, value)

    def items(self) -> Iterable[Pair]:
        return self.db.iterator()

    def scan(self, start: bytes, count: int) -> int:
        with self.db.iterator(start=start) as iterator:
            return take(iterator, count)

    def view(self) -> Any:
        return self.db.snapshot().get

    def close(self) -> None:
        self.db.close()


class Lmdb(Store):
    """A transaction for each call: a `get` sees what was written before it, as in the other stores."""

    package = "lmdb"

    def __init__(self, path: Path, sync: bool) -> None:
        import lmdb

        self.env = lmdb.open(str(path), map_size=8 << 30, sync=sync, metasync=sync)

    def get(self, key: bytes) -> bytes | None:
        with self.env.begin() as transaction:
            return transaction.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        with self.env.begin(write=True) as transaction:
            transaction.put(key, value)

    def batch(self, pairs: Iterable[Pair]) -> None:
        with self.env.begin(write=True) as transaction:
            for key, value in pairs:
                transaction.put(key, value)

    def items(self) -> Iterable[Pair]:
        self.walk = self.env.begin()
        return self.walk.cursor()

    def scan(self, start: bytes, count: int) -> int:
        with self.env.begin() as transaction, transaction.cursor() as cursor:
            return take(cursor, count) if cursor.set_range(start) else 0

    def view(self) -> Any:
        return self.env.begin().get

    def close(self) -> None:
        self.env.close()


class Rocksdict(Store):
    package = "rocksdict"

    def __init__(self, path: Path, sync: bool) -> None:
        import rocksdict

        table = rocksdict.BlockBasedOptions()
        table.set_block_cache(rocksdict.Cache(CACHE))
        table.set_bloom_filter(10, False)
        options = rocksdict.Options(raw_mode=True)
        options.set_block_based_table_factory(table)
        self.rocksdict, self.sync = rocksdict, sync
        self.db = rocksdict.Rdict(str(path), options)
        self.writes = rocksdict.WriteOptions()
        self.writes.sync = sync
        self.db.set_write_options(self.writes)
        self.get, self.put = self.db.get, self.db.put

    def batch(self, pairs: Iterable[Pair]) -> None:
        batch = self.rocksdict.WriteBatch(raw_mode=True)
        for key, value in pairs:
            batch.put(key, value)
        self.db.write(batch, self.writes)

    def items(self) -> Iterable[Pair]:
        return self.db.items()

    def scan(self, start: bytes, count: int) -> int:
        return take(self.db.items(from_key=start), count)

    def view(self) -> Any:
        return self.db.snapshot().__getitem__

    def close(self) -> None:
        self.db.close()


class Sqlite(Store):
    """A table in WAL mode: what survives is what `synchronous` says of each commit."""

    package = "sqlite3"

    def __init__(self, path: Path, sync: bool) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute(f"PRAGMA synchronous = {'FULL' if sync else 'OFF'}")
        self.db.execute(f"PRAGMA cache_size = -{CACHE >> 10}")
        self.db.execute("CREATE TABLE IF NOT EXISTS pairs (key BLOB PRIMARY KEY, value BLOB)")

    def get(self, key: bytes) -> bytes | None:
        row = self.db.execute("SELECT value FROM pairs WHERE key = ?", (key,)).fetchone()
        return row and row[0]

    def put(self, key: bytes, value: bytes) -> None:
        self.db.execute("INSERT OR REPLACE INTO pairs VALUES (?, ?)", (key, value))

    def batch(self, pairs: Iterable[Pair]) -> None:
        self.db.execute("BEGIN")
        self.db.executemany("INSERT OR REPLACE INTO pairs VALUES (?, ?)", pairs)
        self.db.execute("COMMIT")

    def items(self) -> Iterable[Pair]:
        return self.db.execute("SELECT key, value FROM pairs ORDER BY key")

    def scan(self, start: bytes, count: int) -> int:
        some = "SELECT key, value FROM pairs WHERE key >= ? ORDER BY key LIMIT ?"
        return take(self.db.execute(some, (start, count)), count)

    def view(self) -> Any:
        self.db.execute("BEGIN")
        return self.get

    def close(self) -> None:
        self.db.close()


class Diskcache(Store):
    """Its pairs are in the order of their insertion, so it has no ranges."""

    package = "diskcache"

    def __init__(self, path: Path, sync: bool) -> None:
        import diskcache

        self.db = diskcache.Cache(
            str(path), sqlite_synchronous=2 if sync else 0, eviction_policy="none", size_limit=8 << 30
        )
        self.get, self.put = self.db.get, self.db.set

    def batch(self, pairs: Iterable[Pair]) -> None:
        with self.db.transact():
            for key, value in pairs:
                self.db.set(key, value)

    def items(self) -> Iterator[Pair]:
        return ((key, self.db[key]) for key in self.db)

    def close(self) -> None:
        self.db.close()


STORES: dict[str, type[Store]] = {
    "cleavedb": CleaveDB,
    "cleavedb, record cache": CleaveDBCached,
    "plyvel": Plyvel,
    "lmdb": Lmdb,
    "rocksdict": Rocksdict,
    "sqlite3": Sqlite,
    "diskcache": Diskcache,
}


def version_of(name: str) -> str:
    """The version of a store's package."""
    package = STORES[name].package
    if package == "sqlite3":
        return sqlite3.sqlite_version
    return import_module(package).__version__ if package == "cleavedb" else version(package)


def size_of(path: Path) -> int:
    """Bytes on disk of a store, which is a file with others beside it, or a folder."""
    files = [Path(folder) / name for folder, _, names in os.walk(path) for name in names]
    files = files or list(path.parent.glob(path.name + "*"))
    return sum(file.stat().st_blocks * 512 for file in files)
