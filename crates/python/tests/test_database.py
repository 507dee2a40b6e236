"""What a database, its keyspaces, batches and transactions do."""

import io
import re
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import cleavedb
import pytest

PRESETS = ["cleave", "lsm", "wisckey", "hashkv", "ktstore", "hoakv", "ohdb"]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_mapping_of_bytes(tmp_path, preset):
    with cleavedb.open(tmp_path / "db", preset=preset, durability="os") as db:
        db[b"apple"] = b"red"
        db.put(b"long", b"x" * 10_000)
        assert db[b"apple"] == b"red" and db.get(b"long") == b"x" * 10_000
        assert b"apple" in db and b"pear" not in db
        assert db.get(b"pear") is None and db.get(b"pear", 7) == 7
        assert db.get_many([b"pear", b"apple"]) == [None, b"red"]
        del db[b"apple"]
        with pytest.raises(KeyError):
            db[b"apple"]
        with pytest.raises(KeyError):
            del db[b"apple"]
        db.delete(b"apple")
    with cleavedb.open(tmp_path / "db") as db:
        assert list(db) == [b"long"]


def test_any_buffer_goes_in_and_str_is_refused(db):
    for buffer in (b"k", bytearray(b"k"), memoryview(b"k"), memoryview(b"-k-")[1:2]):
        db[buffer] = buffer
        assert db[b"k"] == b"k"
    for call in (lambda: db.get("k"), lambda: db.put(b"k", "v"), lambda: "k" in db):
        with pytest.raises(TypeError, match="not str"):
            call()
    for call in (lambda: db.get(7), lambda: db.put(None, b""), lambda: db.get_many([b"", 1])):
        with pytest.raises(TypeError):
            call()


def test_ranges(db):
    keys = [b"%03d" % i for i in range(300)]
    db.ingest((key, key * 2) for key in keys)
    assert list(db) == list(db.keys()) == keys
    assert list(db.items()) == [(key, key * 2) for key in keys]
    assert list(db.values(reverse=True)) == [key * 2 for key in reversed(keys)]
    assert list(db.keys(b"100", b"103")) == keys[100:103]
    assert list(db.keys(b"100", b"103", include_start=False, include_stop=True)) == keys[101:104]
    assert list(db.keys(prefix=b"29")) == keys[290:]
    assert list(db.keys(b"2", b"1")) == [] and list(db.range(b"000", b"001"))[0][1] == b"000000"
    with pytest.raises(TypeError):
        db.keys(b"1", prefix=b"1")
    db.delete_range(b"010", b"290")
    assert len(list(db)) == 20
    with pytest.raises(cleavedb.InvalidArgument):
        db.delete_range()
    db.delete_range(prefix=b"")
    assert list(db) == []


def test_a_cursor_goes_both_ways(db):
    for key in (b"a", b"b", b"c"):
        db[key] = key
    with db.cursor() as cursor:
        assert cursor.key is None and cursor.next() and cursor.key == b"a"
        assert cursor.seek(b"bb") and cursor.value == b"c" and not cursor.next()
        assert cursor.prev() and cursor.seek_for_prev(b"bb") and cursor.key == b"b"
        assert cursor.first() and not cursor.prev() and cursor.last() and cursor.key == b"c"
    with pytest.raises(cleavedb.Closed):
        cursor.next()


