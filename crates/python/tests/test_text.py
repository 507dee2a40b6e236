"""What `cleavedb.text` shows of a database, and what of it is no text."""

import cleavedb
import pytest


def test_a_mapping_of_str(db):
    fruit = cleavedb.text(db)
    fruit["äpfel"] = "rot"
    fruit.put("birne", "grün", ttl=3600, durability="buffered")
    assert db["äpfel".encode()] == b"rot" and fruit["birne"] == "grün"
    assert "äpfel" in fruit and "kiwi" not in fruit
    assert fruit.get("kiwi") is None and fruit.get("kiwi", 7) == 7
    assert fruit.get_many(key for key in ["kiwi", "birne"]) == [None, "grün"]
    for call in (lambda: fruit["kiwi"], lambda: fruit.__delitem__("kiwi")):
        with pytest.raises(KeyError) as raised:
            call()
        assert raised.value.args == ("kiwi",)
    del fruit["birne"]
    fruit.delete("birne")
    assert list(fruit) == ["äpfel"]


def test_ranges_of_str(db):
    text = cleavedb.text(db)
    text.ingest([("a", "1"), ("b", "2"), ("ba", "3"), ("ü", "4")])
    assert list(text.items("b")) == [("b", "2"), ("ba", "3"), ("ü", "4")]
    assert list(text.keys("a", "ba", include_start=False, include_stop=True)) == ["b", "ba"]
    assert list(text.values(prefix="b", reverse=True)) == ["3", "2"]
    text.delete_range("a", "ba")
    text.delete_range(prefix="ü")
    assert list(text.keys()) == ["ba"]
    with pytest.raises(cleavedb.InvalidArgument):
        text.delete_range()
    with pytest.raises(TypeError):
        text.keys(backwards=True)


def test_conditional_writes_of_str(db):
    text = cleavedb.text(db)
    assert text.put_if_absent("k", "1") and not text.put_if_absent("k", "2")
    assert text.compare_and_swap("k", "1", "ü") and not text.compare_and_swap("k", None, "3")
    assert text.update("k", lambda old: old + "!") == "ü!"
    assert text.update("k", lambda old: None) is None and "k" not in text
    text.merge("n", cleavedb.add(2))
    assert text["n"] == "2"


def test_views_of_transactions_snapshots_and_batches(db):
    text = cleavedb.text(db)
    text["n"] = "1"
    with db.snapshot() as snapshot, db.transaction() as transaction:
        own = cleavedb.text(transaction)
        own["n"] = own["n"] + "1"
        del own["gone"]
        assert own["n"] == "11" and cleavedb.text(snapshot)["n"] == "1" == text["n"]
    with db.write_batch() as batch:
        cleavedb.text(batch).put("u", "ü", keyspace=db.keyspace("users"))
    assert text["n"] == "11" and cleavedb.text(db.keyspace("users"))["u"] == "ü"
    for of in (db.cursor(), "path", None):
        with pytest.raises(TypeError, match=type(of).__name__):
            cleavedb.text(of)


def test_what_is_no_text_raises(db):
    text = cleavedb.text(db)
    db[b"apple"], db[b"pear\xff"] = b"\xff", b""
    calls = [
        lambda: text["apple"],
        lambda: text.get("apple"),
        lambda: text.get_many(["apple"]),
        lambda: next(text.values()),
        lambda: text.update("apple", lambda old: old),
    ]
    for call in calls:
        with pytest.raises(UnicodeDecodeError, match="the value of the key 'apple'"):
            call()
    with pytest.raises(UnicodeDecodeError, match=r"the key b'pear\\xff'"):
        list(text.keys())
    for call in (lambda: text[b"k"], lambda: text.put("k", b""), lambda: text.get_many([1])):
        with pytest.raises(TypeError, match="str is needed"):
            call()
    with pytest.raises(UnicodeEncodeError):
        text["k"] = "\ud800"
    assert len(list(db)) == 2
