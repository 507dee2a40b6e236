"""Keys and values as `str`, which are kept in UTF-8: what `cleavedb.text` returns.

>>> import cleavedb
>>> with cleavedb.open("fruit.db") as db:
...     fruit = cleavedb.text(db)
...     fruit["apple"] = "red"
...     print(list(fruit.items(prefix="a")))
[('apple', 'red')]
"""

from __future__ import annotations

from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Optional,
    Tuple,
    TypeVar,
    Union,
    overload,
)

import cleavedb

_D = TypeVar("_D")


def encoded(text: str) -> bytes:
    """The bytes of a text; `TypeError` if it is none."""
    if not isinstance(text, str):
        raise TypeError(f"str is needed here, not {type(text).__name__}")
    return text.encode()


def _encoded_or_none(text: Optional[str]) -> Optional[bytes]:
    return None if text is None else encoded(text)


def _decoded(data: bytes, of: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        error.reason += f", in {of}; the database itself, without text, has it as bytes"
        raise


def _key(key: bytes) -> str:
    return _decoded(key, f"the key {key!r}")


def _value(key: Any, value: bytes) -> str:
    return _decoded(value, f"the value of the key {key!r}")


def _item(item: Tuple[bytes, bytes]) -> Tuple[str, str]:
    key = _key(item[0])
    return key, _value(key, item[1])


def _within(
    call: Any, start: Optional[str], stop: Optional[str], prefix: Optional[str], terms: Any
) -> Any:
    ends = map(_encoded_or_none, (start, stop))
    return call(*ends, prefix=_encoded_or_none(prefix), **terms)


class _View:
    def __init__(self, of: Any) -> None:
        self._of = of


class TextReader(_View):
    """What can be read, as text: a snapshot, or what the classes below are of.

    A key or value that is not UTF-8 raises `UnicodeDecodeError`, which says of which key. Ranges
    are in the order of the keys' bytes, which for UTF-8 is that of code points; `how` is
    `include_start`, `include_stop` and `reverse`, as for bytes.
    """

    @overload
    def get(self, key: str) -> Optional[str]: ...
    @overload
    def get(self, key: str, default: _D) -> Union[str, _D]: ...
    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or `default` if it is not there."""
        value = self._of.get(encoded(key))
        return default if value is None else _value(key, value)

    def get_many(self, keys: Iterable[str]) -> List[Optional[str]]:
        """The values of `keys` in their order, `None` for each that is not there."""
        keys = list(keys)
        found = self._of.get_many(map(encoded, keys))
        return [None if value is None else _value(key, value) for key, value in zip(keys, found)]

    def items(
        self,
        start: Optional[str] = None,
        stop: Optional[str] = None,
        *,
        prefix: Optional[str] = None,
        **how: bool,
    ) -> Iterator[Tuple[str, str]]:
        """Pairs of key and value from `start` up to and without `stop`, or all with `prefix`."""
        return map(_item, _within(self._of.items, start, stop, prefix, how))

    def keys(
        self,
        start: Optional[str] = None,
        stop: Optional[str] = None,
        *,
        prefix: Optional[str] = None,
        **how: bool,
    ) -> Iterator[str]:
        """Keys, as `items` goes through them; no value is read."""
        return map(_key, _within(self._of.keys, start, stop, prefix, how))

    def values(self, *ends: Optional[str], **terms: Any) -> Iterator[str]:
        """Values, as `items` goes through them, whose arguments it has."""
        return (value for _, value in self.items(*ends, **terms))

    def __getitem__(self, key: str) -> str:
        value = self._of.get(encoded(key))
        if value is None:
            raise KeyError(key)
        return _value(key, value)

    def __contains__(self, key: str) -> bool:
        return encoded(key) in self._of

    def __iter__(self) -> Iterator[str]:
        return self.keys()


class TextWriter(_View):
    """What can be written, as text: a write batch, or what the classes below are of.

    `terms` are those of the same calls with bytes, as `ttl` and `durability`.
    """

    def put(self, key: str, value: str, **terms: Any) -> None:
        """Stores `value` under `key`."""
        self._of.put(encoded(key), encoded(value), **terms)

    def delete(self, key: str, **terms: Any) -> None:
        """Removes `key`, if it is there."""
        self._of.delete(encoded(key), **terms)

    def delete_range(
        self,
        start: Optional[str] = None,
        stop: Optional[str] = None,
        *,
        prefix: Optional[str] = None,
        **terms: Any,
    ) -> None:
        """Removes all keys from `start` up to and without `stop`, or all with `prefix`."""
        _within(self._of.delete_range, start, stop, prefix, terms)

    def merge(self, key: str, operand: cleavedb.Operand, **terms: Any) -> None:
        """Changes the value of `key` by `operand`, whose own bytes are bytes, without a read."""
        self._of.merge(encoded(key), operand, **terms)


class TextStore(TextReader, TextWriter):
    """What can be read and written, as text: a transaction, or a keyspace."""

    def __setitem__(self, key: str, value: str) -> None:
        self.put(key, value)

    def __delitem__(self, key: str) -> None:
        try:
            del self._of[encoded(key)]
        except KeyError:
            raise KeyError(key) from None


class TextKeyspace(TextStore):
    """A keyspace, or a database, as text."""

    _of: cleavedb.Keyspace

    def put_if_absent(self, key: str, value: str, **terms: Any) -> bool:
        """Stores `value` unless `key` is there. Returns whether it did."""
        return self._of.put_if_absent(encoded(key), encoded(value), **terms)

    def compare_and_swap(
        self, key: str, expected: Optional[str], new: Optional[str], **terms: Any
    ) -> bool:
        """Stores `new` if the value is `expected`, where `None` is no value on either side.
        Returns whether it did."""
        values = map(_encoded_or_none, (expected, new))
        return self._of.compare_and_swap(encoded(key), *values, **terms)

    def update(
        self, key: str, change: Callable[[Optional[str]], Optional[str]], **terms: Any
    ) -> Optional[str]:
        """Replaces the value of `key` by `change(old)`, where `None` is no value on either side,
        and returns the new one. If another write comes between, `change` is called again."""

        def changed(old: Optional[bytes]) -> Optional[bytes]:
            return _encoded_or_none(change(None if old is None else _value(key, old)))

        new = self._of.update(encoded(key), changed, **terms)
        return None if new is None else new.decode()

    def ingest(self, pairs: Iterable[Tuple[str, str]]) -> Dict[str, int]:
        """Loads pairs of key and value, sorted by the keys' bytes. Returns what it wrote."""
        return self._of.ingest((encoded(key), encoded(value)) for key, value in pairs)


@overload
def text(of: cleavedb.Keyspace) -> TextKeyspace: ...
@overload
def text(of: cleavedb.Transaction) -> TextStore: ...
@overload
def text(of: cleavedb.Snapshot) -> TextReader: ...
@overload
def text(of: cleavedb.WriteBatch) -> TextWriter: ...
def text(of: Any) -> Any:
    """A view of a database, keyspace, transaction, snapshot or write batch in which keys and values
    are `str`, in UTF-8. It holds nothing of its own: what it is of is closed as ever."""
    views = (
        (cleavedb.Keyspace, TextKeyspace),
        (cleavedb.Transaction, TextStore),
        (cleavedb.Snapshot, TextReader),
        (cleavedb.WriteBatch, TextWriter),
    )
    for kind, view in views:
        if isinstance(of, kind):
            return view(of)
    raise TypeError(f"text is of a database, or of an object of one, not of {type(of).__name__}")
