"""The interface of plyvel, over CleaveDB: `import cleavedb.plyvel as plyvel` is the one change.

Accepted without effect, since there is no equal: `paranoid_checks`, `max_open_files`,
`block_restart_interval`, `verify_checksums` (checksums are always verified) and `fill_cache`.
`compression="snappy"` means lz4. A comparator must order keys as bytes; another is refused.
Writes survive the death of the process, as LevelDB's; with `sync=True` a loss of power, too.
A database of LevelDB is not opened: its files are others.
"""

import builtins
import contextlib
import itertools
import os

import cleavedb

__leveldb_version__ = "1.23"
__version__ = "1.5.1"

__all__ = [
    "DB",
    "CorruptionError",
    "Error",
    "IOError",
    "Iterator",
    "IteratorInvalidError",
    "PrefixedDB",
    "RawIterator",
    "Snapshot",
    "WriteBatch",
    "destroy_db",
    "repair_db",
]

_CLOSED = "Database or iterator is closed"


class Error(Exception):
    """Any error of the database."""


class IOError(Error, builtins.IOError):
    """The operating system refused a call, or the directory is not what it should be."""


class CorruptionError(Error):
    """Bytes on disk are not what was written."""


class IteratorInvalidError(Error):
    """A raw iterator is on no entry."""


def _raised(error):
    """The exception of plyvel for one of CleaveDB."""
    if isinstance(error, cleavedb.Closed):
        return RuntimeError(_CLOSED)
    if isinstance(error, cleavedb.Corruption):
        return CorruptionError(str(error))
    if isinstance(error, cleavedb.InvalidArgument):
        return Error(str(error))
    return IOError(str(error))


def _call(function, *args, **kwargs):
    try:
        return function(*args, **kwargs)
    except cleavedb.Error as error:
        raise _raised(error) from error


def _integer(name, value):
    if not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}")
    return value


def _orders_as_bytes(comparator):
    keys = [bytes(key) for n in range(4) for key in itertools.product(b"\x00Aa\xff", repeat=n)]
    pairs = itertools.product(keys[:64], repeat=2)
    return all((comparator(a, b) > 0) - (comparator(a, b) < 0) == (a > b) - (a < b) for a, b in pairs)


def _check_comparator(comparator, name):
    if (comparator is None) != (name is None):
        raise ValueError("'comparator' and 'comparator_name' must be specified together")
    if comparator is None:
        return
    if not isinstance(name, bytes):
        raise TypeError("'comparator_name' must be bytes")
    if not callable(comparator):
        raise TypeError("custom comparator object must be callable")
    if name != b"leveldb.BytewiseComparator" and not _orders_as_bytes(comparator):
        raise Error("keys are ordered as bytes; encode them so that their bytes sort as they do")


