"""Objects may die in any order, in any thread and process."""

import gc
import itertools
import os
import sys
import threading
import time

import cleavedb
import pytest


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_any_order_of_destruction(tmp_path, order):
    db = cleavedb.open(tmp_path / "db", durability="os")
    db[b"k"] = b"v"
    held = [db, db.snapshot(), db.items(), db.cursor()]
    next(held[2])
    held[3].next()
    del db
    for i in order:
        held[i] = None
        gc.collect()
    cleavedb.open(tmp_path / "db").close()


def test_close_ends_everything(tmp_path):
    db = cleavedb.open(tmp_path / "db", durability="os")
    for i in range(100):
        db[b"%d" % i] = b""
    snapshot, items, cursor = db.snapshot(), db.items(), db.cursor()
    transaction, users, batch = db.transaction(), db.keyspace("users"), db.write_batch()
    next(items)
    cursor.next()
    batch.put(b"k", b"")
    db.close()
    db.close()
    assert db.closed and "closed" in repr(db)
    calls = [
        lambda: db.get(b"k"),
        lambda: db.put(b"k", b""),
        lambda: next(items),
        lambda: snapshot.get(b"k"),
        lambda: next(snapshot.items()),
        cursor.next,
        lambda: transaction.get(b"k"),
        lambda: users.put(b"k", b""),
        batch.write,
        db.compact,
        db.verify,
        db.sync,
    ]
    for call in calls:
        with pytest.raises(cleavedb.Closed) as raised:
            call()
        assert raised.value.kind == "closed"
    with cleavedb.open(tmp_path / "db") as again:
        assert len(list(again)) == 100


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_is_refused_and_harms_nothing(tmp_path):
    db = cleavedb.open(tmp_path / "db", durability="os")
    db[b"k"] = b"v"
    snapshot, items = db.snapshot(), db.items()
    child = os.fork()
    if child == 0:
        refused = 0
        for call in (lambda: db.get(b"k"), lambda: db.put(b"k", b""), lambda: snapshot[b"k"]):
            try:
                call()
            except cleavedb.Forked:
                refused += 1
        del db, snapshot, items
        gc.collect()
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert db[b"k"] == snapshot[b"k"] == b"v" and next(items) == (b"k", b"v")
    db[b"k"] = b"w"
    db.close()
    with cleavedb.open(tmp_path / "db") as again:
        assert again[b"k"] == b"w"


def test_threads_share_everything(tmp_path):
    """Eight threads share a database, an iterator, a batch and a cursor, and it is closed meanwhile."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        db = cleavedb.open(tmp_path / "db", durability="buffered")
        db.ingest((b"%05d" % i, b"x" * 50) for i in range(2000))
        items, cursor, batch = db.items(), db.cursor(), db.write_batch()
        began, failed = threading.Barrier(9), []

        def work(number):
            began.wait()
            try:
                for i in range(10_000):
                    key = b"%d-%d" % (number, i)
                    db[key] = key
                    assert db[key] == key
                    next(items, None)
                    cursor.next()
                    cursor.value
                    batch.put(key, key)
                    if i % 10 == 0:
                        batch.write()
                        with db.snapshot() as snapshot:
                            assert snapshot[key] == key
            except cleavedb.Closed:
                return
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        [thread.start() for thread in threads]
        began.wait()
        threading.Event().wait(0.5)
        db.close()
        [thread.join() for thread in threads]
        assert failed == []
    finally:
        sys.setswitchinterval(interval)


def test_a_batch_that_is_being_written_stops_no_other_thread(tmp_path):
    with cleavedb.open(tmp_path / "db") as db:
        batch, writes, ticks = db.write_batch(), threading.Event(), []
        for i in range(200):
            batch.put(b"%d" % i, b"x" * 1_000_000)

        def write():
            writes.set()
            batch.write()

        def ask():
            writes.wait()
            time.sleep(0.02)
            before = len(ticks)
            assert len(batch) == 0
            ticks_while_it_waited.append(len(ticks) - before)

        ticks_while_it_waited = []
        threads = [threading.Thread(target=write), threading.Thread(target=ask)]
        [thread.start() for thread in threads]
        while any(thread.is_alive() for thread in threads):
            ticks.append(time.sleep(0.001))
        assert ticks_while_it_waited[0] > 5
