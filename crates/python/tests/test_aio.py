"""The calls of `cleavedb.aio`."""

import asyncio

import cleavedb
import cleavedb.aio
import pytest


def test_calls_are_awaited(tmp_path):
    async def main():
        async with cleavedb.aio.open(tmp_path / "db", durability="os") as db:
            await asyncio.gather(*(db.put(b"%03d" % i, b"v") for i in range(200)))
            assert await db.get(b"007") == b"v" and db.closed is False
            assert [key async for key in db.keys(prefix=b"00")] == [b"%03d" % i for i in range(10)]
            async with await db.snapshot() as snapshot:
                await db.delete_range(prefix=b"")
                assert len([item async for item in snapshot.items()]) == 200
            async with await db.write_batch() as batch:
                await batch.put(b"k", b"v")
            assert await db.get(b"k") == b"v"
            with pytest.raises(TypeError):
                await db.get("k")
        with pytest.raises(cleavedb.Closed):
            await db.get(b"k")

    asyncio.run(main())


def test_a_change_comes_when_it_is_there(tmp_path):
    async def main():
        async with cleavedb.aio.open(tmp_path / "db", change_retention_bytes="1MiB") as db:
            await db.put(b"k", b"v")
            changes = db.changes(wait=600)
            [change] = await asyncio.wait_for(changes.__anext__(), 10)
            assert (change["key"], change["value"]) == (b"k", b"v")

    asyncio.run(main())
