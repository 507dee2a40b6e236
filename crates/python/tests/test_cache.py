"""What `cleavedb.cache` answers, beside diskcache, and what stays of it."""

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import cleavedb
import pytest
from cleavedb import bounded
from cleavedb.cache import Cache

KEYS = [b"k", "k", 1, "1", -7, "ü" * 100]
TAGS = [None, "t", "tt", b"t", 1]
PLAIN = [b"", b"x" * 5000, "ü", 0, 2**40, 1.5, float("inf"), None, [1, {"a": None}], {}]
VALUES = [*PLAIN, True, -(10**40)]


@pytest.fixture
def cache(tmp_path):
    with Cache(tmp_path / "cache") as cache:
        yield cache


def in_step(cache):
    """The number of keys; fails unless each has its rows in the index, and totals fit them."""
    items = cache._items
    index = items._committed.index
    rows, count, size = dict(index.items()), 0, 0
    for key in [row[1:] for row in rows if row[:1] == b"k"]:
        entry = items._committed.entry(key)
        for row, content in entry.rows(key):
            assert rows.pop(row) == content
        count, size = count + 1, size + entry.size
        assert entry.expires or items.has(key)
    totals = bounded._NUMBERS.pack(count, size, 0)
    assert rows.pop(b"n", totals) == totals
    assert rows == {} and (items.count, items.bytes) == (count, size)
    assert set(items.keys()) <= {row[1:] for row in index.keys(prefix=b"k")}
    return count


def test_values_come_back_as_they_were(cache):
    for key in KEYS:
        for value in VALUES:
            assert cache.set(key, value) is True and cache[key] == value
            assert type(cache.get(key)) is type(value)
    assert sorted(map(repr, cache)) == sorted(map(repr, KEYS)) and len(cache) == len(KEYS)
    assert "absent" not in cache and cache.get("absent", 7) == 7
    for call in (lambda: cache["absent"], lambda: cache.__delitem__("absent")):
        with pytest.raises(KeyError, match="absent"):
            call()
    for key in (None, 1.0, True, ("a",)):
        with pytest.raises(TypeError, match="bytes, str or int"):
            cache.set(key, 1)
    with pytest.raises(TypeError):
        cache.set("k", object())
    with pytest.raises(cleavedb.InvalidArgument):
        cache.set("k" * 65_530, 1)
    assert in_step(cache) == len(KEYS)


def test_answers_are_those_of_diskcache(tmp_path):
    diskcache = pytest.importorskip("diskcache")
    draw = random.Random(7)
    with Cache(tmp_path / "ours") as ours, diskcache.Cache(str(tmp_path / "theirs")) as theirs:
        for _ in range(3000):
            key, value, tag = draw.choice(KEYS), draw.choice(PLAIN), draw.choice(TAGS)
            expire = draw.choice([None, None, 1000, 0, -1])
            name, args, kwargs = draw.choice(
                [
                    ("set", (key, value), {"expire": expire, "tag": tag}),
                    ("add", (key, value), {"expire": expire, "tag": tag}),
                    ("incr", (key, 3), {}),
                    ("decr", (key,), {"default": None}),
                    ("touch", (key, expire), {}),
                    ("get", (key,), {"default": "none"}),
                    ("get", (key,), {}),
                    ("pop", (key,), {}),
                    ("delete", (key,), {}),
                    ("__getitem__", (key,), {}),
                    ("__contains__", (key,), {}),
                    ("__setitem__", (key, value), {}),
                ]
                * 3
                + [("evict", (draw.choice(TAGS[1:]),), {}), ("clear", (), {})]
            )
            theirs.expire()
            answers = []
            for cache in (ours, theirs):
                try:
                    answers.append(getattr(cache, name)(*args, **kwargs))
                except (KeyError, TypeError) as error:
                    answers.append(type(error))
            assert answers[0] == answers[1], (name, args, kwargs)
            theirs.expire()
            assert len(ours) == len(theirs)
            assert sorted(map(repr, ours)) == sorted(map(repr, theirs))
        in_step(ours)


