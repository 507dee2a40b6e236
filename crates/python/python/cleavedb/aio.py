"""CleaveDB in asyncio: each call runs in a thread, so that the event loop goes on.

>>> import cleavedb.aio
>>> async with cleavedb.aio.open("fruit.db") as db:
...     await db.put(b"apple", b"red")
...     async for key, value in db.items(prefix=b"a"):
...         print(key, value)
"""

import asyncio
import itertools
from typing import Any, AsyncIterator, Dict, Iterator

import cleavedb

# Iterators, and how many items each call in a thread fetches: a wait for the next change must not hold
# back the one before.
_WALKS = {"items": 64, "keys": 64, "values": 64, "range": 64, "changes": 1}


class Async:
    """The calls of an object of `cleavedb`, to be awaited; iterators are for `async for`.

    What a call returns is wrapped as well: `snapshot = await db.snapshot()`.
    """

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._wrapped, name)
        if not callable(call):
            return call
        if name in _WALKS:
            return lambda *args, **kwargs: _walk(_WALKS[name], call, args, kwargs)

        async def later(*args: Any, **kwargs: Any) -> Any:
            return _wrap(await asyncio.to_thread(call, *args, **kwargs))

        return later

    async def __aenter__(self) -> "Async":
        return self

    async def __aexit__(self, kind: Any, error: Any, traceback: Any) -> None:
        await asyncio.to_thread(self._wrapped.__exit__, kind, error, traceback)


class _Opening:
    """What `open` returns: to be awaited, or entered."""

    def __init__(self, path: Any, options: Dict[str, Any]) -> None:
        self._path, self._options = path, options

    def __await__(self) -> Iterator[Any]:
        return self._opened().__await__()

    async def _opened(self) -> Async:
        self._db = Async(await asyncio.to_thread(cleavedb.open, self._path, **self._options))
        return self._db

    async def __aenter__(self) -> Async:
        return await self._opened()

    async def __aexit__(self, *error: Any) -> None:
        await self._db.__aexit__(*error)


def open(path: Any, **options: Any) -> _Opening:
    """Opens a database, as `cleavedb.open` does."""
    return _Opening(path, options)


def _wrap(answer: Any) -> Any:
    kinds = (cleavedb.Reader, cleavedb.WriteBatch, cleavedb.Cursor)
    return Async(answer) if isinstance(answer, kinds) else answer


async def _walk(at_once: int, call: Any, args: Any, kwargs: Any) -> AsyncIterator[Any]:
    walk = await asyncio.to_thread(call, *args, **kwargs)
    while some := await asyncio.to_thread(lambda: list(itertools.islice(walk, at_once))):
        for item in some:
            yield item