def test_conditional_writes(db):
    assert db.put_if_absent(b"k", b"1") and not db.put_if_absent(b"k", b"2")
    assert db.compare_and_swap(b"k", b"1", b"2") and not db.compare_and_swap(b"k", b"1", b"3")
    assert db.compare_and_swap(b"k", b"2", None) and b"k" not in db
    assert db.compare_and_swap(b"k", None, b"1")
    assert db.update(b"k", lambda old: old + b"1") == b"11"
    assert db.update(b"k", lambda old: None) is None and b"k" not in db
    with pytest.raises(ZeroDivisionError):
        db.update(b"k", lambda old: 1 // 0)


def test_updates_of_threads_are_all_there(db):
    def count():
        for _ in range(50):
            db.update(b"n", lambda old: str(int(old or b"0") + 1).encode())

    threads = [threading.Thread(target=count) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert db[b"n"] == b"200"


def test_merges(db):
    db.merge(b"n", cleavedb.add(2))
    db.merge(b"n", cleavedb.add(3))
    db.merge(b"log", cleavedb.append(b"a"))
    db.merge(b"log", cleavedb.append(b"b"))
    db.merge(b"top", cleavedb.max(b"9"))
    assert db[b"n"] == b"5" and db[b"log"] == b"ab" and db[b"top"] == b"9"


def test_values_expire(db):
    db.put(b"soon", b"", ttl=0.01)
    db.put(b"later", b"", ttl=timedelta(hours=1))
    time.sleep(0.02)
    assert b"soon" not in db and b"later" in db
    for ttl in (-1, float("nan")):
        with pytest.raises(cleavedb.InvalidArgument):
            db.put(b"k", b"", ttl=ttl)


def test_a_batch_is_written_whole_or_not_at_all(db):
    users = db.keyspace("users")
    with db.write_batch() as batch:
        batch.put(b"a", b"1")
        batch.put(b"u", b"2", keyspace=users)
        batch.delete(b"gone")
        batch.merge(b"m", cleavedb.append(b"x"))
        assert len(batch) == 4 and batch.size_bytes > 0 and b"a" not in db
    assert db[b"a"] == b"1" and users[b"u"] == b"2" and db[b"m"] == b"x" and len(batch) == 0
    with pytest.raises(ZeroDivisionError):
        with db.write_batch() as batch:
            batch.put(b"b", b"")
            1 // 0
    assert b"b" not in db
    other = db.write_batch()
    other.put(b"c", b"")
    other.append(other)
    assert len(other) == 2
    other.write()
    assert b"c" in db


def test_keyspaces(db):
    users = db.keyspace("users", ttl=3600)
    users[b"k"] = b"v"
    assert users.name == "users" and b"k" not in db
    assert [keyspace.name for keyspace in db.keyspaces()] == ["users"]
    db.drop_keyspace("users")
    with pytest.raises(cleavedb.Error) as raised:
        users[b"k"]
    assert raised.value.kind == "no keyspace"


def test_transactions(db):
    db[b"n"] = b"1"
    with db.transaction() as one:
        assert one[b"n"] == b"1"
        one[b"n"] = b"2"
        assert list(one.items()) == [(b"n", b"2")] and db[b"n"] == b"1"
    assert db[b"n"] == b"2"
    with pytest.raises(cleavedb.Conflict) as raised:
        with db.transaction() as one:
            one.get(b"n")
            one.put(b"n", b"3")
            db[b"n"] = b"4"
    assert raised.value.kind == "conflict" and db[b"n"] == b"4"
    with pytest.raises(cleavedb.Closed):
        one.get(b"n")
    with pytest.raises(ZeroDivisionError):
        with db.transaction() as one:
            one.delete(b"n")
            1 // 0
    assert db[b"n"] == b"4"


def test_transact_tries_again(db):
    attempts = []

    def body(transaction):
        attempts.append(transaction.get(b"n"))
        if len(attempts) < 3:
            db[b"n"] = b"%d" % len(attempts)
        transaction[b"n"] = b"done"
        return "answer"

    assert db.transact(body) == "answer"
    assert attempts == [None, b"1", b"2"] and db[b"n"] == b"done"


def test_a_snapshot_stays(db):
    users = db.keyspace("users")
    db[b"k"], users[b"k"] = b"1", b"2"
    with db.snapshot() as snapshot:
        db[b"k"], users[b"k"] = b"3", b"4"
        assert snapshot[b"k"] == b"1" and snapshot.keyspace(users)[b"k"] == b"2"
        assert list(snapshot.items()) == [(b"k", b"1")] and snapshot.seq > 0
    with pytest.raises(cleavedb.Closed):
        snapshot.get(b"k")


def test_files(db, tmp_path):
    content = bytes(range(256)) * 4096
    assert db.put_file(b"blob", io.BytesIO(content)) == len(content)
    with db.get_file(b"blob") as file:
        assert file.read(3) == content[:3] and file.seek(-2, io.SEEK_END) and file.read() == content[-2:]
        file.seek(0)
        assert file.read() == content
    with pytest.raises(ValueError):
        file.read(1)
    with pytest.raises(KeyError):
        db.get_file(b"other")

    class Broken:
        def read(self, size):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        db.put_file(b"broken", Broken())
    with pytest.raises(TypeError):
        db.put_file(b"broken", io.StringIO("text"))
    assert b"broken" not in db


def test_copies(tmp_path):
    with cleavedb.open(tmp_path / "db", change_retention_bytes="1MiB") as db:
        db[b"k"] = b"v"
        db.checkpoint(tmp_path / "copy")
        assert db.backup(tmp_path / "backups")["number"] == 1
        assert db.verify()["problems"] == []
        (change,) = [c for batch in db.changes() for c in batch if c["kind"] == "put"]
        assert (change["key"], change["value"], change["keyspace"]) == (b"k", b"v", "default")
        db.flush()
        db.compact()
        db.collect()
        db.sync()
        assert "cleavedb_" in db.metrics()
    cleavedb.restore(tmp_path / "backups", tmp_path / "restored")
    for copy in ("copy", "restored"):
        with cleavedb.open(tmp_path / copy, read_only=True) as db:
            assert db[b"k"] == b"v"
            with pytest.raises(cleavedb.Error) as raised:
                db[b"k"] = b""
            assert raised.value.kind == "read only"
    cleavedb.destroy(tmp_path / "copy")


def test_errors_have_kind_path_and_class(db, tmp_path):
    with pytest.raises(cleavedb.Locked) as raised:
        cleavedb.open(tmp_path / "db")
    assert raised.value.kind == "locked" and str(tmp_path / "db") in raised.value.path
    assert issubclass(cleavedb.Locked, cleavedb.Error)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("x")
    with pytest.raises(cleavedb.NotADatabase):
        cleavedb.open(tmp_path / "other")
    with pytest.raises(TypeError, match="no option colour"):
        cleavedb.open(tmp_path / "new", colour="red")
    with pytest.raises(ValueError, match="ktstore"):
        cleavedb.open(tmp_path / "new", preset="best")
    with pytest.raises(cleavedb.InvalidArgument):
        cleavedb.open(tmp_path / "new", memory_bytes=1)
    with pytest.raises(cleavedb.InvalidArgument):
        db.put(b"k" * 100_000, b"")
    with pytest.raises(ValueError):
        db.put(b"k", b"", durability="perhaps")


def test_the_tutorial_names_options_that_are_there(tmp_path):
    tutorial = (Path(__file__).parents[3] / "docs/python.md").read_text()
    names = re.findall(r"`([a-z0-9_]+)`", tutorial.split("## Options of `open`")[1])
    assert len(names) > 30
    for name in names:
        with pytest.raises((ValueError, cleavedb.InvalidArgument)):
            cleavedb.open(tmp_path / "db", **{name: "nonsense"})


def test_a_damaged_store_raises_corruption(tmp_path):
    with cleavedb.open(tmp_path / "db", preset="lsm") as db:
        db.ingest((b"%06d" % i, b"x" * 100) for i in range(1000))
    for table in (tmp_path / "db").rglob("*.tbl"):
        table.write_bytes(b"\0" * table.stat().st_size)
    with pytest.raises(cleavedb.Corruption) as raised:
        with cleavedb.open(tmp_path / "db") as db:
            db.get(b"000000")
            list(db)
    assert raised.value.kind == "corruption"


@pytest.mark.parametrize(
    "call", ["for _ in db.changes(wait=600): pass", "db.put_file(b'k', open(sys.argv[2], 'rb'))"]
)
def test_ctrl_c_ends_a_long_call(tmp_path, call):
    """A signal reaches the main thread while it waits for the next change, or stores 900 MiB."""
    program = f"""
import cleavedb, os, signal, sys, threading
db = cleavedb.open(sys.argv[1], change_retention_bytes="1MiB")
threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", b"k" in db)
"""
    with open(tmp_path / "file", "wb") as file:
        file.truncate(900 << 20)
    command = [sys.executable, "-c", program, str(tmp_path / "db"), str(tmp_path / "file")]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "interrupted False\n"


def test_mapping(tmp_path):
    from cleavedb.mapping import Mapping

    with Mapping(tmp_path / "db") as notes:
        notes["monday"] = {"weather": "rain"}
        notes.update(a=1, b=[2])
        assert dict(notes) == {"a": 1, "b": [2], "monday": {"weather": "rain"}}
        assert len(notes) == 3 and "a" in notes and notes.pop("a") == 1
        notes.sync()
        for call in (lambda: notes["gone"], lambda: notes.pop("gone")):
            with pytest.raises(KeyError, match="gone"):
                call()
        with pytest.raises(TypeError):
            notes[b"bytes"] = 1
    with pytest.raises(ValueError):
        Mapping(tmp_path / "db", codec="yaml")
    with Mapping(tmp_path / "bytes", codec="bytes") as blobs:
        blobs["a"] = bytearray(b"1")
        with pytest.raises(TypeError):
            blobs["a"] = 5
        assert dict(blobs) == {"a": b"1"}


def test_what_can_never_be_accepted_is_refused(db, tmp_path):
    with cleavedb.open(tmp_path / "other", durability="os") as other:
        foreign = other.keyspace("users")
        batch, transaction = db.write_batch(), db.transaction()
        batch.put(b"k", b"", keyspace=foreign)
        transaction.keyspace(foreign).put(b"k", b"")
        calls = [
            batch.write,
            transaction.commit,
            lambda: db.snapshot().keyspace(foreign).get(b"k"),
            lambda: db.put(b"k" * 70_000, b""),
            lambda: db.put(b"k", b"", ttl=1e30),
            lambda: db.ingest([(b"b", b""), (b"a", b"")]),
            lambda: db.keyspace(""),
        ]
        for call in calls:
            with pytest.raises(cleavedb.InvalidArgument) as raised:
                call()
            assert raised.value.kind == "invalid argument"
    with pytest.raises(TypeError):
        db.write_batch().put(b"k", b"", keyspace=db.snapshot())
    with pytest.raises(TypeError):
        cleavedb.Database()
    db.ingest([(b"b", b"")])
    assert list(db) == [b"b"]


def test_a_full_store_raises_no_space_and_loses_nothing(tmp_path):
    with cleavedb.open(tmp_path / "db", space_limit="12MiB", durability="buffered") as db:
        written = 0
        with pytest.raises(cleavedb.NoSpace) as raised:
            for written in range(100_000):
                db[b"%05d" % written] = b"%05d" % written * 200
        assert raised.value.kind == "no space" and len(list(db)) == written
        assert all(value == key * 200 for key, value in db.items())
        db.delete_range(prefix=b"")