def test_times_to_live(cache):
    cache.set("soon", 1, expire=0.05, tag="t")
    cache.set("later", 1, expire=1000)
    cache.set("touched", 1, expire=0.05)
    assert cache.touch("touched", 1000) and not cache.touch("absent", 1)
    assert cache.incr("soon") == 2 and cache.get("soon") == 2
    time.sleep(0.06)
    assert "soon" not in cache and cache.get("soon") is None and not cache.touch("soon")
    assert list(cache) == ["later", "touched"] and len(cache) == 2
    assert cache.evict("t") == 1 and cache.expire() == 0
    cache.set("soon", 1, expire=0.01)
    time.sleep(0.02)
    assert cache.add("soon", 2) and cache.incr("soon") == 3
    cache.set("gone", 1, expire=0.01)
    time.sleep(0.02)
    assert cache.expire() == 1 and len(cache) == 3 == in_step(cache)


def test_a_block_takes_effect_as_one_or_not_at_all(cache):
    cache["n"] = 1
    with pytest.raises(ZeroDivisionError):
        with cache.transact():
            cache.set("m", cache.incr("n"))
            assert cache["n"] == cache["m"] == 2 and sorted(cache) == ["m", "n"]
            seen = []
            reader = threading.Thread(target=lambda: seen.append((cache["n"], "m" in cache)))
            reader.start()
            reader.join()
            assert seen == [(1, False)]
            1 // 0
    assert cache["n"] == 1 and list(cache) == ["n"] and in_step(cache) == 1
    with pytest.raises(RuntimeError, match="failed"):
        with cache.transact():
            cache["o"] = 1
            with pytest.raises(cleavedb.InvalidArgument):
                cache.set("k" * 65_530, 1)
            cache["p"] = 1
    assert list(cache) == ["n"] and in_step(cache) == 1


def test_memoize(cache):
    calls = []

    @cache.memoize(expire=1000, tag="f")
    def pair(*args, **kwargs):
        calls.append((args, kwargs))
        return (len(args), None)

    for args in [(), (1,), ("1",), (b"1",), (True,), ((1, 2),), ([1, 2],), ({1: 2},), ({"1": 2},)]:
        before = len(calls)
        assert pair(*args) == pair(*args) == [len(args), None] and len(calls) == before + 1
    pair(1, b=2, a=1)
    pair(1, a=1, b=2)
    assert len(calls) == before + 2
    long = "x" * 100_000
    pair(long)
    assert pair(long + "y") and pair(long) and len(calls) == before + 4
    assert pair.__name__ == "pair" and cache.delete(pair.__cache_key__(1))
    with pytest.raises(TypeError, match="arguments of"):
        pair(object())
    assert cache.evict("f") == before + 3 and len(cache) == 0


def test_counts_of_hits_and_misses(cache):
    cache["k"] = None
    assert cache.get("k") is None and cache.get("absent") is None and cache["k"] is None
    assert cache.stats(reset=True) == (2, 1) and cache.stats() == (0, 0)


def test_what_was_not_used_for_longest_goes(tmp_path, monkeypatch):
    with Cache(tmp_path / "cache", size=10_000) as cache:
        for i in range(6):
            cache[i] = b"x" * 1000
        monkeypatch.setattr(bounded, "USE_NOTED_EACH", 0)
        assert cache[0] and cache[2]
        for i in range(6, 11):
            cache[i] = b"x" * 1000
        assert list(cache) == sorted([0, 2, *range(5, 11)], key=str)
        with pytest.raises(ZeroDivisionError):
            with cache.transact():
                for i in range(20, 30):
                    cache[i] = b"x" * 1000
                1 // 0
        cache["large"] = b"x" * 9500
        assert list(cache) == ["large"]
        cache["larger"] = b"x" * 20_000
        assert list(cache) == [] and in_step(cache) == 0


def test_the_size_holds_when_the_clock_goes_back(tmp_path, monkeypatch):
    now = time.time_ns()
    with Cache(tmp_path / "cache", size=10_000) as cache:
        for i in range(100):
            monkeypatch.setattr(time, "time_ns", lambda: now - i * bounded.SECOND)
            cache[i] = b"x" * 1000
            assert cache.volume() <= 10_000 and in_step(cache) == min(i + 1, 8)


