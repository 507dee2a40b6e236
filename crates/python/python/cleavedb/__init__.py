"""CleaveDB: an embedded, ordered key-value store.

>>> import cleavedb
>>> with cleavedb.open("fruit.db") as db:
...     db[b"apple"] = b"red"
...     print(db.get(b"apple"), list(db.items(prefix=b"a")))
b'red' [(b'apple', b'red')]

Keys and values are bytes: any object with the buffer protocol goes in, `bytes` come out.
"""

import io as _io

from ._cleavedb import (
    Changes,
    Closed,
    Conflict,
    Corruption,
    Cursor,
    Database,
    Error,
    Forked,
    InvalidArgument,
    Items,
    Keyspace,
    Locked,
    NoSpace,
    NotADatabase,
    Operand,
    Reader,
    Snapshot,
    Transaction,
    WriteBatch,
    __version__,
    add,
    append,
    destroy,
    max,
    open,
    restore,
)
from .text import text

__all__ = [
    "Changes",
    "Closed",
    "Conflict",
    "Corruption",
    "Cursor",
    "Database",
    "Error",
    "Forked",
    "InvalidArgument",
    "Items",
    "Keyspace",
    "Locked",
    "NoSpace",
    "NotADatabase",
    "Operand",
    "Reader",
    "Snapshot",
    "Transaction",
    "ValueFile",
    "WriteBatch",
    "__version__",
    "add",
    "append",
    "destroy",
    "max",
    "open",
    "restore",
    "text",
]


class ValueFile(_io.RawIOBase):
    """A value, open for reading, as `get_file` returns it. It is read in pieces."""

    def __init__(self, reader):
        self._reader = reader

    def readable(self):
        return True

    def seekable(self):
        return True

    def readinto(self, buffer):
        self._checkClosed()
        piece = self._reader.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def seek(self, offset, whence=_io.SEEK_SET):
        self._checkClosed()
        return self._reader.seek(offset, whence)

    def close(self):
        self._reader = None
        super().close()
