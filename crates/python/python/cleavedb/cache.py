"""A cache on disk that keeps to a size, with the calls of diskcache.

>>> from cleavedb.cache import Cache
>>> with Cache("pages.db", size=1 << 30) as cache:
...     cache["/index"] = "<html>"
...     stored = cache.set("/news", {"lines": 3}, expire=60, tag="news")
...     print(cache.get("/news"), len(cache))
{'lines': 3} 2
"""

import functools
import hashlib
import threading
import time
from typing import Any, Callable, ContextManager, Iterator, Optional, Tuple, TypeVar, Union

from cleavedb.bounded import SECOND, Bounded
from cleavedb.codecs import Lettered, is_told_by_repr

_Key = Union[bytes, str, int]
_Function = TypeVar("_Function", bound=Callable[..., Any])

_MISSING = object()
# A call that memoize remembers has the hash of longer arguments in its key.
_ARGUMENTS_MAX = 1000


def _expiry(expire: Optional[float]) -> int:
    return 0 if expire is None else max(1, time.time_ns() + int(expire * SECOND))


def _making_room(method: _Function) -> _Function:
    @functools.wraps(method)
    def changing(self: "Cache", *args: Any, **kwargs: Any) -> Any:
        return self._items.with_room(lambda: method(self, *args, **kwargs))

    return changing  # type: ignore[return-value]