def test_a_get_is_a_write_once_an_hour(cache, monkeypatch):
    cache["k"] = 1

    def seq():
        with cache._items._db.snapshot() as snapshot:
            return snapshot.seq

    before = seq()
    assert cache["k"] and seq() == before
    an_hour_on = time.time_ns() + bounded.USE_NOTED_EACH + 1
    monkeypatch.setattr(time, "time_ns", lambda: an_hour_on)
    assert cache["k"] and seq() > before
    before = seq()
    assert cache["k"] and seq() == before and in_step(cache) == 1


def test_the_size_holds_under_a_load_of_four_times_it(tmp_path):
    size, draw = 4 << 20, random.Random(7)
    with Cache(tmp_path / "cache", size=size) as cache:
        stored = 0
        while stored < 4 * size:
            value = draw.randbytes(draw.choice([10, 1000, 50_000]))
            cache.set(draw.randrange(3000), value, expire=draw.choice([None, 0.01, 1000]))
            stored += len(value)
            assert cache.volume() <= size
        time.sleep(0.02)
        cache.expire()
        assert cache.cull() == 0 and cache.volume() > size // 2 and in_step(cache) > 50
        largest = sum(len(key) + len(value) for key, value in cache._items._db.items())
        assert largest <= size
    with Cache(tmp_path / "cache", size=size // 4) as cache:
        assert in_step(cache) > 50 and cache.cull() > 0 and cache.volume() <= size // 4
        assert cache.clear() > 0 and cache.clear() == in_step(cache) == 0
    with Cache(tmp_path / "cache") as cache:
        assert list(cache) == [] and in_step(cache) == 0


def test_threads_share_a_cache(tmp_path):
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    failed = []

    def work(number):
        try:
            for i in range(60):
                cache.incr("n")
                with cache.transact():
                    cache.incr("a")
                    cache.decr("b")
                    assert cache["a"] == -cache["b"]
                cache.set((number * 1000 + i) % 90, b"x" * 500, expire=0.001, tag=i % 3)
                cache.get(i)
                if i % 20 == 0:
                    cache.evict(i % 3)
                    cache.cull()
        except BaseException as error:
            failed.append(error)

    try:
        with Cache(tmp_path / "cache", size=20_000) as cache:
            threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            assert failed == [] and (cache["n"], cache["a"], cache["b"]) == (480, 480, -480)
            hits, misses = cache.stats()
            assert hits + misses >= 480 and in_step(cache) >= 3
    finally:
        sys.setswitchinterval(interval)


@pytest.fixture(params=["full disk", "space limit"])
def narrow(request, tmp_path):
    """A directory, and the options of a cache in it, for which there is too little room."""
    if request.param == "space limit":
        yield tmp_path / "cache", {"space_limit": 20 << 20}
        return
    mount = ["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", tmp_path]
    if not shutil.which("mount") or subprocess.run(mount, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("a small disk needs the right to mount a tmpfs")
    yield tmp_path / "cache", {}
    subprocess.run(["umount", "-l", tmp_path], check=True)


def fill(cache):
    """Stores values past the cache, which makes room for none, until there is no room."""
    try:
        for i in range(100_000):
            with cache.transact():
                cache.set(i, b"%d" % i * 200, tag=i % 4)
    except cleavedb.NoSpace as error:
        assert error.kind == "no space"
        return
    raise AssertionError("there was room")


def test_a_set_makes_room_where_there_is_too_little(narrow):
    path, options = narrow
    with Cache(path, **options) as cache:
        for i in range(10_000):
            assert cache.set(i, b"%d" % i * 400, tag="t")
            assert cache.incr("n") == i + 1 and cache.touch(i)
        assert 100 < len(cache) == in_step(cache) < 10_000
        assert i in cache and 0 not in cache and cache.volume() < 20 << 20
    with Cache(path, **options) as cache:
        assert in_step(cache) > 100 and cache.add("m", 1)


def test_reads_and_removals_pass_where_there_is_no_room(narrow, monkeypatch):
    path, options = narrow
    with Cache(path, **options) as cache:
        fill(cache)
        monkeypatch.setattr(bounded, "USE_NOTED_EACH", 0)
        assert cache[2] == b"2" * 200 and cache.get(3) == b"3" * 200
        monkeypatch.undo()
        before = in_step(cache)
        assert cache.delete(2) and cache.pop(3) == b"3" * 200 and in_step(cache) == before - 2
    with Cache(path, size=1 << 20, **options) as cache:
        assert in_step(cache) == before - 2
        assert cache.cull() > 0 and 0 < cache.volume() <= 1 << 20
        assert cache.evict(1) > 0 and in_step(cache) > 0
    with Cache(path, **options) as cache:
        fill(cache)
        assert cache.clear() > 0 and in_step(cache) == 0
        cache["k"] = 1
        assert in_step(cache) == 1


def test_totals_are_counted_after_removals_and_a_kill(tmp_path):
    program = """
import os, sys
from cleavedb.cache import Cache
cache = Cache(sys.argv[1])
for i in range(5):
    cache[i] = "x" * i
assert cache.delete(1) and cache.delete(2)
os._exit(7)
"""
    assert subprocess.run([sys.executable, "-c", program, tmp_path / "cache"]).returncode == 7
    for is_stored in (False, True):
        with Cache(tmp_path / "cache") as cache:
            row = cache._items._committed.index.get(b"n")
            assert (row is not None) == is_stored
            assert len(cache) == in_step(cache) == 3


def test_a_killed_process_leaves_all_that_it_has_stored(tmp_path):
    program = """
import itertools, os, sys
from cleavedb.cache import Cache
cache = Cache(sys.argv[1], size=100_000)
for i in itertools.count():
    cache.set(i, b"%d" % i * 100, expire=1000, tag=i % 5)
    os.write(1, b"%d\\n" % i)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "cache")], stdout=subprocess.PIPE
    )
    told = [child.stdout.readline() for _ in range(random.randrange(300, 1500))]
    child.send_signal(signal.SIGKILL)
    told += child.stdout.readlines()
    child.wait()
    last = int(told[-1])
    with Cache(tmp_path / "cache", size=100_000) as cache:
        assert all(cache[i] == b"%d" % i * 100 for i in range(last - 50, last + 1))
        assert in_step(cache) > 50 and cache.volume() <= 100_000
        cache["k"] = 1


def test_another_codec_and_another_database_are_refused(tmp_path):
    with Cache(tmp_path / "cache", codec="pickle") as cache:
        cache["k"], cache["n"] = (1, {2: 3}), 1
        assert cache["k"] == (1, {2: 3})
    with Cache(tmp_path / "cache") as cache:
        with pytest.raises(ValueError, match="another codec"):
            cache["k"]
        cache["j"] = [1]
        assert cache["n"] == 1 and cache.delete("k")
    with Cache(tmp_path / "cache", codec="pickle") as cache:
        assert cache["j"] == [1]
    with pytest.raises(ValueError, match="json, pickle"):
        Cache(tmp_path / "cache", codec="yaml")
    with cleavedb.open(tmp_path / "db", durability="os") as db:
        db[b"k"] = b"v"
    with pytest.raises(cleavedb.NotADatabase, match="no cache") as raised:
        Cache(tmp_path / "db")
    assert raised.value.kind == "not a database" and raised.value.path == str(tmp_path / "db")
    with cleavedb.open(tmp_path / "db") as db:
        assert list(db.items()) == [(b"k", b"v")] and db.keyspaces() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_close_and_fork_end_a_cache(tmp_path):
    cache = Cache(tmp_path / "cache")
    cache["k"] = 1
    locked, done = threading.Event(), threading.Event()

    def hold():
        with cache.transact():
            locked.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    locked.wait()
    child = os.fork()
    if child == 0:
        refused = 0
        for call in (lambda: cache["k"], lambda: cache.set("k", 2), cache.clear):
            try:
                call()
            except cleavedb.Forked:
                refused += 1
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    done.set()
    holder.join()
    cache.close()
    cache.close()
    for call in (lambda: cache["k"], lambda: cache.set("k", 2), lambda: list(cache), cache.cull):
        with pytest.raises(cleavedb.Closed):
            call()
    with Cache(tmp_path / "cache") as cache:
        assert cache["k"] == 1