class DB:
    """A database in the directory `name`."""

    def __init__(
        self,
        name,
        *,
        create_if_missing=False,
        error_if_exists=False,
        paranoid_checks=None,
        write_buffer_size=None,
        max_open_files=None,
        lru_cache_size=None,
        block_size=None,
        block_restart_interval=None,
        max_file_size=None,
        compression="snappy",
        bloom_filter_bits=0,
        comparator=None,
        comparator_name=None,
    ):
        self._name = name
        options = {"create_if_missing": bool(create_if_missing)}
        options["error_if_exists"] = bool(error_if_exists)
        options["durability"] = "os"
        sizes = {
            "memtable_bytes": ("write_buffer_size", write_buffer_size, 1 << 20),
            "cache_bytes": ("lru_cache_size", lru_cache_size, 1 << 20),
            "block_bytes": ("block_size", block_size, 1 << 10),
            "table_bytes": ("max_file_size", max_file_size, 1 << 20),
        }
        for option, (theirs, value, least) in sizes.items():
            if value is not None:
                options[option] = max(_integer(theirs, value), least)
        if bloom_filter_bits:
            options["filter_bits"] = _integer("bloom_filter_bits", bloom_filter_bits)
        if isinstance(compression, bytes):
            compression = compression.decode()
        if compression is not None and compression != "snappy":
            raise ValueError("'compression' must be None or 'snappy'")
        options["compression"] = "none" if compression is None else "lz4"
        # Sizes that are named may take three quarters of all memory, which is a bound.
        taken = options.get("cache_bytes", 0) + 4 * options.get("memtable_bytes", 0)
        if taken:
            options["memory_bytes"] = 3 * taken + (256 << 20)
        _check_comparator(comparator, comparator_name)
        self._db = _call(cleavedb.open, os.fsdecode(name), **options)

    @property
    def name(self):
        return self._name

    @property
    def closed(self):
        return self._db.closed

    def _check_open(self):
        if self._db.closed:
            raise RuntimeError("Database is closed")

    def close(self):
        _call(self._db.close)

    def __repr__(self):
        return f"<plyvel.DB with name {self._name!r}{' (closed)' if self.closed else ''}>"

    def get(self, key, default=None, *, verify_checksums=False, fill_cache=True):
        try:
            return self._db.get(key, default)
        except cleavedb.Error as error:
            raise _raised(error) from error

    def put(self, key, value, *, sync=False):
        try:
            self._db.put(key, value, durability="sync" if sync else None)
        except cleavedb.Error as error:
            raise _raised(error) from error

    def delete(self, key, *, sync=False):
        _call(self._db.delete, key, durability="sync" if sync else None)

    def write_batch(self, *, transaction=False, sync=False):
        return WriteBatch(self, b"", transaction, sync)

    def iterator(self, **options):
        self._check_open()
        return Iterator(_call(self._db.snapshot), b"", **options)

    def raw_iterator(self, *, verify_checksums=False, fill_cache=True):
        self._check_open()
        return RawIterator(_call(self._db.cursor))

    def __iter__(self):
        return self.iterator()

    def snapshot(self):
        return Snapshot(db=self)

    def get_property(self, name):
        """`leveldb.stats`, `leveldb.sstables` and `leveldb.num-files-at-levelN`."""
        if not isinstance(name, bytes):
            raise TypeError("the name of a property is bytes")
        self._check_open()
        lines = self._db.metrics().splitlines()
        if name == b"leveldb.stats":
            return "\n".join(lines).encode()
        if name == b"leveldb.sstables":
            return "\n".join(line for line in lines if "level=" in line).encode()
        level = name[len(b"leveldb.num-files-at-level") :]
        if name.startswith(b"leveldb.num-files-at-level") and level.isdigit():
            of = f'cleavedb_level_tables{{level="{level.decode()}"}} '
            counts = [line[len(of) :] for line in lines if line.startswith(of)]
            return (counts[0] if counts else "0").encode()
        return None

    def compact_range(self, *, start=None, stop=None):
        _call(self._db.compact_range, start, stop)

    def approximate_size(self, start, stop):
        return self.approximate_sizes((start, stop))[0]

    def approximate_sizes(self, *ranges):
        return [_call(self._db.approximate_size, start, stop) for start, stop in ranges]

    def prefixed_db(self, prefix):
        return PrefixedDB(db=self, prefix=prefix)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


class PrefixedDB:
    """The keys of a database that begin with a prefix, which is left out."""

    def __init__(self, *, db, prefix):
        self.db = db
        self.prefix = bytes(prefix)

    def get(self, key, default=None, *, verify_checksums=False, fill_cache=True):
        return self.db.get(self.prefix + key, default)

    def put(self, key, value, *, sync=False):
        self.db.put(self.prefix + key, value, sync=sync)

    def delete(self, key, *, sync=False):
        self.db.delete(self.prefix + key, sync=sync)

    def write_batch(self, *, transaction=False, sync=False):
        return WriteBatch(self.db, self.prefix, transaction, sync)

    def iterator(self, **options):
        self.db._check_open()
        return Iterator(_call(self.db._db.snapshot), self.prefix, **options)

    def __iter__(self):
        return self.iterator()

    def snapshot(self):
        return Snapshot(db=self.db, prefix=self.prefix)

    def prefixed_db(self, prefix):
        return PrefixedDB(db=self.db, prefix=self.prefix + prefix)


class WriteBatch:
    """Writes that take effect together."""

    def __init__(self, db, prefix, transaction, sync):
        db._check_open()
        self._db = db
        self._prefix = prefix
        self._transaction = transaction
        self._durability = "sync" if sync else None
        self._batch = db._db.write_batch()

    def put(self, key, value):
        self._db._check_open()
        _call(self._batch.put, self._prefix + key, value)

    def delete(self, key):
        self._db._check_open()
        _call(self._batch.delete, self._prefix + key)

    def clear(self):
        self._db._check_open()
        self._batch.clear()

    def write(self):
        # What is written is a copy: the batch keeps its writes, as LevelDB's does.
        batch = self._db._db.write_batch(durability=self._durability)
        batch.append(self._batch)
        _call(batch.write)

    def approximate_size(self):
        return self._batch.size_bytes

    def append(self, source):
        _call(self._batch.append, source._batch)

    def __enter__(self):
        self._db._check_open()
        return self

    def __exit__(self, kind, error, traceback):
        if not (self._transaction and kind is not None):
            self.write()
        self.clear()


class Snapshot:
    """A database as of one moment."""

    def __init__(self, *, db, prefix=b""):
        db._check_open()
        self._prefix = prefix
        self._snapshot = _call(db._db.snapshot)

    def get(self, key, default=None, *, verify_checksums=False, fill_cache=True):
        return _call(self._snapshot.get, self._prefix + key, default)

    def iterator(self, **options):
        return Iterator(self._snapshot, self._prefix, **options)

    def raw_iterator(self, *, verify_checksums=False, fill_cache=True):
        return RawIterator(_call(self._snapshot.cursor))

    def __iter__(self):
        return self.iterator()

    def close(self):
        self._snapshot.close()

    release = close

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


