import cleavedb
import pytest


@pytest.fixture
def db(tmp_path):
    with cleavedb.open(tmp_path / "db", durability="os") as db:
        yield db
