"""Values by keys that keep to a size, for `cleavedb.cache`: all of them bytes.

The default keyspace has the values, each with its time to live. The keyspace `index` has of each
key a row of what is known of it, rows in the order of last use, of expiry and of tags, and one row
of totals. One transaction changes both, so that no crash leaves them out of step. One that only
removes puts nothing, since a full disk takes deletes alone: then the row of totals is deleted, and
the next put, or the close, puts it again. An open that finds none counts.
"""

import contextlib
import itertools
import os
import struct
import threading
import time
from typing import Any, Callable, Iterator, NamedTuple, Optional, Tuple, TypeVar

import cleavedb

SECOND = 1_000_000_000
# A get is a write only if the last use that the index knows is older than this.
USE_NOTED_EACH = 3600 * SECOND
# Bytes of an item beside its value and the copies of its key and tag.
_BYTES_OF_EACH = 128
# Items that one transaction removes, since it is held in memory.
_REMOVED_AT_ONCE = 1000
# A change that finds the disk full makes room so often, each time this part of everything.
_ROOM_MADE_MAX = 3
_ROOM_PART = 8

_Result = TypeVar("_Result")

_INDEX = "index"
_BY_KEY, _BY_USE, _BY_EXPIRY, _BY_TAG, _TOTALS = b"k", b"u", b"x", b"t", b"n"
# A number in a row has eight bytes, so that rows are in its order.
_KEY_AT = 9
_NUMBERS = struct.Struct(">QQQ")


def _row(kind: bytes, number: int, rest: bytes = b"") -> bytes:
    return kind + number.to_bytes(_KEY_AT - 1, "big") + rest


class Entry(NamedTuple):
    """What is known of a key: times in nanoseconds since 1970, 0 if it does not expire."""

    used: int
    expires: int
    size: int
    tag: bytes

    def rows(self, key: bytes) -> Iterator[Tuple[bytes, bytes]]:
        yield _BY_KEY + key, _NUMBERS.pack(self.used, self.expires, self.size) + self.tag
        yield _row(_BY_USE, self.used, key), b""
        if self.expires:
            yield _row(_BY_EXPIRY, self.expires, key), b""
        if self.tag:
            yield _row(_BY_TAG, len(self.tag), self.tag + key), b""


class _Rows(NamedTuple):
    """The keyspaces, as they are or as the transaction of a thread sees them."""

    values: Any
    index: Any
    thread: int

    def entry(self, key: bytes) -> Optional[Entry]:
        row = self.index.get(_BY_KEY + key)
        if row is None:
            return None
        used, expires, size = _NUMBERS.unpack_from(row)
        return Entry(used, expires, size, row[_NUMBERS.size :])


def _not_a_cache(path: Any) -> cleavedb.NotADatabase:
    error = cleavedb.NotADatabase(f"{path} has keys that no cache has written")
    error.kind, error.path = "not a database", os.fsdecode(path)
    return error


def _expired(index: Any) -> Any:
    return index.keys(_BY_EXPIRY, _row(_BY_EXPIRY, time.time_ns()))