class Cache:
    """Keys and values in the directory `path`. When they take more than about `size` bytes, those
    go that were not used for longest; last use is known to the hour. On a full disk, too, a change
    makes room so and gets and removals pass; a block of `transact` raises `cleavedb.NoSpace`.

    Keys and tags are `bytes`, `str` or `int`. Values are these, `float`, `None`, and what `codec`
    keeps: `json`, by which a tuple comes back as a list, or `pickle`, which runs what a foreign
    file says: use it only for data of your own. Times to live are in seconds.

    Each change is one transaction, of which no crash leaves a part. It survives the death of the
    process, so that what was deleted does not come back with the next one;
    `durability="buffered"` gives that up, and `"sync"` makes it survive a loss of power. Threads
    may share a cache; one process opens it. Other options are those of `cleavedb.open`.
    """

    def __init__(
        self,
        path: Any,
        size: int = 1 << 30,
        *,
        codec: str = "json",
        durability: str = "os",
        **options: Any,
    ) -> None:
        self._codec = Lettered(codec)
        self._items = Bounded(path, size, {"durability": durability, **options})
        self._stats_lock = threading.Lock()
        self._hits = self._misses = 0

    def transact(self) -> ContextManager[None]:
        """A block whose changes take effect together, or not at all if it raises. Changes by other
        threads wait for its end; their reads see what was there before."""
        return self._items.transact()

    def set(
        self, key: _Key, value: Any, expire: Optional[float] = None, tag: Optional[_Key] = None
    ) -> bool:
        """Stores `value`, for `expire` seconds if that is given; `evict` removes all of a tag.
        Returns `True`, as diskcache does."""
        self._keep(key, self._codec.encode(value), expire, tag)
        return True

    @_making_room
    def _keep(self, key: _Key, kept: bytes, expire: Optional[float], tag: Optional[_Key]) -> None:
        row = self._codec.encode_key(key)
        tagged = b"" if tag is None else self._codec.encode_key(tag)
        self._items.put(row, kept, _expiry(expire), tagged)

    @_making_room
    def add(
        self, key: _Key, value: Any, expire: Optional[float] = None, tag: Optional[_Key] = None
    ) -> bool:
        """As `set`, unless the key is there. Returns whether it stored."""
        return key not in self and self.set(key, value, expire, tag)

    def get(self, key: _Key, default: Any = None) -> Any:
        """The value of `key`, or `default` if it is not there or has expired."""
        kept = self._items.use(self._codec.encode_key(key))
        with self._stats_lock:
            self._hits += kept is not None
            self._misses += kept is None
        return default if kept is None else self._codec.decode(kept)

    @_making_room
    def incr(self, key: _Key, delta: float = 1, default: Optional[float] = 0) -> Any:
        """Adds to a number, whose expiry and tag stay, and returns it. One that is not there begins
        as `default`; `KeyError` if that is `None`."""
        row = self._codec.encode_key(key)
        kept, entry = self._items.find(row)
        if kept is not None and entry is not None:
            number, expires, tag = self._codec.decode(kept), entry.expires, entry.tag
        elif default is not None:
            number, expires, tag = default, 0, b""
        else:
            raise KeyError(key)
        self._items.put(row, self._codec.encode(number + delta), expires, tag)
        return number + delta

    def decr(self, key: _Key, delta: float = 1, default: Optional[float] = 0) -> Any:
        """Subtracts from a number, as `incr` adds."""
        return self.incr(key, -delta, default)

    @_making_room
    def touch(self, key: _Key, expire: Optional[float] = None) -> bool:
        """Lets a key live `expire` seconds from now, or for good. Returns whether it is there."""
        row = self._codec.encode_key(key)
        kept, entry = self._items.find(row)
        if kept is None or entry is None:
            return False
        self._items.put(row, kept, _expiry(expire), entry.tag)
        return True

    def pop(self, key: _Key, default: Any = None) -> Any:
        """Removes `key` and returns its value, or `default` if it is not there."""
        row = self._codec.encode_key(key)
        with self.transact():
            kept, _ = self._items.find(row)
            self._items.remove(row)
        return default if kept is None else self._codec.decode(kept)

    def delete(self, key: _Key) -> bool:
        """Removes `key`. Returns whether it was there."""
        row = self._codec.encode_key(key)
        with self.transact():
            there = self._items.has(row)
            self._items.remove(row)
        return there

    def evict(self, tag: _Key) -> int:
        """Removes all that has a tag. Returns how many."""
        return self._items.remove_tagged(self._codec.encode_key(tag))

    def expire(self) -> int:
        """Forgets what has expired, which no get finds any more; a full cache does it by itself.
        Returns how many."""
        return self._items.remove_expired()

    def cull(self) -> int:
        """Removes what does not fit `size`, as each `set` does. Returns how many."""
        return self._items.fit()

    def clear(self) -> int:
        """Removes everything. Returns how many keys that were, expired ones too."""
        return self._items.clear()

    def memoize(
        self, *, expire: Optional[float] = None, tag: Optional[_Key] = None
    ) -> Callable[[_Function], _Function]:
        """A decorator: the cache remembers what a function returns for the same arguments, which
        are bytes, `str`, numbers, `None`, and lists, tuples and dicts of them.
        `function.__cache_key__(arguments)` is the key of a call."""

        def decorated(function: _Function) -> _Function:
            def key_of(*args: Any, **kwargs: Any) -> str:
                return _key_of_call(function, args, kwargs)

            @functools.wraps(function)
            def remembered(*args: Any, **kwargs: Any) -> Any:
                key = key_of(*args, **kwargs)
                value = self.get(key, _MISSING)
                if value is _MISSING:
                    kept = self._codec.encode(function(*args, **kwargs))
                    self._keep(key, kept, expire, tag)
                    # A later call returns it so.
                    value = self._codec.decode(kept)
                return value

            remembered.__cache_key__ = key_of  # type: ignore[attr-defined]
            return remembered  # type: ignore[return-value]

        return decorated

    def stats(self, *, reset: bool = False) -> Tuple[int, int]:
        """How often a get has found its key since the cache was opened, and how often not."""
        with self._stats_lock:
            counts = self._hits, self._misses
            if reset:
                self._hits = self._misses = 0
        return counts

    def volume(self) -> int:
        """About how many bytes everything takes: what `size` bounds."""
        return self._items.bytes

    def __getitem__(self, key: _Key) -> Any:
        value = self.get(key, _MISSING)
        if value is _MISSING:
            raise KeyError(key)
        return value

    def __setitem__(self, key: _Key, value: Any) -> None:
        self.set(key, value)

    def __delitem__(self, key: _Key) -> None:
        if not self.delete(key):
            raise KeyError(key)

    def __contains__(self, key: _Key) -> bool:
        return self._items.has(self._codec.encode_key(key))

    def __iter__(self) -> Iterator[Any]:
        return map(self._codec.decode, self._items.keys())

    def __len__(self) -> int:
        return len(self._items)

    def close(self) -> None:
        """Closes the database. Later calls raise `cleavedb.Closed`."""
        self._items.close()

    def __enter__(self) -> "Cache":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _key_of_call(function: Any, args: Any, kwargs: Any) -> str:
    if not is_told_by_repr((args, kwargs)):
        why = "are bytes, str, numbers, None, and lists, tuples and dicts of them"
        raise TypeError(f"arguments of {function.__qualname__}, which a cache remembers, {why}")
    told = ", ".join([*map(repr, args), *(f"{name}={kwargs[name]!r}" for name in sorted(kwargs))])
    if len(told) > _ARGUMENTS_MAX:
        told = hashlib.sha256(told.encode("utf-8", "backslashreplace")).hexdigest()
    return f"{function.__module__}.{function.__qualname__}({told})"