class Iterator:
    """An iterator that stands between two entries, and steps over one of them at a time.

    As long as it only goes on, it reads many entries at once; the first step back, or seek, turns
    it into a cursor.
    """

    def __init__(
        self,
        reader,
        db_prefix,
        *,
        reverse=False,
        start=None,
        stop=None,
        include_start=True,
        include_stop=False,
        prefix=None,
        include_key=True,
        include_value=True,
        verify_checksums=False,
        fill_cache=True,
    ):
        if prefix is not None and (start is not None or stop is not None):
            raise TypeError("'prefix' cannot be used together with 'start' or 'stop'")
        if prefix is not None or (start is None and stop is None):
            span = {"prefix": db_prefix + (prefix or b"")}
        else:
            span = {"start": db_prefix + (start or b""), "stop": db_prefix + (stop or b"")}
            span["include_start"] = include_start or start is None
            span["include_stop"] = include_stop
            if stop is None:
                span["stop"] = _behind(db_prefix)
                span["include_stop"] = False
        self._db_prefix = db_prefix
        self._reverse = reverse
        self._include = (include_key, include_value)
        self._cursor = _call(reader.cursor, **span)
        walk = reader.items if include_value else reader.keys
        self._items = _call(walk, reverse=reverse, **span)
        self._last = None
        # Whether it stands behind the entry of the cursor, and not in front of it.
        self._behind = reverse

    def _shown(self, key, value):
        include_key, include_value = self._include
        key = key[len(self._db_prefix) :]
        if include_key and include_value:
            return key, value
        if include_key:
            return key
        return value if include_value else None

    def __iter__(self):
        return self

    def __next__(self):
        if self._items is None:
            return self._step(not self._reverse)
        try:
            item = next(self._items)
        except cleavedb.Error as error:
            raise _raised(error) from error
        if not self._include[1]:
            item = (item, None)
        self._last = item[0]
        return self._shown(*item)

    def prev(self):
        return self._step(self._reverse)

    def _as_cursor(self):
        """The cursor, where the iterator has come to."""
        if self._cursor is None:
            raise RuntimeError(_CLOSED)
        if self._items is not None:
            self._items = None
            if self._last is not None:
                _call(self._cursor.seek, self._last)
                self._behind = not self._reverse
            elif self._reverse:
                _call(self._cursor.last)
            else:
                _call(self._cursor.first)
        return self._cursor

    def _step(self, forward):
        cursor = self._as_cursor()
        on_it = _call(lambda: cursor.key) is not None and self._behind != forward
        if not on_it and not _call(cursor.next if forward else cursor.prev):
            raise StopIteration
        self._behind = forward
        value = _call(lambda: cursor.value) if self._include[1] else None
        return self._shown(cursor.key, value)

    def seek_to_start(self):
        _call(self._as_cursor().first)
        self._behind = False

    def seek_to_stop(self):
        _call(self._as_cursor().last)
        self._behind = True

    def seek(self, target):
        _call(self._as_cursor().seek, self._db_prefix + target)
        self._behind = False

    def close(self):
        if self._cursor is not None:
            self._cursor.close()
        self._cursor = self._items = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def _behind(prefix):
    """The first key behind all with `prefix`; `None` if there is none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


class RawIterator:
    """LevelDB's own iterator: it is on an entry, or on none."""

    def __init__(self, cursor):
        self._cursor = cursor

    def _open(self):
        if self._cursor is None:
            raise RuntimeError(_CLOSED)
        return self._cursor

    def _valid(self):
        if not self.valid():
            raise IteratorInvalidError()
        return self._cursor

    def valid(self):
        cursor = self._open()
        return _call(lambda: cursor.key) is not None

    def seek_to_first(self):
        _call(self._open().first)

    def seek_to_last(self):
        _call(self._open().last)

    def seek(self, target):
        _call(self._open().seek, target)

    def next(self):
        _call(self._valid().next)

    def prev(self):
        _call(self._valid().prev)

    def key(self):
        return self._valid().key

    def value(self):
        cursor = self._valid()
        return _call(lambda: cursor.value)

    def item(self):
        return self.key(), self.value()

    def close(self):
        if self._cursor is not None:
            self._cursor.close()
        self._cursor = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def repair_db(name, **options):
    """Opens the database, which recovers it, and checks all of it."""
    with _call(cleavedb.open, os.fsdecode(name), create_if_missing=False) as db:
        problems = _call(db.verify)["problems"]
    if problems:
        raise CorruptionError(f"{problems[0]}; `cleave repair` saves what can be read")


def destroy_db(name):
    """Removes the database, and its directory unless something else is in it."""
    _call(cleavedb.destroy, os.fsdecode(name))
    with contextlib.suppress(OSError):
        os.rmdir(name)
