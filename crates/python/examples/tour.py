"""A tour of CleaveDB in Python: `python tour.py DIRECTORY`, which is created."""

import sys

import cleavedb


def move(amount: int, transaction: cleavedb.Transaction) -> None:
    """Moves an amount from one account to the other."""
    for key, change in ((b"account/ada", -amount), (b"account/bob", amount)):
        transaction[key] = b"%d" % (int(transaction[key]) + change)


def main(path: str) -> None:
    with cleavedb.open(path, durability="os") as db:
        with db.write_batch() as batch:
            batch.put(b"account/ada", b"100")
            batch.put(b"account/bob", b"0")
        db.transact(lambda transaction: move(30, transaction))
        for key, value in db.items(prefix=b"account/"):
            print(key.decode(), int(value))

        with db.snapshot() as before:
            db.delete_range(prefix=b"account/")
            print(len(list(before)), "accounts before,", len(list(db)), "now")

        db.put(b"session", b"Ada", ttl=3600)
        users = db.keyspace("users")
        users.merge(b"logins", cleavedb.append(b"+"))
        print(users[b"logins"], db.verify()["problems"])


if __name__ == "__main__":
    main(sys.argv[1])
