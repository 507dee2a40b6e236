"""How values that are not bytes are kept, for `cleavedb.mapping` and `cleavedb.cache`."""

import json
import pickle
from typing import Any, Callable, Dict, Tuple

_Encode = Callable[[Any], bytes]
_Decode = Callable[[bytes], Any]

_CODECS: Dict[str, Tuple[_Encode, _Decode]] = {
    "json": (lambda value: json.dumps(value).encode(), json.loads),
    "pickle": (pickle.dumps, pickle.loads),
    "bytes": (lambda value: memoryview(value).tobytes(), bytes),
}

# Of each type a letter, which stands before what is kept, the way in and the way out.
_LETTERS: Dict[type, Tuple[bytes, _Encode, _Decode]] = {
    bytes: (b"b", bytes, bytes),
    str: (b"s", str.encode, bytes.decode),
    int: (b"i", lambda number: b"%d" % number, int),
    float: (b"f", lambda number: repr(number).encode(), float),
    type(None): (b"n", lambda _: b"", lambda _: None),
}
_KEYS = (bytes, str, int)


def codec_named(name: str) -> Tuple[_Encode, _Decode]:
    """The way in and the way out of the codec `json`, `pickle` or `bytes`."""
    if name not in _CODECS:
        raise ValueError(f"there is no codec {name!r}; there are {', '.join(_CODECS)}")
    return _CODECS[name]


class Lettered:
    """Keeps bytes, `str`, `int`, `float` and `None` as themselves, and other values by a codec."""

    def __init__(self, other: str) -> None:
        self._other = (other[:1].encode(), *codec_named(other))
        kinds = (*_LETTERS.values(), (b"j", *codec_named("json")), self._other)
        self._decoders = {letter: decode for letter, _, decode in kinds}

    def encode_key(self, key: Any) -> bytes:
        """A key or tag: those that differ in type or value differ in their bytes."""
        if type(key) not in _KEYS:
            raise TypeError(f"keys and tags are bytes, str or int, not {type(key).__name__}")
        return self.encode(key)

    def encode(self, value: Any) -> bytes:
        """Any value, as `decode` reads it."""
        letter, encode, _ = _LETTERS.get(type(value), self._other)
        return letter + encode(value)

    def decode(self, data: bytes) -> Any:
        """What `encode` or `encode_key` has kept."""
        letter = data[:1]
        if letter not in self._decoders:
            why = "codec='pickle' reads what it has written, for files of your own"
            raise ValueError(f"a value was written by another codec: {why}")
        return self._decoders[letter](data[1:])


def is_told_by_repr(value: Any) -> bool:
    """Whether `repr` tells a value from every other one."""
    if type(value) in (list, tuple):
        return all(map(is_told_by_repr, value))
    if type(value) is dict:
        return is_told_by_repr(list(value.items()))
    return type(value) in _LETTERS or type(value) is bool