class Bounded:
    """Values by keys, of about `size` bytes."""

    def __init__(self, path: Any, size: int, options: Any) -> None:
        self._size = size
        self._db = cleavedb.open(path, **options)
        known = any(keyspace.name == _INDEX for keyspace in self._db.keyspaces())
        if not known and next(iter(self._db), None) is not None:
            self._db.close()
            raise _not_a_cache(path)
        self._committed = _Rows(self._db, self._db.keyspace(_INDEX), 0)
        totals = self._committed.index.get(_TOTALS)
        self.count: int
        self.bytes: int
        self._has_totals = totals is not None
        self.count, self.bytes, _ = _NUMBERS.unpack(totals) if totals else self._counted()
        self._lock = threading.RLock()
        self._changing: Optional[_Rows] = None
        self._half_done = False
        # Whether the transaction puts anything.
        self._puts = False
        # The row of what was not used for longest is here, or behind.
        self._oldest = _BY_USE

    def _counted(self) -> Tuple[int, int, int]:
        rows = self._committed.index.items(prefix=_BY_KEY)
        sizes = [_NUMBERS.unpack_from(row)[2] for _, row in rows]
        return len(sizes), sum(sizes), 0

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        # A forked child, in which the lock may be held for ever, gets its error here.
        self._db.get(b"")
        with self._lock:
            yield

    @contextlib.contextmanager
    def transact(self) -> Iterator[None]:
        """Makes the changes of a block take effect together, or not at all if it raises."""
        with self._alone():
            if self._changing is not None:
                yield
                return
            before = self.count, self.bytes
            self._half_done = self._puts = False
            try:
                with self._db.transaction() as values:
                    index = values.keyspace(self._committed.index)
                    self._changing = _Rows(values, index, threading.get_ident())
                    yield
                    if self._half_done:
                        raise RuntimeError("a change in the block has failed, so none has effect")
                    has_totals = self._change_totals(index, before != (self.count, self.bytes))
                self._has_totals = has_totals
            except BaseException:
                self.count, self.bytes = before
                self._oldest = _BY_USE
                raise
            finally:
                self._changing = None

    def _change_totals(self, index: Any, changed: bool) -> bool:
        """Ends a transaction. Returns whether the row of totals is there after it."""
        if self._puts and (changed or not self._has_totals):
            index.put(_TOTALS, _NUMBERS.pack(self.count, self.bytes, 0))
            return True
        if changed and self._has_totals:
            index.delete(_TOTALS)
        return self._has_totals and not changed

    def with_room(self, change: Callable[[], _Result]) -> _Result:
        """Makes a change in a transaction. If the disk is full, and the change is in no block of
        others, removes what was not used for longest and tries again, a few times. Other threads
        wait, so that each finds the room that was made and removes no more."""
        with self._alone():
            for _ in range(_ROOM_MADE_MAX):
                try:
                    with self.transact():
                        return change()
                except cleavedb.NoSpace:
                    if self._changing is not None:
                        raise
                    self._fit(self.bytes - self.bytes // _ROOM_PART)
                    # What was removed, now or before, leaves the disk.
                    self._db.compact()
            with self.transact():
                return change()

    def _rows(self) -> _Rows:
        """What this thread sees."""
        changing = self._changing
        if changing is not None and changing.thread == threading.get_ident():
            return changing
        return self._committed

    def find(self, key: bytes) -> Tuple[Optional[bytes], Optional[Entry]]:
        """The value of a key that is there, and what is known of it."""
        rows = self._rows()
        value = rows.values.get(key)
        entry = None if value is None else rows.entry(key)
        # A key may leave between the two.
        return (None, None) if entry is None else (value, entry)

    def has(self, key: bytes) -> bool:
        """Whether a key is there."""
        return key in self._rows().values

    def keys(self) -> Iterator[bytes]:
        """All keys, in the order of their bytes."""
        return self._rows().values.keys()  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return self.count - sum(1 for _ in _expired(self._rows().index))

    def use(self, key: bytes) -> Optional[bytes]:
        """The value of a key that is there. Its use is noted, if that was not done of late and the
        disk is not full."""
        value, entry = self.find(key)
        if entry is not None and time.time_ns() - entry.used > USE_NOTED_EACH:
            with contextlib.suppress(cleavedb.NoSpace), self.transact():
                self._note_use(key)
        return value

    def _note_use(self, key: bytes) -> None:
        rows, now = self._rows(), time.time_ns()
        entry = rows.entry(key)
        # Another thread may have noted it, or removed the key.
        if entry is not None and now - entry.used > USE_NOTED_EACH:
            with self._change():
                self._puts = True
                rows.index.delete(_row(_BY_USE, entry.used, key))
                for row, content in entry._replace(used=now).rows(key):
                    rows.index.put(row, content)

    @contextlib.contextmanager
    def _change(self) -> Iterator[None]:
        """Marks a change of several rows, which may fail in the middle."""
        try:
            yield
        except BaseException:
            self._half_done = True
            raise

    def remove(self, key: bytes) -> bool:
        """Removes a key in a transaction. Returns whether it was there, or had expired."""
        rows = self._rows()
        entry = rows.entry(key)
        if entry is None:
            return False
        with self._change():
            rows.values.delete(key)
            for row, _ in entry.rows(key):
                rows.index.delete(row)
            self.count -= 1
            self.bytes -= entry.size
        return True

    def put(self, key: bytes, value: bytes, expires: int, tag: bytes) -> None:
        """Puts a value in a transaction, and makes room for it."""
        self.remove(key)
        rows, now = self._rows(), time.time_ns()
        if expires and expires <= now:
            return
        size = _BYTES_OF_EACH + len(value) + 3 * len(key) + 2 * len(tag)
        with self._change():
            self._puts = True
            rows.values.put(key, value, ttl=(expires - now) / SECOND if expires else None)
            for row, content in Entry(now, expires, size, tag).rows(key):
                rows.index.put(row, content)
            self.count += 1
            self.bytes += size
        # The clock may have gone back.
        self._oldest = min(self._oldest, _row(_BY_USE, now))
        if self.bytes > self._size:
            self.fit()

    def _remove_rows(
        self,
        walk: Callable[[Any], Iterator[bytes]],
        key_at: int,
        enough: Callable[[], bool] = lambda: False,
    ) -> int:
        """Removes the items of rows of the index, whose keys begin at `key_at`."""
        removed = 0
        while True:
            before = removed
            with self.transact():
                for row in itertools.islice(walk(self._rows().index), _REMOVED_AT_ONCE):
                    if enough():
                        break
                    self.remove(row[key_at:])
                    removed += 1
            if removed - before < _REMOVED_AT_ONCE:
                return removed

    def remove_tagged(self, tag: bytes) -> int:
        """Removes all that has a tag. Returns how many."""
        prefix = _row(_BY_TAG, len(tag), tag)
        return self._remove_rows(lambda index: index.keys(prefix=prefix), len(prefix))

    def remove_expired(self) -> int:
        """Removes what has expired, whose values are gone already. Returns how many."""
        return self._remove_rows(_expired, _KEY_AT)

    def fit(self) -> int:
        """Removes what has expired, and then what was not used for longest, until the rest keeps to
        the size. Returns how many."""
        return self._fit(self._size)

    def _fit(self, size: int) -> int:
        expired = self.remove_expired()
        return expired + self._remove_rows(self._by_use, _KEY_AT, lambda: self.bytes <= size)

    def _by_use(self, index: Any) -> Iterator[bytes]:
        # From where the last search ended, since a search goes past what was removed, too.
        for row in index.keys(self._oldest, _BY_EXPIRY):
            self._oldest = row
            yield row

    def clear(self) -> int:
        """Removes everything. Returns how many that were."""
        with self.transact(), self._change():
            rows, count = self._rows(), self.count
            rows.values.delete_range(prefix=b"")
            rows.index.delete_range(prefix=b"")
            self.count = self.bytes = 0
        return count

    def close(self) -> None:
        """Closes the database."""
        # The next open counts what a full disk does not take; a closed database has it.
        if self.count and not self._has_totals:
            with contextlib.suppress(cleavedb.Error), self.transact():
                self._puts = True
        self._db.close()
