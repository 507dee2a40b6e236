"""A dict on disk, for values that are not bytes.

>>> from cleavedb.mapping import Mapping
>>> with Mapping("notes.db") as notes:
...     notes["monday"] = {"weather": "rain", "degrees": 9}
"""

from collections.abc import MutableMapping
from typing import Any, Iterator, Optional

import cleavedb
from cleavedb.codecs import codec_named
from cleavedb.text import encoded


class Mapping(MutableMapping[str, Any]):
    """A mapping of `str` to values, in the order of keys; `codec` is how values are kept.

    `json` is the default. `pickle` keeps almost any object, and runs what a foreign file says:
    use it only for data of your own. `bytes` keeps bytes as they are. A value that was read is a
    copy: to change it, assign it again. Writes survive the death of the process; `sync` makes
    them survive a loss of power, and so does `durability="sync"`. Other options are those of
    `cleavedb.open`.
    """

    def __init__(
        self, path: Any, codec: str = "json", *, durability: str = "os", **options: Any
    ) -> None:
        self._encode, self._decode = codec_named(codec)
        self._db = cleavedb.open(path, durability=durability, **options)  # type: ignore[arg-type]

    def __getitem__(self, key: str) -> Any:
        value = self._db.get(encoded(key))
        if value is None:
            raise KeyError(key)
        return self._decode(value)

    def __setitem__(self, key: str, value: Any) -> None:
        self._db[encoded(key)] = self._encode(value)

    def __delitem__(self, key: str) -> None:
        try:
            del self._db[encoded(key)]
        except KeyError:
            raise KeyError(key) from None

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key.encode() in self._db

    def __iter__(self) -> Iterator[str]:
        return (key.decode() for key in self._db.keys())

    def __len__(self) -> int:
        """The number of keys, which goes through all of them."""
        return sum(1 for _ in self._db.keys())

    def sync(self) -> None:
        """Makes every earlier write survive a loss of power."""
        self._db.sync()

    def close(self) -> None:
        """Closes the database."""
        self._db.close()

    def __enter__(self) -> "Mapping":
        return self

    def __exit__(self, *error: Optional[object]) -> None:
        self.close()
